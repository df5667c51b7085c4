"""Which rules hold at a time, for a client at an address: a mask, bit n for rule n, without looking at each rule.

Knows: rules and their conditions. Pure: the time and the address come in; what is remembered changes no answer.
Must not know: callers, models, how rules decide, clocks, sockets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate
from operator import xor
from typing import Final
from zoneinfo import ZoneInfo

from gateway.policy.conditions import Window, address_of
from gateway.policy.rules import Effect, Rule

# Addresses remembered per policy: more than call within a moment. 5 MB at worst, with as many rules as there may be.
PEERS_LIMIT: Final = 4096

MINUTE: Final = 60  # seconds; the clocks of all zones have changed at whole minutes since 1972


class _Zone:
    """The windows of one time zone: which rules are open in each part of the day, by the day on which they opened."""

    __slots__ = ("_begins", "_clock", "_days", "_evening", "_morning")

    def __init__(self, clock: ZoneInfo, windows: Iterable[tuple[Window, int]]) -> None:
        """`windows`: each with the rules that have it; no rule has two."""
        self._clock: Final = clock
        self._days = [0] * 7
        # What opens or closes at a minute of the day: windows that opened on this day, and on the day before.
        evening, morning = defaultdict[int, int](int), defaultdict[int, int](int)
        for window, rules in windows:
            for day in window.days:
                self._days[day] |= rules
            evening[window.begin] ^= rules
            if window.begin < window.end:
                evening[window.end] ^= rules
            else:
                morning[0] ^= rules
                morning[window.end] ^= rules
        self._begins: Final[list[int]] = sorted({0, *evening, *morning})
        self._evening: Final[list[int]] = [*accumulate((evening[minute] for minute in self._begins), xor)]
        self._morning: Final[list[int]] = [*accumulate((morning[minute] for minute in self._begins), xor)]

    def open(self, at: int) -> int:
        """The rules whose window is open `at` this UNIX time; see `Window.holds`."""
        wall = datetime.fromtimestamp(at, self._clock)
        day, part = wall.weekday(), bisect_right(self._begins, wall.hour * 60 + wall.minute) - 1
        return self._days[day] & self._evening[part] | self._days[day - 1] & self._morning[part]


class Holding:
    """Of these rules, numbered as they come, those that hold.

    What is open is looked up once a minute, once for each zone; an address once for each length that a prefix has.
    """

    __slots__ = (
        "_all",
        "_minute",
        "_networked",
        "_networks",
        "_open",
        "_peers",
        "_unplaced",
        "_windowed",
        "_zones",
        "unknown",
    )

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._all: Final = (1 << len(rules)) - 1
        numbered = [(1 << number, rule) for number, rule in enumerate(rules)]
        denies = sum(bit for bit, rule in numbered if rule.effect is Effect.DENY)
        #: Those that hold where nothing is known of time and address: a condition does not let in, and denies.
        self.unknown: Final = denies | sum(bit for bit, rule in numbered if not rule.conditional)
        self._windowed: Final = sum(bit for bit, rule in numbered if rule.window is not None)
        self._networked: Final = sum(bit for bit, rule in numbered if rule.networks)
        self._unplaced: Final = self._networked & denies
        windows: dict[str, dict[Window, int]] = {}
        #: By version of the protocol and bits behind the prefix: the rules by the prefix.
        self._networks: dict[tuple[int, int], dict[int, int]] = {}
        for bit, rule in numbered:
            if rule.window is not None:
                same = windows.setdefault(rule.window.zone, {})
                same[rule.window] = same.get(rule.window, 0) | bit
            for network in rule.networks:
                behind = network.max_prefixlen - network.prefixlen
                table = self._networks.setdefault((network.version, behind), {})
                prefix = int(network.network_address) >> behind
                table[prefix] = table.get(prefix, 0) | bit
        self._zones: Final = [_Zone(ZoneInfo(zone), same.items()) for zone, same in windows.items()]
        self._minute, self._open = 0, self._now(0)
        self._peers: dict[str, int] = {}

    def at(self, at: float, peer: str | None) -> int:
        """Those that hold `at` this UNIX time for a client at `peer`; None or no address: nobody knows it."""
        holding = self._all
        if self._zones:
            minute = int(at // MINUTE)
            if minute != self._minute:  # also of a clock that was put back
                self._open, self._minute = self._now(minute), minute
            holding = self._open
        if self._networked:
            here = self._peers.get(peer or "")
            holding &= self._placed(peer or "") if here is None else here
        return holding

    def _now(self, minute: int) -> int:
        """All rules but those whose window is closed in this minute."""
        holding = self._all & ~self._windowed
        for zone in self._zones:
            holding |= zone.open(minute * MINUTE)
        return holding

    def _placed(self, peer: str) -> int:
        """All rules but those whose networks the client is outside of."""
        address = address_of(peer)
        inside = self._unplaced
        if address is not None:
            inside, number, version = 0, int(address), address.version
            for (of, behind), table in self._networks.items():
                if of == version:
                    inside |= table.get(number >> behind, 0)
        here = self._all & ~self._networked | inside
        if len(self._peers) >= PEERS_LIMIT:
            del self._peers[next(iter(self._peers))]
        self._peers[peer] = here
        return here

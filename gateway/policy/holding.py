"""Which rules hold at a time, for a client at an address: a mask, bit n for rule n, without looking at each rule.

Knows: rules and their conditions. Pure: the time and the address come in; what is remembered changes no answer.
Must not know: callers, models, how rules decide, clocks, sockets.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from gateway.policy.conditions import Window, address_of
from gateway.policy.rules import Effect, Rule

# Addresses remembered per policy: more than call within a moment. 5 MB at worst, with as many rules as there may be.
PEERS_LIMIT: Final = 4096

MINUTE: Final = 60  # seconds; the clocks of all zones have changed at whole minutes since 1972


class Holding:
    """Of these rules, numbered as they come, those that hold.

    Windows are asked once a minute, each once however many rules have it. An address is looked up once for each length
    that a prefix has.
    """

    __slots__ = (
        "_all",
        "_minute",
        "_networked",
        "_networks",
        "_open",
        "_peers",
        "_unplaced",
        "_windows",
        "_zones",
        "unknown",
    )

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._all: Final = (1 << len(rules)) - 1
        self._windows: dict[str, dict[Window, int]] = {}
        # Kept here: the library keeps eight, and reads the others from their files again.
        self._zones: dict[str, ZoneInfo] = {}
        #: By version of the protocol and bits behind the prefix: the rules by the prefix.
        self._networks: dict[tuple[int, int], dict[int, int]] = {}
        self._networked = self._unplaced = self._minute = 0
        denies_if = 0
        for number, rule in enumerate(rules):
            bit = 1 << number
            self._add(rule, bit)
            if rule.effect is Effect.DENY and rule.conditional:
                denies_if |= bit
        #: Those that hold where nothing is known of time and address: a condition does not let in, and denies.
        self.unknown: Final = denies_if | sum(1 << n for n, rule in enumerate(rules) if not rule.conditional)
        self._open = self._closed_out(0)
        self._peers: dict[str, int] = {}

    def at(self, at: float, peer: str | None) -> int:
        """Those that hold `at` this UNIX time for a client at `peer`; None or no address: nobody knows it."""
        holding = self._all
        if self._windows:
            minute = int(at // MINUTE)
            if minute != self._minute:  # also of a clock that was put back
                self._open, self._minute = self._closed_out(minute), minute
            holding = self._open
        if self._networked:
            here = self._peers.get(peer or "")
            holding &= self._placed(peer or "") if here is None else here
        return holding

    def _add(self, rule: Rule, bit: int) -> None:
        if rule.window is not None:
            zone = rule.window.zone
            self._zones[zone] = ZoneInfo(zone)
            same = self._windows.setdefault(zone, {})
            same[rule.window] = same.get(rule.window, 0) | bit
        if not rule.networks:
            return
        self._networked |= bit
        if rule.effect is Effect.DENY:
            self._unplaced |= bit
        for network in rule.networks:
            behind = network.max_prefixlen - network.prefixlen
            table = self._networks.setdefault((network.version, behind), {})
            prefix = int(network.network_address) >> behind
            table[prefix] = table.get(prefix, 0) | bit

    def _closed_out(self, minute: int) -> int:
        """All rules but those whose window is closed in this minute."""
        closed = 0
        for zone, windows in self._windows.items():
            wall = datetime.fromtimestamp(minute * MINUTE, self._zones[zone])
            day, shown = wall.weekday(), wall.hour * 60 + wall.minute
            for window, rules in windows.items():
                if not window.shows(day, shown):
                    closed |= rules
        return self._all & ~closed

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

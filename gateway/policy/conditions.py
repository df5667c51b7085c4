"""When and from where a rule holds.

Knows: days and hours of a time zone, networks of clients. Pure: the time and the address come in.
Must not know: rules, clocks, sockets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from zoneinfo import ZoneInfo

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

#: In the order of `datetime.weekday`.
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ALL_DAYS = frozenset(range(7))
DAY = 24 * 60  # minutes


@dataclass(frozen=True, slots=True)
class Window:
    """Days of the week and hours of the day by the clock on the wall of a time zone.

    `begin` and `end` are minutes of the day, `end` itself not included; where `end` is not later than `begin` the
    hours end on the next day, and `days` are those on which they begin. The clock on the wall decides also where it is
    put forward or back: an hour that is left out never is, one that is shown twice is both times.
    """

    zone: str
    days: frozenset[int] = ALL_DAYS
    begin: int = 0
    end: int = DAY

    def holds(self, at: float) -> bool:
        """Whether it is open `at` this UNIX time."""
        wall = datetime.fromtimestamp(at, ZoneInfo(self.zone))
        return self.shows(wall.weekday(), wall.hour * 60 + wall.minute)

    def shows(self, day: int, minute: int) -> bool:
        """Whether it is open while the wall shows this day of the week and minute of the day."""
        if self.begin < self.end:
            return self.begin <= minute < self.end and day in self.days
        return (minute >= self.begin and day in self.days) or (minute < self.end and (day - 1) % 7 in self.days)


def address_of(text: str) -> Address | None:
    """The address a client has; None for what is none. One of IPv4 that is written as IPv6 is the former."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(found, IPv6Address) and found.ipv4_mapped) or found


def within(address: Address | None, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of them; one that nobody knows is in none."""
    return address is not None and any(address in network for network in networks)

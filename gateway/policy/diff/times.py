"""Which times can windows tell apart?

Knows: windows, and that they hang on the day of the week and the clock on the wall of a zone alone: while no zone
changes its time, one week shows all there is. Pure. Must not know: rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from gateway.policy.conditions import Window

SPAN: Final = 366  # days that are looked at: every change of time that comes each year is within
_DAY: Final = 86_400  # seconds
_WEEK: Final = 7 * _DAY

# An offset of each zone, in seconds.
_Offsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Instant:
    """A UNIX time, and the zone in whose words it is told."""

    at: float
    zone: str


def monday(at: float) -> float:
    """The first second of the week of `at` by UTC."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (day - timedelta(days=day.weekday())).timestamp()


def instants(windows: Collection[Window], now: float) -> Iterator[Instant]:
    """At least one instant for each set of `windows` that are ever open together in the year from this week on."""
    if not windows:
        yield Instant(monday(now), "UTC")
        return
    zones = sorted({window.zone for window in windows})
    bounds = sorted({(window.zone, minute) for window in windows for minute in (window.begin, window.end, 0)})
    for begin, end, offsets in _spans(zones, monday(now)):
        found = {begin: zones[0]}
        for zone, minute in bounds:
            shift = 60 * minute - offsets[zones.index(zone)]
            at = begin + (shift - begin) % _DAY
            found |= {moment: zone for day in range(8) if (moment := at + day * _DAY) < end}
        yield from (Instant(at, zone) for at, zone in sorted(found.items()))


def _spans(zones: list[str], start: float) -> Iterator[tuple[float, float, _Offsets]]:
    """Stretches of time in which no zone changes, each at most a week long; a whole week is not shown twice."""
    whole: set[_Offsets] = set()
    edges = _edges(zones, start)
    for begin, end in pairwise(edges):
        offsets = _offsets(zones, begin)
        if offsets not in whole:
            yield begin, min(end, begin + _WEEK), offsets
        if end - begin >= _WEEK:
            whole.add(offsets)


def _edges(zones: list[str], start: float) -> list[float]:
    """`start`, every second at which a zone changes its time in the year from there, and the end of that."""
    edges = [start]
    for day in range(SPAN):
        low, high = start + day * _DAY, start + (day + 1) * _DAY
        while (before := _offsets(zones, low)) != _offsets(zones, high):
            left, right = low, high
            while right - left > 1:
                middle = (left + right) // 2
                left, right = (middle, right) if _offsets(zones, middle) == before else (left, middle)
            edges.append(right)
            low = right
    return [*edges, start + SPAN * _DAY]


def _offsets(zones: list[str], at: float) -> _Offsets:
    moment = datetime.fromtimestamp(at, UTC)
    return tuple(int(_offset(moment.astimezone(ZoneInfo(zone))).total_seconds()) for zone in zones)


def _offset(wall: datetime) -> timedelta:
    return wall.utcoffset() or timedelta()

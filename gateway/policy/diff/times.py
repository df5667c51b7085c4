"""Which times can windows tell apart?

Knows: windows, and that they hang on the day of the week and the clock on the wall of a zone alone: while no zone
changes its time, one week shows all there is. Pure. Must not know: rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from gateway.policy.conditions import Window

SPAN: Final = 366  # days that are looked at: every change of time that comes each year is within
_DAY: Final = 86_400  # seconds
_WEEK: Final = 7 * _DAY

# Zones whose changes are remembered: there are some six hundred names. Offsets: as many as one call of 20 zones needs.
_ZONES: Final = 1024
_OFFSETS: Final = 16_384

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
    changes = {at for zone in zones for at in _changes(zone, start)}
    return [start, *sorted(changes), start + SPAN * _DAY]


@lru_cache(_ZONES)
def _changes(zone: str, start: float) -> tuple[float, ...]:
    """Every second at which this zone changes its time in the year from `start`."""
    found = []
    for day in range(SPAN):
        low, high = start + day * _DAY, start + (day + 1) * _DAY
        while (before := _offset(zone, low)) != _offset(zone, high):
            left, right = low, high
            while right - left > 1:
                middle = (left + right) // 2
                left, right = (middle, right) if _offset(zone, middle) == before else (left, middle)
            found.append(right)
            low = right
    return tuple(found)


def _offsets(zones: list[str], at: float) -> _Offsets:
    return tuple(_offset(zone, at) for zone in zones)


@lru_cache(_OFFSETS)
def _offset(zone: str, at: float) -> int:
    return int((datetime.fromtimestamp(at, ZoneInfo(zone)).utcoffset() or timedelta()).total_seconds())

"""Times and windows in words.

Knows: how people write them. Must not know: rules.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from gateway.policy.conditions import ALL_DAYS, DAY, DAYS, Window

#: RFC 3339 section 5.6, but seconds may be left out. A zone says which moment it is.
FORM: Final = (
    r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_WRITTEN: Final = re.compile(FORM)
_LAST: Final = 253402300799.0  # the end of the year 9999, beyond which no time can be written


def moment(text: str) -> float:
    """UNIX time of a date and time of RFC 3339, with its zone. Raises `ValueError` with what is wrong."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is not None and found.tzinfo is None:
        raise ValueError(f"{text!r} names no zone; end it with Z, or with an offset like +01:00")
    if found is None or _WRITTEN.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no time; expected one like 2026-03-02T09:30:00+01:00")
    at = found.timestamp()
    if not 0 <= at <= _LAST:
        raise ValueError(f"{text!r} is out of range")
    return at


def written(at: float) -> str:
    """A UNIX time as `moment` reads it, in UTC; for programs."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def shown(at: float, zone: str = "") -> str:
    """A moment by the clock on the wall of a time zone, with the day; in UTC where none is named."""
    wall = datetime.fromtimestamp(at, ZoneInfo(zone) if zone else UTC)
    return f"{DAYS[wall.weekday()]} {wall:%Y-%m-%d %H:%M} {zone or 'UTC'}"


def spoken(window: Window) -> str:
    """The window as it is written in a rule."""
    days = "every day" if window.days == ALL_DAYS else ", ".join(DAYS[day] for day in sorted(window.days))
    whole = (window.begin, window.end) == (0, DAY)
    return f"{days}{'' if whole else f' {_clock(window.begin)}-{_clock(window.end % DAY)}'} {window.zone}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"

"""Set up logging: one JSON line per event on standard error, and only so many of each kind.

Knows: format, level, how often. Must not know: what is logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import orjson

# A line is for a reader; what is longer is cut.
_MESSAGE_LIMIT = 4096

# Lines of one event in so many seconds; more are left out, and counted in the next one that is written. Callers can
# bring some events about as often as they like; nothing that happens by itself comes near this.
_LINES = 300
_SECONDS = 60.0


class JsonLines(logging.Formatter):
    """time, level, logger and event; an exception's trace as one field, so that a line stays a line."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage()[:_MESSAGE_LIMIT],
        }
        if record.exc_info:
            facts["trace"] = self.formatException(record.exc_info)[-_MESSAGE_LIMIT:]
        if left_out := getattr(record, "left_out", 0):
            facts["left_out"] = left_out
        return orjson.dumps(facts, default=str).decode()


class Thinning(logging.Filter):
    """Lets so many lines of an event through. An event is the place in the code that tells of it, so they are few."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[tuple[str, int], _Told] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, place = self._clock(), (record.pathname, record.lineno)
        told = self._told.get(place)
        if told is None:
            told = self._told[place] = _Told(now)
        if now - told.since >= _SECONDS:
            told.since, told.lines = now, 0
        if told.lines >= _LINES:
            told.left_out += 1
            return False
        told.lines += 1
        record.left_out, told.left_out = told.left_out, 0
        return True


class _Told:
    __slots__ = ("left_out", "lines", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.lines = self.left_out = 0


def configure(level: int = logging.INFO) -> None:
    """Send events of this package to standard error; libraries only from warnings up.

    The parser of forms warns of each one that a caller got wrong, which the refusal says already.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(Thinning())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gateway").setLevel(level)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)

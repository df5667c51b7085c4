"""Set up logging: one JSON line per event on standard error.

Knows: format and level. Must not know: what is logged.
"""

from __future__ import annotations

import logging
import time

import orjson

# A line is for a reader; what is longer is cut.
_MESSAGE_LIMIT = 4096


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
        return orjson.dumps(facts, default=str).decode()


def configure(level: int = logging.INFO) -> None:
    """Send events of this package to standard error; libraries only from warnings up.

    The parser of forms warns of each one that a caller got wrong, which the refusal says already.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gateway").setLevel(level)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)

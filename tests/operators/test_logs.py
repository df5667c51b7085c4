"""The log: lines of JSON, and no more of them than a reader can take, whatever callers do."""

from __future__ import annotations

import json
import logging

from gateway.logs import JsonLines, Thinning


class Log:
    """A log as it is set up, whose clock is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self._thinning = Thinning(lambda: self.now)

    def tell(self, text: str, line: int = 1) -> None:
        record = logging.LogRecord("gateway", logging.WARNING, "file.py", line, "told %s", (text,), None)
        if self._thinning.filter(record):
            self.lines.append(JsonLines().format(record))


def test_a_flood_of_one_event_is_bounded_and_the_next_line_says_how_many_are_missing() -> None:
    log = Log()
    for number in range(10_000):
        log.tell(f"by {number}")
    assert 10 <= len(log.lines) <= 1000
    written = len(log.lines)
    log.now += 3600
    log.tell("again")
    log.tell("and again")
    again, after = map(json.loads, log.lines[written:])
    assert again["left_out"] == 10_000 - written
    assert "left_out" not in after


def test_a_flood_of_one_event_hides_no_other() -> None:
    log = Log()
    for number in range(10_000):
        log.tell(f"flood {number}", line=1)
    log.tell("the other", line=2)
    assert json.loads(log.lines[-1])["event"] == "told the other"

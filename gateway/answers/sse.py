"""The grammar of event streams: where events end, and what one says.

Knows: https://html.spec.whatwg.org/multipage/server-sent-events.html section 9.2.5 and 9.2.6.
Must not know: HTTP, models, usage.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: How a stream may end after a whole event; lines end in LF, CR or CRLF, and a CR that an LF may yet follow is one.
EDGES = (b"\n\n", b"\n\r\n", b"\r\r", b"\r\r\n", b"\n\r")

#: Bytes before new ones that can be part of an edge with them.
OVERLAP = 2

_LINE = re.compile(rb"\r\n|\n|\r")
_EDGE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name ("" for none) and its data lines, joined."""

    name: bytes
    data: bytes


def last_edge(text: bytes | bytearray, start: int) -> int:
    """Offset behind the last event that ends at or after `start`; -1 when none does."""
    if text.endswith(EDGES):
        return len(text)
    end = -1
    for found in _EDGE.finditer(text, start):
        end = found.end()
    return end


def first_edge(text: bytes | bytearray) -> int:
    """Offset behind the first event that ends; -1 when none does."""
    found = _EDGE.search(text)
    return found.end() if found is not None else -1


def split(text: bytes) -> list[bytes]:
    """The events of a text that ends at an edge, each without its blank line."""
    return [event for event in _EDGE.split(text) if event.strip(b"\r\n")]


def event(text: bytes) -> Event:
    """Read one event. Comments and unknown fields are skipped."""
    name = b""
    data = []
    for line in _LINE.split(text):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return Event(name, b"\n".join(data))

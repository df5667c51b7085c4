"""Write heads and chunks. Knows: RFC 9112 syntax. Must not know: which fields may cross (`headers` does)."""

from __future__ import annotations

from http import HTTPStatus

from gateway.call import FieldBlock, Fields

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode("ascii")) for status in HTTPStatus
}

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def status_line(status: int) -> bytes:
    """The status line; a status without a registered phrase has an empty one."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def lines(fields: Fields) -> bytes:
    """Field lines, each ended; the caller has made sure that no value holds a line end."""
    parts: list[bytes] = []
    for name, value in fields:
        parts += (name, b": ", value, b"\r\n")
    return b"".join(parts)


def block(fields: FieldBlock) -> bytes:
    """Field lines of a shared block, rendered once."""
    rendered = fields.rendered
    if rendered is None:
        rendered = fields.rendered = lines(fields.fields)
    return rendered


def chunk(piece: bytes) -> bytes:
    """One chunk; `piece` must not be empty, which would end the message."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)

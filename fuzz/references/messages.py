"""HTTP/1.1 messages as `h11` and both parsers of aiohttp read them: one whole message, or a reason.

Knows: how each is fed, and in which words it refuses. Must not know: the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import h11
from aiohttp import http_parser
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError

LARGE = 1 << 20  # bytes; none of the bounds of a reference is to be met

Fields = list[tuple[bytes, bytes]]


class Reading(NamedTuple):
    """A request (`start`: method and target) or an answer (`start`: the status), names in lower case."""

    start: tuple[bytes, ...]
    fields: Fields
    body: bytes


class Refused(Exception):  # noqa: N818  it is what a reference says, not an error of ours
    """The reference takes no such message; the text says why."""


def request_by_h11(message: bytes) -> Reading:
    """Raises `Refused`."""
    return _by_h11(h11.Connection(h11.SERVER, LARGE), message)


def answer_by_h11(message: bytes, method: str, *, closed: bool) -> Reading:
    """The answer to a request with this method; `closed`: the connection ends behind it. Raises `Refused`."""
    client = h11.Connection(h11.CLIENT, LARGE)
    client.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    return _by_h11(client, message, closed=closed)


def _by_h11(end: h11.Connection, message: bytes, *, closed: bool = False) -> Reading:
    start: tuple[bytes, ...] = ()
    fields: Fields = []
    body = b""
    try:
        for piece in (message, b"") if closed else (message,):
            end.receive_data(piece)
            while (event := end.next_event()) is not h11.NEED_DATA:
                match event:
                    case h11.Request():
                        start, fields = (event.method, event.target), list(event.headers)
                    case h11.Response():
                        start, fields = (b"%d" % event.status_code,), list(event.headers)
                    case h11.Data():
                        body += event.data
                    case h11.EndOfMessage():
                        if rest := end.trailing_data[0]:
                            raise Refused(f"{len(rest)} bytes too many")
                        return Reading(start, fields, body)
                    case h11.InformationalResponse():
                        pass
                    case _:
                        raise Refused(f"{event!r} came before the end")
    except h11.RemoteProtocolError as refused:
        raise Refused(str(refused)) from refused
    raise Refused("more is waited for")


LOOP = asyncio.AbstractEventLoop()  # type: ignore[abstract]  # parsers ask for one, and never use it here
Parser = Callable[..., http_parser.HttpRequestParser]


def _by_aiohttp(parser: Parser, message: bytes) -> Reading:
    reader = parser(
        BaseProtocol(LOOP), LOOP, LARGE, max_line_size=LARGE, max_field_size=LARGE, auto_decompress=False
    )  # fmt: skip
    try:
        found, _, tail = reader.feed_data(message)
        if len(found) != 1 or tail:
            raise Refused(f"{len(found)} requests and {len(tail)} bytes")
        [(head, payload)] = found
        body = payload.read_nowait()
    except (HttpProcessingError, ValueError, LookupError) as refused:
        raise Refused(f"{type(refused).__name__}: {refused}") from refused
    if not payload.is_eof():
        raise Refused("more is waited for")
    fields = [(name.lower(), value.strip(b" \t")) for name, value in head.raw_headers]
    return Reading((head.method.encode(), head.path.encode("utf-8", "surrogateescape")), fields, body)


def request_by_aiohttp(message: bytes) -> Reading:
    """The parser in Python. Raises `Refused`."""
    return _by_aiohttp(http_parser.HttpRequestParserPy, message)


def request_by_aiohttp_c(message: bytes) -> Reading:
    """The parser in C, which stands on llhttp as ours does. Raises `Refused`."""
    return _by_aiohttp(http_parser.HttpRequestParserC, message)


#: By the names that the tables of differences use.
REQUESTS: dict[str, Callable[[bytes], Reading]] = {
    "h11": request_by_h11,
    "aiohttp": request_by_aiohttp,
    "aiohttp-c": request_by_aiohttp_c,
}

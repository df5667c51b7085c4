"""What a stub backend can be told to answer: scripts of bytes, pauses and endings.

Knows: HTTP/1.1 as bytes. Must not know: sockets, who plays the script.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class Then(Enum):
    """What a script can do besides writing bytes (`bytes`) and pausing (`float`, seconds)."""

    CLOSE = "close the connection"
    RESET = "reset the connection"
    WAIT = "keep still until the other side closes"


Step = bytes | float | Then
Script = Sequence[Step]

LAST_CHUNK = b"0\r\n\r\n"


def head(status: int = 200, *lines: str) -> bytes:
    """A response head with these header lines."""
    return "\r\n".join((f"HTTP/1.1 {status} Stub", *lines, "", "")).encode("latin-1")


def sized(body: bytes = b'{"stub":true}', status: int = 200, *lines: str, kind: str = "application/json") -> Script:
    """A whole answer with `Content-Length`."""
    return (head(status, f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines) + body,)


def cut(body: bytes, promised: int, ending: Then = Then.CLOSE, *, kind: str = "application/json") -> Script:
    """An answer that promises more bytes than it sends, and then ends so."""
    return (head(200, f"Content-Type: {kind}", f"Content-Length: {promised}") + body, ending)


def until_close(body: bytes, *, kind: str = "application/json") -> Script:
    """An answer without a length: the end of the connection is its end (RFC 9112 §6.3)."""
    return (head(200, f"Content-Type: {kind}", "Connection: close") + body, Then.CLOSE)


def chunk(piece: bytes) -> bytes:
    """One piece in chunked coding (RFC 9112 §7.1)."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def chunked(
    pieces: Sequence[bytes], every: float = 0.0, *, kind: str = "application/json", end: Script = (LAST_CHUNK,)
) -> Script:
    """An answer in chunks, a pause after each; an `end` other than the last chunk makes it one that breaks off."""
    steps: list[Step] = [head(200, f"Content-Type: {kind}", "Transfer-Encoding: chunked")]
    for piece in pieces:
        steps += [chunk(piece), every] if every else [chunk(piece)]
    return (*steps, *end)


def events(count: int) -> list[bytes]:
    """Chat-completion events, each its own bytes; the last one is `[DONE]`."""
    opening = b'data: {"id":"chatcmpl-stub","object":"chat.completion.chunk","model":"m","choices":'
    bodies = (b'[{"index":0,"delta":{"content":"word-%d "},"finish_reason":null}]}\n\n' % n for n in range(count))
    return [*(opening + body for body in bodies), b"data: [DONE]\n\n"]


def sse(pieces: Sequence[bytes], every: float = 0.0, *, end: Script = (LAST_CHUNK,)) -> Script:
    """An event stream in chunks."""
    return chunked(pieces, every, kind="text/event-stream", end=end)

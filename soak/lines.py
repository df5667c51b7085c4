"""A caller's connection: requests as bytes out, whole answers in, and where one may break off.

Knows: HTTP/1.1 over TLS as far as a correct client needs it. Must not know: the gateway, what an answer should be.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

HEAD_LIMIT = 256 * 1024
PIECE = 64 * 1024
LINGER_ZERO = struct.pack("ii", 1, 0)


class Broken(Exception):  # noqa: N818  named for what happened
    """The connection ended before the answer did. `started`: after its first byte."""

    def __init__(self, why: str, *, started: bool) -> None:
        super().__init__(why)
        self.started = started


@dataclass(frozen=True, slots=True)
class Got:
    """A whole answer; names of fields in lower case."""

    status: int
    fields: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a slow reader reads: so many bytes, then a pause in seconds."""

    bytes: int
    pause: float


def request(
    path: str, token: str, body: bytes, *, chunks: int = 0, kind: str = "application/json", more: str = ""
) -> bytes:
    """A POST. With `chunks`, in that many pieces of chunked coding (RFC 9112 §7.1)."""
    framing = "Transfer-Encoding: chunked" if chunks else f"Content-Length: {len(body)}"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: {kind}\r\n{more}{framing}\r\n\r\n"
    return head.encode() + (chunked(body, chunks) if chunks else body)


def chunked(body: bytes, count: int) -> bytes:
    """`body` in about `count` chunks."""
    size = max(1, len(body) // count)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def call(model: str, marker: str, **more: object) -> bytes:
    """A chat call that carries a marker, which the stubs say back."""
    message = {"role": "user", "content": marker}
    return json.dumps({"model": model, "messages": [message], "max_tokens": 8, **more}).encode()


class Line:
    """One connection to the gateway, in TLS unless `tls` is None."""

    __slots__ = ("_reader", "_writer", "used_at")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.used_at = time.monotonic()

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext | None) -> Line:
        """Connect; raises OSError."""
        name = None if tls is None else "localhost"
        made = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name, limit=HEAD_LIMIT)
        return cls(*made)

    async def send(self, data: bytes) -> None:
        """Write it all; raises `Broken` when the other side is gone."""
        self.used_at = time.monotonic()
        self._writer.write(data)
        try:
            await self._writer.drain()
        except OSError as error:
            raise Broken(f"sending: {error!r}", started=False) from error

    async def answer(self, pace: Pace | None = None) -> Got:
        """The next whole answer, interim ones left out; raises `Broken`."""
        started = False
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            started = True
            while head.startswith(b"HTTP/1.1 1"):
                head = await self._reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            parted = (line.partition(":") for line in lines if line)
            fields = {name.lower(): value.strip() for name, _, value in parted}
            body = await self._body(fields, pace)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Broken(repr(error), started=started) from error
        self.used_at = time.monotonic()
        return Got(int(first.split(" ", 2)[1]), fields, body)

    async def _body(self, fields: Mapping[str, str], pace: Pace | None) -> bytes:
        if fields.get("transfer-encoding") == "chunked":
            whole = bytearray()
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                whole += (await self._exactly(size + 2, pace))[:-2]
            await self._reader.readuntil(b"\r\n")
            return bytes(whole)
        if "content-length" in fields:
            return await self._exactly(int(fields["content-length"]), pace)
        return await self._reader.read()

    async def _exactly(self, size: int, pace: Pace | None) -> bytes:
        if pace is None:
            return await self._reader.readexactly(size)
        whole = bytearray()
        while len(whole) < size:
            whole += await self._reader.readexactly(min(pace.bytes, size - len(whole)))
            await asyncio.sleep(pace.pause)
        return bytes(whole)

    async def some(self, most: int) -> bytes:
        """At most so many bytes of whatever comes; b"" at the end, however it ends."""
        try:
            return await self._reader.read(most)
        except OSError:
            return b""

    async def rest(self) -> bytes:
        """All that still comes."""
        whole = b""
        while piece := await self.some(PIECE):
            whole += piece
        return whole

    @property
    def closed(self) -> bool:
        """True when the other side has closed it or it was closed here."""
        return self._reader.at_eof() or self._writer.is_closing()

    def leave(self, *, reset: bool = False) -> None:
        """Go without a word; with `reset` as a machine that lost power: RST (with its linger) instead of FIN."""
        raw: socket.socket | None = self._writer.get_extra_info("socket")
        if reset and raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_ZERO)
        self._writer.transport.abort()

"""A relay that does nothing else, as a floor under every figure: `python -m bench.floor CRT KEY PORT BACKEND…`.

Two protocols on one parser, the least busy backend, and that is all: no identity, no policy, no limit, no time-out, no
back-pressure. What the gateway costs above it is what the gateway does. Never meant to face a network.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import Any, cast

import httptools
import uvloop

DROPPED = frozenset({b"host", b"connection", b"keep-alive", b"authorization", b"transfer-encoding", b"content-length"})


class Backend:
    """Where to connect, the connections at rest, the calls under way."""

    __slots__ = ("calls", "port", "resting")

    def __init__(self, port: int) -> None:
        self.port, self.calls = port, 0
        self.resting: list[Upward] = []


class Upward(asyncio.Protocol):
    """A connection to a backend: the head is written anew, bodies pass as the bytes they are."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._client: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self in self._backend.resting:
            self._backend.resting.remove(self)
        if self._client is not None:
            self._client.abort()

    def ask(self, client: asyncio.Transport, request: bytes) -> None:
        """Send `request`; its answer goes to `client`."""
        self._client, self._head, self._whole = client, [b""], False
        self._headers: bytes | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._transport.write(request)

    def leave(self, client: asyncio.Transport) -> None:
        """`client` is gone: if its answer is under way, nobody wants the rest."""
        if self._client is client:
            self._client = None
            self._backend.calls -= 1
            self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head.append(b"%b: %b\r\n" % (name, value))

    def on_headers_complete(self) -> None:
        self._head[0] = b"HTTP/1.1 %d OK\r\n" % self._parser.get_status_code()
        self._headers = b"".join(self._head) + b"\r\n"

    def on_message_complete(self) -> None:
        self._whole = True

    def data_received(self, data: bytes) -> None:
        if self._client is None:
            self._transport.abort()
            return
        fresh = self._headers is None
        self._parser.feed_data(data)
        if fresh and self._headers is not None:
            data = self._headers + data[data.find(b"\r\n\r\n") + 4 :]
        self._client.write(data)
        if self._whole:
            self._client = None
            self._backend.calls -= 1
            self._backend.resting.append(self)


class Downward(asyncio.Protocol):
    """A connection from a client."""

    def __init__(self, backends: list[Backend], group: asyncio.TaskGroup) -> None:
        self._backends, self._group = backends, group
        self._parser: Any = httptools.HttpRequestParser(self)
        self._lines: list[bytes] = []
        self._body: list[bytes] = []
        self._upward: Upward | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._upward is not None:
            self._upward.leave(self._transport)

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() not in DROPPED:
            self._lines.append(b"%b: %b\r\n" % (name, value))

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        first = b"%b %b HTTP/1.1\r\nhost: backend\r\n" % (self._parser.get_method(), self._url)
        request = b"".join((first, *self._lines, b"content-length: %d\r\n\r\n" % len(body), body))
        self._lines, self._body = [], []
        backend = min(self._backends, key=lambda one: one.calls)
        backend.calls += 1
        if backend.resting:
            self._upward = backend.resting.pop()
            self._upward.ask(self._transport, request)
        else:
            self._group.create_task(self._over_a_new_one(backend, request))

    async def _over_a_new_one(self, backend: Backend, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, self._upward = await loop.create_connection(lambda: Upward(backend), "127.0.0.1", backend.port)
        self._upward.ask(self._transport, request)


async def main(certificate: str, key: str, port: int, backends: list[Backend]) -> None:
    """Relay until ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        server = await loop.create_server(lambda: Downward(backends, group), "127.0.0.1", port, ssl=context)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), [Backend(int(word)) for word in sys.argv[4:]]))

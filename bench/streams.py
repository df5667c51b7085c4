"""Many connections at once: open streams that count their events, idle connections, calls timed to the first event.

Knows: asyncio, chunked event streams as far as counting goes. Must not know: which server is asked.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from bench.load import LoadFailedError

OPENING_AT_ONCE = 64  # handshakes under way; more only queue in the server
OPEN_LIMIT = 60.0  # seconds to open all: 5 000 handshakes on two cores take about ten
FIRST_LIMIT = 10.0  # seconds to a first event
EVENT = b"data: "
DONE = b"\r\n0\r\n\r\n"


class Tally:
    """Events seen by all streams, the reads they came in, and streams that ended although they should not have."""

    __slots__ = ("closing", "events", "lost", "reads")

    def __init__(self) -> None:
        self.events, self.reads, self.lost, self.closing = 0, 0, 0, False


class Stream(asyncio.Protocol):
    """One connection. `first` is done at the first byte of an answer's body, `whole` at the end of an answer."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.first: asyncio.Future[float] = loop.create_future()
        self.whole: asyncio.Future[None] = loop.create_future()
        self._tail, self._head = b"", b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one by shape only

    def connection_lost(self, _exc: Exception | None) -> None:
        self._tally.lost += not self._tally.closing
        for waiting in (self.first, self.whole):
            if not waiting.done():
                waiting.set_exception(LoadFailedError(f"the connection ended: {self._head[:60]!r}"))
                waiting.exception()  # seen: not every caller waits for both

    def ask(self, request: bytes) -> None:
        """Send a request; `first` and `whole` are new."""
        self.first, self.whole = self._loop.create_future(), self._loop.create_future()
        self._tail, self._head = b"", b""
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        if not self.first.done():
            self._begin(data)
        self._tally.reads += 1
        self._tally.events += data.count(EVENT)
        self._tail = (self._tail + data)[-8:]
        if self._tail.endswith((DONE, b"}")) and not self.whole.done():
            self.whole.set_result(None)

    def _begin(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            return
        if not self._head.startswith(b"HTTP/1.1 200 "):
            self.transport.abort()
        elif len(self._head) > end + 4:
            self.first.set_result(time.perf_counter())


class Crowd:
    """The open connections of one measurement."""

    __slots__ = ("_limit", "_port", "_tls", "members", "tally")

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        self._port, self._tls = port, tls
        self.tally = Tally()
        self.members: list[Stream] = []
        self._limit = asyncio.Semaphore(OPENING_AT_ONCE)

    async def join(self) -> Stream:
        """One more connection."""
        loop = asyncio.get_running_loop()
        name = "localhost" if self._tls else None
        _, stream = await loop.create_connection(
            lambda: Stream(self.tally), "127.0.0.1", self._port, ssl=self._tls, server_hostname=name
        )
        self.members.append(stream)
        return stream

    async def stream(self, request: bytes) -> None:
        """One more connection, with an answer begun on it."""
        async with self._limit:
            stream = await self.join()
            stream.ask(request)
            await asyncio.wait_for(stream.first, FIRST_LIMIT)

    async def rest(self, request: bytes) -> None:
        """One more connection that made one call and now rests."""
        async with self._limit:
            stream = await self.join()
            stream.ask(request)
            await asyncio.wait_for(stream.whole, FIRST_LIMIT)

    def check(self) -> None:
        """LoadFailedError when a connection was lost on the way."""
        if self.tally.lost:
            raise LoadFailedError(f"{self.tally.lost} of {len(self.members)} connections were lost")


@asynccontextmanager
async def crowd(port: int, tls: ssl.SSLContext | None) -> AsyncIterator[Crowd]:
    """An empty crowd; its connections are closed at the end."""
    made = Crowd(port, tls)
    try:
        yield made
    finally:
        made.tally.closing = True
        for stream in made.members:
            stream.transport.abort()
        await asyncio.sleep(0.3)  # the server notices before it is measured again


async def open_streams(made: Crowd, request: bytes, count: int) -> None:
    """`count` streams, each past its first event."""
    async with asyncio.timeout(OPEN_LIMIT), asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(made.stream(request))


async def open_idle(made: Crowd, request: bytes, count: int) -> None:
    """`count` connections at rest after one call each."""
    async with asyncio.timeout(OPEN_LIMIT), asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(made.rest(request))


async def first_events(port: int, tls: ssl.SSLContext | None, request: bytes, count: int, pause: float) -> list[float]:
    """Milliseconds from request to first event of `count` short streams, in turn on four kept connections."""
    times: list[float] = []
    async with crowd(port, tls) as made, asyncio.TaskGroup() as group:
        share = count // 4
        for _ in range(4):
            group.create_task(_probe(await made.join(), request, share, pause, times))
    return times


async def _probe(stream: Stream, request: bytes, count: int, pause: float, times: list[float]) -> None:
    for _ in range(count):
        await asyncio.sleep(pause)
        begin = time.perf_counter()
        stream.ask(request)
        times.append((await asyncio.wait_for(stream.first, FIRST_LIMIT) - begin) * 1000)
        await asyncio.wait_for(stream.whole, FIRST_LIMIT)

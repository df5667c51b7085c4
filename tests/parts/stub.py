"""A backend that does exactly as it is told, and writes down exactly what it got.

For the faults that no real server can be made to produce. It runs on a thread of its own, so that plain and async tests
use it alike. Knows: as much HTTP/1.1 as it needs to find where a request ends. Must not know: the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.parts.process import POLL, wait_until
from tests.parts.scripts import Script, Then, sized

T = TypeVar("T")

#: Requests with larger heads are a mistake of the test.
HEAD_LIMIT = 1024 * 1024
PROBES = re.compile(r"/v1/health/ready|/v2/health/ready|/v2/models/[^/]+/ready")
#: Seconds to start, stop or answer a question across the threads.
HURRY = 10.0

Choice = Callable[["Request"], Script]


@dataclass(slots=True)
class Request:
    """One request as it came. `head` and `raw_body` are the exact bytes, `body` is what they carry."""

    head: bytes
    connection: int
    raw_body: bytes = field(default=b"", repr=False)
    body: bytes = field(default=b"", repr=False)
    complete: bool = False
    #: `time.monotonic()` when the other side closed the connection, else None.
    closed: float | None = None
    #: Bytes of the answer that were taken from the stub.
    written: int = 0

    @property
    def method(self) -> str:
        return self.head.split(b" ", 2)[0].decode()

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode("latin-1")

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Header fields in order, names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        parted = (line.partition(":") for line in lines if line)
        return [(name.lower(), value.strip()) for name, _, value in parted]

    def values(self, name: str) -> list[str]:
        """All values of the header field `name` (lower case)."""
        return [value for key, value in self.fields if key == name]


def in_turn(*scripts: Script) -> Choice:
    """The first request gets the first script, and so on; the last one goes on for ever."""
    left = list(scripts)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class Stub:
    """A backend on a loopback port until `stop` (or the end of a `with` block).

    Health probes are answered as `healthy` says, those of targets in `unready` never well; they are kept in `probes`,
    all else in `requests`. `left_over`: what came on a connection behind its last request and was not even a head.
    """

    def __init__(
        self,
        answer: Choice | Script = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.say(answer or sized())
        self.healthy = True
        #: Answer so as soon as the head of a request is there, and read no further.
        self.early: Script | None = None
        self.unready: set[str] = set()
        self.probes: list[Request] = []
        self.requests: list[Request] = []
        self.left_over: list[bytes] = []
        self.connections = 0
        self.transports: set[asyncio.WriteTransport] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stub", daemon=True)
        self._thread.start()
        self._server = self._run(self._listen(host, port, tls))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.authority = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.url = f"{'https' if tls else 'http'}://{self.authority}"

    def __repr__(self) -> str:
        return f"<Stub {self.url} {len(self.requests)} requests>"

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def say(self, answer: Choice | Script) -> None:
        """Answer so from the next request on."""
        self.answer: Choice = answer if callable(answer) else lambda _: answer

    def wait_for(self, count: int, limit: float = HURRY) -> list[Request]:
        """The first `count` requests, once they came whole."""
        wait_until(lambda: sum(request.complete for request in [*self.requests]) >= count, limit, f"{count} requests")
        return self.requests[:count]

    def stop(self) -> None:
        """Stop listening and cut every connection, as a killed process would."""
        if self._loop.is_closed():
            return
        self._run(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HURRY)
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(HURRY)

    async def _listen(self, host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
        return await self._loop.create_server(
            lambda: _Connection(self),
            host,
            port,
            ssl=tls,
            backlog=512,
            ssl_handshake_timeout=HURRY / 4 if tls else None,
        )

    async def _shut(self) -> None:
        """Accept no more, end what was accepted, then close.

        Nothing is cancelled, and the server goes last: asyncio forgets the socket of a connection whose accepting task
        was cancelled before it began, or began after the server was closed.
        """
        self._loop.remove_reader(self._server.sockets[0].fileno())
        this = asyncio.current_task()
        while self.transports or asyncio.all_tasks() - {this}:
            for transport in self.transports:
                transport.abort()
            await asyncio.sleep(POLL)
        self._server.close()

    async def converse(self, connection: _Connection) -> None:
        """Take requests and play answers until either side has had enough."""
        connection.number, self.connections = self.connections, self.connections + 1
        try:
            while await self._exchange(connection):
                pass
        except ConnectionError:
            pass  # the other side went away, which `Request.closed` tells
        except asyncio.IncompleteReadError as error:
            if error.partial and (connection.request is None or connection.request.complete):
                self.left_over.append(error.partial)
        finally:
            connection.writer.transport.close()

    async def _exchange(self, connection: _Connection) -> bool:
        """One request and its answer; False when the connection is done with."""
        request = Request(await connection.reader.readuntil(b"\r\n\r\n"), connection.number)
        connection.request = request
        probe = bool(PROBES.fullmatch(request.target)) and not request.values(
            "via"
        )  # a relayed call has been somewhere
        (self.probes if probe else self.requests).append(request)
        if self.early is not None and not probe:
            return await _play(self.early, request, connection)
        await _read_body(connection.reader, request)
        well = self.healthy and request.target not in self.unready
        script = sized(b"{}", 200 if well else 503) if probe else self.answer(request)
        request.complete = True
        return await _play(script, request, connection)


class _Connection(asyncio.StreamReaderProtocol):
    """Notes when the other side closes, also while an answer is being written."""

    def __init__(self, stub: Stub) -> None:
        self.reader = asyncio.StreamReader(limit=HEAD_LIMIT)
        self.gone = asyncio.Event()
        self.number = 0
        self.request: Request | None = None
        self._stub = stub
        super().__init__(self.reader, self._begin)

    async def _begin(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        await self._stub.converse(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._stub.transports.add(transport)
        super().connection_made(transport)

    def eof_received(self) -> bool | None:
        self._note()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._note()
        self._stub.transports.discard(self._transport)
        super().connection_lost(exc)

    def _note(self) -> None:
        if self.request is not None and self.request.closed is None:
            self.request.closed = time.monotonic()
        self.gone.set()


async def _read_body(reader: asyncio.StreamReader, request: Request) -> None:
    """RFC 9112 §6.3, as far as a correct client needs it."""
    if request.values("transfer-encoding"):
        size = -1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line, 16)
            piece = await reader.readexactly(size + 2)
            request.raw_body += line + piece
            request.body += piece[:-2]
    elif length := request.values("content-length"):
        request.raw_body = request.body = await reader.readexactly(int(length[0]))


async def _play(script: Script, request: Request, connection: _Connection) -> bool:
    """Do the steps in order; stop when the other side is gone."""
    for step in script:
        if connection.gone.is_set():
            return False
        if isinstance(step, bytes):
            connection.writer.write(step)
            await connection.writer.drain()
            request.written += len(step)
        elif isinstance(step, Then):
            await _ENDINGS[step](connection)
            return False
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.gone.wait(), step)
    return not connection.gone.is_set()


async def _close(connection: _Connection) -> None:
    connection.writer.transport.close()


async def _reset(connection: _Connection) -> None:
    """RST instead of FIN: the socket is closed with a linger of zero."""
    raw: socket.socket = connection.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.writer.transport.abort()


async def _wait(connection: _Connection) -> None:
    await connection.gone.wait()


_ENDINGS = {Then.CLOSE: _close, Then.RESET: _reset, Then.WAIT: _wait}

"""Carry one request to a backend over HTTP/1.1, and its answer back.

Knows: connections to backends, when one may be used again, time-outs.
Must not know: who calls, models, how backends are chosen.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.descriptors import ran_out
from gateway.drive import Moment
from gateway.errors import ConnectFailed, Overloaded, Refusal
from gateway.pools.backends import Backend
from gateway.seams import Answer, Outbound
from gateway.wires.connection import Connection, Stale

# Idle connections kept for each backend; more are closed when they come back.
_IDLE_KEPT = 256

# A body above this cannot be sent again, so it is not trusted to a connection that may be stale.
_REUSE_BODY_LIMIT = 256 * 1024

# Seconds for which an address that did not answer comes behind the others of its name, and how many are remembered.
_DOUBTED_FOR = 30.0
_DOUBTED_MOST = 256

log = logging.getLogger(__name__)

_Address = tuple[int, str, int]
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class HttpWire:
    """Implements `seams.Wire`. Keeps idle connections for each backend, newest first."""

    def __init__(self, spawn: Spawn, connect: float, unsolicited: Callable[[Backend], None]) -> None:
        """`spawn`: start a task that has a parent. `connect`: seconds a connection may take, TLS included.

        `unsolicited`: told when an idle connection spoke unasked.
        """
        self._spawn = spawn
        self._connect_limit = connect
        self._unsolicited = unsolicited
        self._idle: dict[Backend, list[Connection]] = {}
        self._doubted: dict[_Address, float] = {}

    async def relay(self, backend: Backend, outbound: Outbound, answer: Answer) -> None:
        """See `seams.Wire.relay`."""
        idle = self._idle.get(backend)
        connection = self._take(idle) if idle and _may_reuse(outbound) else None
        if connection is None:
            connection = await self._connect(backend)
        try:
            await connection.begin(outbound, answer)
            return
        except Stale:
            # RFC 9112 §9.3.1: it closed as the request went out, and not a byte was answered; once more on a fresh one.
            if not outbound.body.replayable and outbound.payload is None:
                raise
        finally:
            connection.settle()
        fresh = await self._connect(backend)
        try:
            await fresh.begin(outbound, answer)
        finally:
            fresh.settle()

    def close(self) -> None:
        """Close every idle connection."""
        for connections in self._idle.values():
            for connection in tuple(connections):
                connection.close()
        self._idle.clear()

    # -- connections

    def _take(self, idle: list[Connection]) -> Connection | None:
        while idle:
            connection = idle.pop()
            if connection.take():
                return connection
        return None

    def _settled(self, connection: Connection) -> None:
        """A connection finished an answer cleanly and may serve again."""
        idle = self._idle.get(connection.backend)
        if idle is None:
            idle = self._idle[connection.backend] = []
        if len(idle) >= _IDLE_KEPT:
            connection.close()
        else:
            idle.append(connection)

    def _gone(self, connection: Connection, *, spoke: bool) -> None:
        """An idle connection closed. `spoke`: because bytes came that nobody asked for."""
        idle = self._idle.get(connection.backend)
        if idle and connection in idle:
            idle.remove(connection)
        if spoke:
            self._unsolicited(connection.backend)

    async def _connect(self, backend: Backend) -> Connection:
        """A fresh connection. Raises `ConnectFailed` or `Overloaded`."""
        for left in [one for one, idle in self._idle.items() if not idle]:
            del self._idle[left]  # those of a reload ago never come again; the others make a new list when they do
        attempt = _Attempt()
        self._spawn(self._open(backend, attempt))
        try:
            await attempt.moment
        finally:
            attempt.wanted = False
        assert attempt.connection is not None  # noqa: S101  the moment fired without failing
        return attempt.connection

    async def _open(self, backend: Backend, attempt: _Attempt) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_limit):
                connection = await self._reach(loop, backend)
        except Exception as error:  # whatever it was, one call fails and the gateway goes on
            if not isinstance(error, OSError | TimeoutError):  # ssl.SSLError is an OSError
                log.exception("connect.failed backend=%s", backend.name)
            attempt.moment.fail(_refusal(error, f"{backend.name}: {_reason(error)}"))
            return
        if not attempt.wanted:
            connection.close()
            return
        connection.take()
        attempt.connection = connection
        attempt.moment.fire()

    async def _reach(self, loop: asyncio.AbstractEventLoop, backend: Backend) -> Connection:
        """Connect to one address of the name after the other. One that hangs takes half of the time that is left."""
        if backend.dial is not None:
            return (await loop.create_connection(lambda: self._made(loop, backend), sock=await backend.dial()))[1]
        until = loop.time() + self._connect_limit
        found = await loop.getaddrinfo(backend.host, backend.port, type=socket.SOCK_STREAM)
        addresses = [(int(each[0]), str(each[4][0]), backend.port) for each in found]
        if len(addresses) > 1:
            addresses.sort(key=lambda address: self._doubted.get(address, 0.0) > loop.time())
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout((until - loop.time()) / 2):
                    return await self._dial(loop, backend, address)
            except OSError:  # TimeoutError and ssl.SSLError are among them
                if len(self._doubted) >= _DOUBTED_MOST:
                    self._doubted.clear()
                self._doubted[address] = loop.time() + _DOUBTED_FOR
        return await self._dial(loop, backend, addresses[-1])

    def _made(self, loop: asyncio.AbstractEventLoop, backend: Backend) -> Connection:
        return Connection(loop, backend, self._settled, self._gone)

    async def _dial(self, loop: asyncio.AbstractEventLoop, backend: Backend, address: _Address) -> Connection:
        family, host, port = address
        _, connection = await loop.create_connection(
            lambda: self._made(loop, backend),
            host,
            port,
            family=family,
            ssl=backend.tls,
            server_hostname=backend.server_name if backend.tls is not None else None,
        )
        return connection


class _Attempt:
    __slots__ = ("connection", "moment", "wanted")

    def __init__(self) -> None:
        self.moment = Moment()
        self.connection: Connection | None = None
        self.wanted = True


def _may_reuse(outbound: Outbound) -> bool:
    if outbound.payload is not None:
        return True
    length = outbound.body.length
    return length is not None and length <= _REUSE_BODY_LIMIT


def _refusal(error: Exception, detail: str) -> Refusal:
    """Where nothing was left to connect with, no backend is at fault."""
    return Overloaded(detail=detail, retry_after=1) if ran_out(error) else ConnectFailed(detail=detail)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__

"""The client port: who may come in, and how all leave.

Knows: listening, the connections there are, draining.
Must not know: HTTP/1.1, who callers are, models, backends.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from gateway.call import Outcome
from gateway.doors.connection import ClientConnection
from gateway.doors.door import LINGER, DoorSettings
from gateway.errors import Stopping
from gateway.exchange import Serve

_BACKLOG = 1024


class HttpDoor:
    """Listens, and keeps every connection it let in."""

    def __init__(
        self,
        serve: Serve,
        account: Callable[[Outcome], None],
        new_id: Callable[[], str],
        settings: DoorSettings,
    ) -> None:
        """`serve`: the path of a call. `account`: told of requests so malformed that they never became a call."""
        self.serve = serve
        self.account = account
        self.new_id = new_id
        self.settings = settings
        self.draining = False
        self.connections: set[ClientConnection] = set()
        self._emptied = asyncio.Event()
        self._server: asyncio.Server | None = None

    @property
    def active(self) -> int:
        """Connections with a request that is not answered."""
        return sum(connection.busy for connection in self.connections)

    async def open(self, address: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; the port listened on. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ClientConnection(self, loop),
            address,
            port,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=self.settings.timeouts.header,
            ssl_shutdown_timeout=LINGER,
        )
        return int(self._server.sockets[0].getsockname()[1])

    def drain(self) -> None:
        """From now on each answer closes its connection; new ones are still taken."""
        self.draining = True

    def shut(self) -> None:
        """Listen no more, and close what is idle."""
        self.draining = True
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.close_if_idle()

    async def empty(self) -> None:
        """Until no connection is left."""
        while self.connections:
            self._emptied.clear()
            await self._emptied.wait()

    def entered(self, connection: ClientConnection) -> None:
        """A connection was let in."""
        self.connections.add(connection)

    def gone(self, connection: ClientConnection) -> None:
        """A connection ended."""
        self.connections.discard(connection)
        if not self.connections:
            self._emptied.set()

    def cut(self) -> None:
        """End what is left: no answer looks complete."""
        for connection in tuple(self.connections):
            connection.end(Stopping(retry_after=1))

    def drop(self) -> None:
        """Close every connection that is still there, at once."""
        for connection in tuple(self.connections):
            connection.drop()

"""The client port: who may come in, and how all leave.

Knows: listening, the connections there are, draining.
Must not know: HTTP/1.1, who callers are, models, backends.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from itertools import islice

from gateway.call import Outcome
from gateway.doors.connection import ClientConnection
from gateway.doors.door import DoorSettings
from gateway.doors.listener import Listener
from gateway.doors.room import Room
from gateway.errors import Stopping
from gateway.exchange import Serve


class HttpDoor:
    """Listens, and keeps every connection it let in."""

    def __init__(
        self,
        serve: Serve,
        account: Callable[[Outcome], None],
        new_id: Callable[[], str],
        settings: DoorSettings,
        tls: ssl.SSLContext,
    ) -> None:
        """`serve`: the path of a call. `account`: told of requests so malformed that they never became a call."""
        self.serve = serve
        self.account = account
        self.new_id = new_id
        self.settings = settings
        self.room = Room(settings.bodies)
        self.draining = False
        #: In the order they came.
        self.connections: dict[ClientConnection, None] = {}
        self.listener = Listener(self, tls, settings.connections, settings.timeouts.header)
        self._loop = asyncio.get_running_loop()
        self._emptied = asyncio.Event()

    @property
    def active(self) -> int:
        """Connections with a request that is not answered."""
        return sum(connection.busy for connection in self.connections)

    def states(self) -> dict[str, int]:
        """How many connections there are in each state."""
        active = self.active
        return {"active": active, "idle": len(self.connections) - active, "handshake": self.listener.arriving}

    async def open(self, address: str, port: int) -> int:
        """Listen; the port listened on. Raises `OSError`."""
        return await self.listener.open(address, port)

    # -- the listener calls these

    def welcome(self, peer: str) -> ClientConnection:
        """A connection for a caller from this address."""
        return ClientConnection(self, self._loop, peer)

    def crowd(self) -> int:
        """How many connections there are, handshakes aside."""
        return len(self.connections)

    def make_room(self, count: int) -> None:
        """Close up to `count` connections that are only kept for another request, the oldest first."""
        kept = (connection for connection in self.connections if connection.kept)
        for connection in tuple(islice(kept, count)):
            connection.close_if_idle()

    # -- whoever reloads calls this

    def renew(self, tls: ssl.SSLContext, *, other_authorities: bool) -> None:
        """Handshakes that begin from now on go by `tls`. `other_authorities`: who vouches for clients changed, so that
        connections opened with a certificate have to be opened anew."""
        self.listener.tls = tls
        if other_authorities:
            self.listener.hang_up()
            for connection in tuple(self.connections):
                connection.retire_certified()

    # -- the connections call these

    def entered(self, connection: ClientConnection) -> None:
        """A connection was let in."""
        self.connections[connection] = None

    def gone(self, connection: ClientConnection) -> None:
        """A connection ended."""
        self.connections.pop(connection, None)
        self.listener.left()
        if not self.connections:
            self._emptied.set()

    # -- the end

    def drain(self) -> None:
        """From now on each answer closes its connection; new ones are still taken."""
        self.draining = True

    def shut(self) -> None:
        """Listen no more, and close what is idle."""
        self.draining = True
        self.listener.close()
        for connection in tuple(self.connections):
            connection.close_if_idle()

    async def empty(self) -> None:
        """Until no connection is left."""
        while self.connections:
            self._emptied.clear()
            await self._emptied.wait()

    def cut(self) -> None:
        """End what is left: no answer looks complete."""
        for connection in tuple(self.connections):
            connection.end(Stopping(retry_after=1))

    def drop(self) -> None:
        """Close every connection that is still there, at once."""
        for connection in tuple(self.connections):
            connection.drop()

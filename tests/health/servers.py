"""Servers whose readiness a test decides, and sockets that never answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from aiohttp import web

#: How long a test waits for something that should come within milliseconds.
PATIENCE = 10.0


class Server:
    """Answers each path with the status in `says` (default 200), or hangs on it while it is in `hangs`."""

    def __init__(self) -> None:
        self.says: dict[str, int] = {}
        self.hangs: set[str] = set()
        self.asked: list[web.BaseRequest] = []
        self.at_once = 0
        self.most_at_once = 0
        self.url = ""

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            while request.raw_path in self.hangs and request.transport is not None:  # noqa: ASYNC110  no event for both
                await asyncio.sleep(0.005)
        finally:
            self.at_once -= 1
        headers = {"Location": f"{self.url}/elsewhere"}
        return web.Response(status=self.says.get(request.raw_path, 200), headers=headers)

    @property
    def paths(self) -> list[str]:
        return [request.raw_path for request in self.asked]


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server on a free loopback port, by TLS where a context is given."""
    server = Server()
    runner = web.ServerRunner(web.Server(server._answer), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    scheme = "http" if tls is None else "https"
    server.url = "{}://{}:{}".format(scheme, *runner.addresses[0])
    try:
        yield server
    finally:
        server.hangs.clear()
        await runner.cleanup()


def deaf() -> tuple[socket.socket, str]:
    """A listening socket that takes connections and never says a word, and its address; close it."""
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, "http://{}:{}".format(*listener.getsockname())


def unused() -> str:
    """An address where nobody listens."""
    listener, url = deaf()
    listener.close()
    return url


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds; fails the test after `PATIENCE` seconds."""
    end = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.002)

"""Simulated parts on real loopback sockets, inside the test's own event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway.simulate import nim, triton
from gateway.simulate.knobs import Knobs
from gateway.simulate.load import Load

FAST = Knobs(first_token=0.0, token_delay=0.0, tokens=6)
#: How long a test waits for something that should come at once, in seconds.
SOON = 10.0


@asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[str]:
    """The application on a free port, as `gateway.simulate.web.serve` runs it; gives its URL."""
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def until(condition: Callable[[], object]) -> None:
    """Let others run until `condition` holds; fails after `SOON`."""
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, "it did not come to hold"
        await asyncio.sleep(0.005)


class Server:
    """A simulated part and a plain client for it."""

    def __init__(self, url: str, load: Load, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.load = load
        self.session = session

    async def post(self, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        """Status and JSON of the answer."""
        async with self.session.post(self.url + path, json=body, **more) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of the answer; None when it has no body."""
        async with self.session.get(self.url + path) as answer:
            return answer.status, await answer.json(content_type=None)

    async def text(self, path: str) -> str:
        """The body of the answer."""
        async with self.session.get(self.url + path) as answer:
            return await answer.text()


@pytest.fixture
async def nim_server() -> AsyncIterator[Server]:
    """A fast NIM whose knobs can be turned, with the models `meta/chat` and `nvidia/embed`."""
    load = Load(FAST)
    app = nim.build("one", ("meta/chat", "nvidia/embed"), load, over_http=True, clock=lambda: 1_700_000_000.5)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(listening(app))
        yield Server(url, load, await stack.enter_async_context(aiohttp.ClientSession()))


@pytest.fixture
async def triton_server() -> AsyncIterator[Server]:
    """A fast Triton whose knobs can be turned."""
    load = Load(FAST)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(listening(triton.build(load, over_http=True)))
        yield Server(url, load, await stack.enter_async_context(aiohttp.ClientSession()))

"""What all simulated parts share on the web side: listening, JSON, knobs, taking time, breaking connections.

Knows: aiohttp, the loopback. Must not know: NIM, Triton, OpenID.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

import gateway.simulate.knobs as knobs_module
from gateway.simulate.load import Load

#: What a simulated part takes at most in one body, as Triton's own default for its HTTP port.
MAX_BODY = 64 * 1024 * 1024
#: How long calls in flight may take to end after the part was told to stop, in seconds.
STOP_WITHIN = 2.0
BACKLOG = 1024

Build = Callable[[str], web.Application]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one. Raises OSError when the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def url_of(listening: socket.socket) -> str:
    """The base URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(name: str, listening: socket.socket, build: Build) -> None:
    """Serve until SIGTERM or SIGINT; says on standard output, in one line, when it is ready."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    url = url_of(listening)
    # A client that leaves cancels its call, as real engines do.
    runner = web.AppRunner(build(url), handler_cancellation=True, access_log=None, shutdown_timeout=STOP_WITHIN)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        sys.stdout.write(f"simulated {name} ready at {url}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await runner.cleanup()


async def json_of(request: web.Request) -> Any:
    """The JSON body of a request. Raises ValueError when it is none."""
    try:
        return json.loads(await request.read())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def add_knobs(app: web.Application, load: Load) -> None:
    """Let tests turn the knobs: `POST /sim/knobs` changes some, `GET /sim/state` shows them and what was counted."""

    async def turn(request: web.Request) -> web.Response:
        try:
            load.turn(knobs_module.changed(load.knobs, await json_of(request)))
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response(knobs_module.as_json(load.knobs))

    async def state(_: web.Request) -> web.Response:
        counted = {name: getattr(load, name) for name in COUNTED}
        return web.json_response({"knobs": knobs_module.as_json(load.knobs), **counted})

    app.router.add_post("/sim/knobs", turn)
    app.router.add_get("/sim/state", state)


COUNTED = (
    "running", "waiting", "requests", "succeeded", "cancelled", "failed", "prompt_tokens", "generation_tokens",
)  # fmt: skip


async def pause(seconds: float) -> None:
    """Take the time an engine would; 0 does not even yield."""
    if seconds > 0:
        await asyncio.sleep(seconds)


def reset(request: web.Request) -> web.Response:
    """Break the connection with a TCP reset, before any answer; what is returned goes nowhere."""
    if (transport := request.transport) is not None:
        if (raw := transport.get_extra_info("socket")) is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()


async def cut(request: web.Request, response: web.StreamResponse, piece: bytes) -> web.StreamResponse:
    """Send `piece` and close, so that the answer that `response` announced stays incomplete."""
    await response.prepare(request)
    await response.write(piece)
    if (transport := request.transport) is not None:
        transport.close()
    return response

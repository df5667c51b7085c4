"""What operators and orchestrators ask, on a port of its own: `/healthz /readyz /metrics /status`.

Knows: pages. Must not know: the client port, how the numbers come about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

# Seconds for a page under way when the gateway ends; each takes milliseconds, and a reader may be asleep.
_FAREWELL = 1.0


class AdminDoor:
    """Three pages and a number; nothing here changes anything."""

    def __init__(
        self,
        *,
        metrics: Callable[[], bytes],
        metrics_type: str,
        ready: Callable[[], bool],
        status: Callable[[], dict[str, Any]],
    ) -> None:
        self._metrics = metrics
        self._metrics_type = metrics_type
        self._ready = ready
        self._status = status
        self._runner: web.AppRunner | None = None

    async def open(self, address: str, port: int) -> int:
        """Listen; the port listened on. Raises `OSError`."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/status", self._status_page)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_FAREWELL)
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        ready = self._ready()
        return web.Response(status=200 if ready else 503, text="ready\n" if ready else "not ready\n")

    async def _metrics_page(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": self._metrics_type})

    async def _status_page(self, _: web.Request) -> web.Response:
        return web.Response(
            body=orjson.dumps(self._status(), option=orjson.OPT_INDENT_2), content_type="application/json"
        )

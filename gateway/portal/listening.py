"""The pages' application on a Unix socket that only this process's user can reach.

Knows: aiohttp's runner, where the socket is. Must not know: pages.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from aiohttp import web

# Seconds for a page under way when the gateway ends; the door's drain has waited for its callers before.
_FAREWELL: Final = 1.0


class Listening:
    """Use as `path = await listening.open()` and `await listening.close()`, once each."""

    def __init__(self, application: web.Application) -> None:
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=_FAREWELL, handler_cancellation=True
        )
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def open(self) -> Path:
        """Listen; the path of the socket, in a folder of mode 0700. Raises `OSError`."""
        self._folder = tempfile.TemporaryDirectory(prefix="nim-gateway-", ignore_cleanup_errors=True)
        path = Path(self._folder.name) / "pages"
        try:
            await self._runner.setup()
            await web.UnixSite(self._runner, path).start()
        except BaseException:
            await self.close()
            raise
        return path

    async def close(self) -> None:
        """Stop listening, and leave nothing behind."""
        await self._runner.cleanup()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

"""The pages' application, spoken to by the gateway itself and by nobody else.

Knows: aiohttp's runner, pairs of sockets. Must not know: pages.
Each connection is a pair of connected Unix sockets that no name leads to: there is nothing that another process could
connect to, and nothing is written anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

# Seconds for a page under way when the gateway ends; the door's drain has waited for its callers before.
_FAREWELL: Final = 1.0
# Bytes that the relay adds to a head: an address, an id, a host.
_OURS: Final = 1024


def _says_no_secret(record: logging.LogRecord) -> bool:
    """Why a request could not be read is told with a piece of it, which may be of a credential. The audit line of that
    request says that it could not be read."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


_library = logging.getLogger(f"{__name__}.aiohttp")
_library.addFilter(_says_no_secret)


class Listening:
    """Use between `await listening.open()` and `await listening.close()`."""

    def __init__(self, application: web.Application, header: int) -> None:
        """`header`: bytes that the head of a request may have; the door has let no more in."""
        most = header + _OURS
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_FAREWELL,
            handler_cancellation=True,
            logger=_library,
            max_line_size=most,
            max_field_size=most,
            max_headers=most,  # a field has more than one byte
        )

    async def open(self) -> None:
        """Begin to serve."""
        await self._runner.setup()

    async def dial(self) -> socket.socket:
        """Our end of a new connection. Raises `OSError`."""
        server = self._runner.server
        if server is None:
            raise ConnectionRefusedError("the pages are not served")
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            theirs.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(server, theirs)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        return ours

    async def close(self) -> None:
        """Serve no more."""
        await self._runner.cleanup()

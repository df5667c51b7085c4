"""Whether a caller's connection is read from: held while anybody has a reason, and watched while it is held.

Knows: reasons, the state of a TCP connection. Must not know: HTTP, requests.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

# Seconds between looks at a connection that is not read from: a caller who left must be noticed within a second.
_LOOK = 0.5

# Linux, include/net/tcp_states.h: states in which the other side has reset or closed the connection.
_LEFT = frozenset((7, 8, 9, 11))


class Reading:
    """Holds and lets go. `left` is called once when the caller turns out to have left while the connection was held."""

    __slots__ = ("_left", "_look", "_loop", "_reasons", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, left: Callable[[], None]) -> None:
        self._loop = loop
        self._transport = transport
        self._left = left
        self._reasons: set[str] = set()
        self._look: asyncio.TimerHandle | None = None

    @property
    def held(self) -> bool:
        """True while anybody has a reason."""
        return bool(self._reasons)

    def hold(self, reason: str) -> None:
        """Do not read while `reason` stands."""
        if not self._reasons and not self._transport.is_closing():
            self._transport.pause_reading()
            self._look = self._loop.call_later(_LOOK, self._watch)
        self._reasons.add(reason)

    def release(self, reason: str) -> None:
        """`reason` is gone."""
        if reason in self._reasons:
            self._reasons.discard(reason)
            if not self._reasons:
                self.open()

    def open(self) -> None:
        """Read, whatever reasons there were."""
        self._reasons.clear()
        self._stop_looking()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """The connection ended: hold on to nothing."""
        self._stop_looking()
        self._transport, self._left = NOWHERE, _nothing

    def _stop_looking(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _watch(self) -> None:
        """A connection that is not read from tells nothing by itself, not even that it was reset."""
        if _state(self._transport) in _LEFT:
            self._look = None
            self._left()
        else:
            self._look = self._loop.call_later(_LOOK, self._watch)


class _Nowhere(asyncio.Transport):
    """Where a connection that ended leads: nothing comes from there, and nothing arrives."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


NOWHERE: asyncio.Transport = _Nowhere()


def _nothing() -> None: ...


class Hold:
    """One reason to hold, as an `exchange.Flow`."""

    __slots__ = ("_reading", "_reason")

    def __init__(self, reading: Reading, reason: str) -> None:
        self._reading = reading
        self._reason = reason

    @property
    def held(self) -> bool:
        return self._reading.held

    def pause(self) -> None:
        self._reading.hold(self._reason)

    def resume(self) -> None:
        self._reading.release(self._reason)


def _state(transport: asyncio.Transport) -> int:
    """The TCP state of a connection (tcp(7), TCP_INFO); 0 where it is not to be had."""
    wrapped = transport.get_extra_info("socket")
    try:
        with socket.socket(fileno=os.dup(wrapped.fileno())) as line:
            return line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except (OSError, AttributeError):
        return 0

"""Accepting callers: how many may be there at once, and the TLS handshake before anything is asked.

Knows: listening sockets, handshakes, what to do when there is no room or no descriptor left.
Must not know: HTTP, what a connection is for.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from contextlib import suppress
from typing import Protocol

from gateway.descriptors import ran_out
from gateway.doors.door import LINGER
from gateway.drive import Drive

# Callers who may wait unaccepted; the system holds them, and cuts this to its own `net.core.somaxconn`.
_BACKLOG = 1024

# Callers accepted before others have their turn.
_TURN = 64

# Seconds until accepting is tried again when nobody left in the meantime.
_PAUSE = 1.0

# Of the connections there may be, the share of idle ones that make room in `_PAUSE` while all places are taken.
_MAKING_ROOM = 20

log = logging.getLogger(__name__)


class House(Protocol):
    """Who takes in the callers that were accepted."""

    def welcome(self, peer: str) -> asyncio.Protocol:
        """A connection for a caller from this address; it is the house's once its `connection_made` was called."""
        ...

    def crowd(self) -> int:
        """How many connections the house has."""
        ...

    def make_room(self, count: int) -> None:
        """Begin to close up to `count` connections that are only kept for another request."""
        ...


class Listener:
    """Accepts while there are places. Who comes then waits unaccepted, which costs the gateway nothing."""

    def __init__(self, house: House, tls: ssl.SSLContext, places: int, handshake: float) -> None:
        """`places`: connections there may be, those in their handshake included. `handshake`: seconds it may take."""
        self._house = house
        #: What handshakes that begin from now on go by.
        self.tls = tls
        self._handshake = handshake
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._retry: asyncio.TimerHandle | None = None
        self._arriving: set[socket.socket] = set()
        self._asked = -_PAUSE  # when idle connections were last asked to make room
        self.places = places
        #: Handshakes that came to nothing, and times that accepting was held, each by reason.
        self.failures: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))
        self.holds: Counter[str] = Counter({"full": 0, "descriptors": 0})

    @property
    def arriving(self) -> int:
        """Callers in their handshake."""
        return len(self._arriving)

    async def open(self, address: str, port: int) -> int:
        """Listen on every address that the name has; the port of the first. Raises `OSError`."""
        places = await self._loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, place in dict.fromkeys(places):
                self._listening.append(_listen(family, place))
        except OSError:
            self.close()
            raise
        self._go_on()
        return int(self._listening[0].getsockname()[1])

    def close(self) -> None:
        """Listen no more, and end handshakes under way."""
        self._stop()
        for listening in self._listening:
            listening.close()
        self._listening.clear()
        self.hang_up()

    def hang_up(self) -> None:
        """End handshakes under way: nothing was asked yet."""
        for line in self._arriving:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def left(self) -> None:
        """A connection ended: there may be room."""
        if self._retry is not None:
            self._go_on()

    # -- inside

    def _go_on(self) -> None:
        self._stop()
        for listening in self._listening:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _stop(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for listening in self._listening:
            self._loop.remove_reader(listening.fileno())

    def _hold(self, reason: str) -> None:
        """Leave callers waiting until somebody left; those on whose connections nothing happens are asked to."""
        self.holds[reason] += 1
        there = self._house.crowd() + self.arriving
        log.warning("accepting.held reason=%s connections=%d places=%d", reason, there, self.places)
        self._stop()
        self._retry = self._loop.call_later(_PAUSE, self._go_on)
        if (now := self._loop.time()) >= self._asked + _PAUSE:
            self._asked = now
            self._house.make_room(max(1, self.places // _MAKING_ROOM))

    def _accept(self, listening: socket.socket) -> None:
        for turn in range(_TURN):
            if self._house.crowd() + len(self._arriving) >= self.places:
                if not turn:  # called because somebody waits; behind those just accepted there may be nobody
                    self._hold("full")
                return
            try:
                line, (peer, *_) = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if ran_out(error):
                    self._hold("descriptors")
                    return
                continue  # accept(2): the caller's network failed between its connecting and now
            self._arriving.add(line)
            Drive(self._take_in(line, peer)).step()

    async def _take_in(self, line: socket.socket, peer: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._house.welcome(peer),
                line,
                ssl=self.tls,
                ssl_handshake_timeout=self._handshake,
                ssl_shutdown_timeout=LINGER,
            )
        except OSError as error:  # `ssl.SSLError`, the limit and a caller who left are among them
            reason = next(name for name, kind in _REASONS.items() if isinstance(error, kind))
            self.failures[reason] += 1
            if reason != "left":  # as every look of a load balancer at the port ends
                log.info("handshake.failed reason=%s peer=%s error=%s", reason, peer, _detail(error))
            line.close()
        except Exception:
            log.exception("handshake.broke peer=%s", peer)
            line.close()
        finally:
            self._arriving.discard(line)
            self.left()


# The first that fits. asyncio aborts a handshake that took too long, and resets one whose caller left.
_REASONS: dict[str, type[OSError]] = {"timeout": ConnectionAbortedError, "tls": ssl.SSLError, "left": OSError}


def _detail(error: OSError) -> str:
    """In OpenSSL's words, which are constants of its own."""
    return str(getattr(error, "reason", None) or "none")


def _listen(family: int, place: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> socket.socket:
    """A socket that listens there. Raises `OSError`."""
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # `::` is all of IPv6, whatever the system's default
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening

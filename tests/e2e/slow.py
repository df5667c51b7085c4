"""Callers who take their time, some hundreds of them at once.

Knows: sockets that say a byte now and then, and read as little. Must not know: what becomes of them.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.parts.client import trusting
from tests.parts.gateway import Gateway

#: Of a caller's receive buffer, so that an answer he does not read stays with the gateway.
NARROW = 4096


class SlowCallers:
    """Connections to a gateway. Each time `dawdle` is called, every caller says and reads a byte where he can."""

    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self._gateway = gateway
        self._stack = stack
        self._tls = trusting(gateway.ca)
        self._lines: list[tuple[socket.socket, bytes, bool]] = []

    def come(self, count: int, first: bytes = b"", then: bytes = b"", *, tls: bool = True, reads: bool = True) -> None:
        """`count` callers who say `first` at once, and `then` again and again."""
        for _ in range(count):
            line = self._line(tls=tls)
            if first:
                line.sendall(first)
            line.setblocking(False)
            self._lines.append((line, then, reads))

    def dawdle(self) -> None:
        """Say a little more, and read a little. Callers who were cut off find out, and say nothing more."""
        for line, then, reads in [*self._lines]:
            try:
                if then:
                    line.send(then)
                if reads:
                    line.recv(1)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            except OSError:
                self._lines.remove((line, then, reads))

    def leave(self) -> None:
        """All go."""
        for line, _, _ in self._lines:
            line.close()
        self._lines.clear()

    def _line(self, *, tls: bool) -> socket.socket:
        plain = self._stack.enter_context(socket.socket())
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
        plain.settimeout(30)
        plain.connect(("127.0.0.1", self._gateway.port))
        if not tls:
            return plain
        return self._stack.enter_context(self._tls.wrap_socket(plain, server_hostname="localhost"))


@contextmanager
def slow_callers(gateway: Gateway) -> Iterator[SlowCallers]:
    """None at first; all are gone at the end."""
    with ExitStack() as stack:
        yield SlowCallers(gateway, stack)


def connections(gateway: Gateway) -> float:
    """How many callers the gateway has, handshakes included."""
    return gateway.metric("gateway_connections")


def while_dawdling(callers: SlowCallers, condition: Callable[[], bool]) -> Callable[[], bool]:
    """For `wait_until`: ask `condition` after each bit of dawdling."""

    def ask() -> bool:
        with suppress(OSError):
            callers.dawdle()
        return condition()

    return ask

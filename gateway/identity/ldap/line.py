"""A connection to a directory server as bytes, with or without TLS: every wait on it has an end.

Knows: sockets, deadlines, how much may come in. Must not know: LDAP.
It may only be used in a thread of its own: everything here blocks.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway.settings import MIB

#: By scheme (RFC 4516 section 2, RFC 4513).
PORTS: Final = {"ldap": 389, "ldaps": 636}
# Of one login or look-up. Somebody's entry and a thousand groups take some 300 KiB.
ANSWERS_LIMIT: Final = 8 * MIB
# Behind the deadline of the whole, so that what took its last moment is still said to be late.
_LEAST: Final = 0.001


class ServerFailed(Exception):  # noqa: N818  named for what happened, as the refusals are
    """A server that cannot be asked: its text says why, for the log.

    `own_account`: it refuses the gateway's own account, so that asking again is no use for a while. `one_account`: it
    answers the gateway, and cannot judge one person's bind, which says nothing of anybody else's.
    """

    def __init__(self, reason: str, *, own_account: bool = False, one_account: bool = False) -> None:
        super().__init__(reason)
        self.own_account = own_account
        self.one_account = one_account


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is; `tls` from the first byte."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'ldaps' if self.tls else 'ldap'}://{host}:{self.port}"


def address(url: str) -> Address:
    """The address in a URL of a server. Raises `ValueError`."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or parts.path not in {"", "/"} or parts.query or parts.username:
        raise ValueError("expected a server as ldaps://host or ldaps://host:port")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("the port of this server is not from 1 to 65535")
    return Address(parts.hostname, port or PORTS[parts.scheme], parts.scheme == "ldaps")


class Line:
    """What the LDAP library takes for its socket. `until` (`time.monotonic()`) is when all must be over."""

    def __init__(self, to: Address, tls: ssl.SSLContext | None, until: float) -> None:
        """Connect, and secure the line where the address says so. Raises `OSError`, `TimeoutError` among them."""
        self.until = until
        self._host = to.host
        self._received = 0
        self._socket = _connected(to, until)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if to.tls:
            self.secure(tls)

    def secure(self, tls: ssl.SSLContext | None) -> None:
        """TLS from here on; the server's certificate must hold, and be for its name. Closes the line when it fails."""
        try:
            if tls is None:
                raise ssl.SSLError("no settings for TLS")
            self._socket.settimeout(self._left())
            self._socket = tls.wrap_socket(self._socket, server_hostname=self._host)
        except (OSError, ValueError):
            self.close()
            raise

    def recv(self, size: int) -> bytes:
        """Up to `size` bytes; none when the other side has closed."""
        self._socket.settimeout(self._left())
        piece = self._socket.recv(size)
        self._received += len(piece)
        if self._received > ANSWERS_LIMIT:
            raise OSError(f"more than {ANSWERS_LIMIT} bytes came")
        return piece

    def sendall(self, content: bytes) -> None:
        self._socket.settimeout(self._left())
        self._socket.sendall(content)

    def begin(self, until: float) -> None:
        """For another login or look-up, which must be over by `until`."""
        self.until, self._received = until, 0

    def quiet(self) -> bool:
        """True while nothing has come that nobody asked for: no end, and no notice of it (RFC 4511 section 4.4)."""
        look = select.poll()
        with suppress(OSError, ValueError):
            look.register(self._socket, select.POLLIN)
            return not look.poll(0)
        return False

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()

    def _left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return max(left, _LEAST)


def _connected(to: Address, until: float) -> socket.socket:
    """To the first address of the name that takes the connection; each gets its share of the time that is left."""
    found = socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    failure = OSError("its name leads nowhere")
    for number, (family, kind, protocol, _, place) in enumerate(found):
        share = (until - time.monotonic()) / (len(found) - number)
        if share <= 0:
            raise TimeoutError("no connection in time")
        line = socket.socket(family, kind, protocol)
        try:
            line.settimeout(share)
            line.connect(place)
        except OSError as error:
            line.close()
            failure = error
        else:
            return line
    raise failure

"""A plain HTTP/1.1 client over TLS, for what the SDKs hide: exact bytes, their timing, a connection that breaks.

Knows: one connection at a time. Must not know: the gateway's paths, models.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: Seconds that any read may take; far more than any answer needs on two slow cores.
READ_LIMIT = 60.0
PIECE = 64 * 1024
POLL = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `fields` are in order, names in lower case."""

    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)

    def __getitem__(self, name: str) -> str | None:
        """The first value of the header field `name` (lower case)."""
        return next((value for key, value in self.fields if key == name), None)

    def json(self) -> Any:
        return json.loads(self.body)


def trusting(ca: Path) -> ssl.SSLContext:
    """A client's TLS settings that believe this authority only."""
    return ssl.create_default_context(cafile=str(ca))


def connection(url: str, ca: Path | None = None, limit: float = READ_LIMIT) -> http.client.HTTPConnection:
    """To the host and port of `url`; `ca` is needed for https."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=limit)
    assert ca is not None, "https needs to know whom to trust"
    return http.client.HTTPSConnection(host, port, timeout=limit, context=trusting(ca))


def ask(
    url: str,
    method: str,
    path: str,
    *,
    body: bytes | Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    ca: Path | None = None,
    limit: float = READ_LIMIT,
) -> Answer:
    """One call on a connection of its own. A mapping as `body` goes as JSON."""
    line = connection(url, ca, limit)
    try:
        payload, lines = prepared(body, headers, token)
        line.request(method, path, payload, lines)
        return whole(line.getresponse())
    finally:
        line.close()


def prepared(
    body: bytes | Mapping[str, Any] | None, headers: Mapping[str, str] | None, token: str | None
) -> tuple[bytes | None, dict[str, str]]:
    """Body and header lines as they are sent."""
    lines = dict(headers or {})
    if token is not None:
        lines["Authorization"] = f"Bearer {token}"
    if body is None or isinstance(body, bytes):
        return body, lines
    return json.dumps(body).encode(), {"Content-Type": "application/json", **lines}


def whole(response: http.client.HTTPResponse) -> Answer:
    """Read an answer to its end. Raises `http.client.IncompleteRead` when it breaks off."""
    fields = tuple((name.lower(), value) for name, value in response.getheaders())
    return Answer(response.status, fields, response.read())


@dataclass(frozen=True, slots=True)
class Arrival:
    """A piece of a body and when it was read (`time.monotonic()`)."""

    at: float
    piece: bytes


class Streaming:
    """An answer that is read piece by piece while it comes."""

    def __init__(self, response: http.client.HTTPResponse, sock: socket.socket) -> None:
        self.status = response.status
        self.fields = {name.lower(): value for name, value in response.getheaders()}
        self.cut = False
        self._response = response
        self._socket = sock

    def pieces(self) -> Iterator[Arrival]:
        """What arrives, as it arrives. Raises `http.client.IncompleteRead` when the stream is cut."""
        while piece := self._response.read1(PIECE):
            yield Arrival(time.monotonic(), piece)

    def next(self) -> bytes:
        """The next piece, b"" at the end."""
        return self._response.read1(PIECE)

    def rest(self) -> bytes:
        """All that still comes, also when it breaks off in the middle: then `cut` is set."""
        received = b""
        try:
            for arrival in self.pieces():
                received += arrival.piece
            self.cut = bool(self._response.length)  # of a promised length, what is still owed
        except (http.client.IncompleteRead, OSError):
            self.cut = True
        return received

    def leave(self) -> float:
        """Go away without a word; when (`time.monotonic()`)."""
        self._response.close()
        self._socket.close()
        return time.monotonic()


@contextmanager
def streaming(
    url: str, method: str, path: str, *, body: bytes | Mapping[str, Any], token: str | None, ca: Path | None = None
) -> Iterator[Streaming]:
    """A call whose answer is read while it comes."""
    line = connection(url, ca)
    try:
        payload, lines = prepared(body, None, token)
        line.request(method, path, payload, lines)
        assert line.sock is not None
        sock = line.sock
        yield Streaming(line.getresponse(), sock)
    finally:
        line.close()


@contextmanager
def raw(port: int, ca: Path | None = None, limit: float = READ_LIMIT) -> Iterator[socket.socket]:
    """A bare connection to 127.0.0.1, in TLS when `ca` is given: for bytes that no client library would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=limit) as plain:
        if ca is None:
            yield plain
            return
        with trusting(ca).wrap_socket(plain, server_hostname="localhost") as wrapped:
            yield wrapped


def spoken(line: socket.socket, sent: bytes) -> bytes:
    """Everything that comes until the other side closes, while `sent` goes out: by one thread, as TLS needs it."""
    line.settimeout(0)
    received, left, until = b"", memoryview(sent), time.monotonic() + READ_LIMIT
    while True:
        if time.monotonic() > until:
            raise TimeoutError(f"{len(left)} bytes to send and {len(received)} received")
        select.select([line], [line] if left else [], [], POLL)
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            if left:
                left = left[line.send(left[:PIECE]) :]
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            while piece := line.recv(PIECE):
                received += piece
            return received


class Conversation:
    """A bare connection: pieces out, whole answers in."""

    def __init__(self, line: socket.socket) -> None:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._line = line
        self._rest = b""

    def send(self, *pieces: bytes) -> None:
        with suppress(OSError):  # who is refused may be closed upon; the answer tells
            for piece in pieces:
                self._line.sendall(piece)

    def answer(self, *, bodiless: bool = False) -> Answer:
        """The next one, which has a length unless it is `bodiless`; status 0 when the connection ends first."""
        while b"\r\n\r\n" not in self._rest:
            if not self._read():
                return Answer(0, (), b"")
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        parted = (line.partition(": ") for line in lines)
        fields = tuple((name.lower(), value) for name, _, value in parted)
        length = 0 if bodiless else int(dict(fields).get("content-length", 0))
        while len(self._rest) < length:
            if not self._read():
                return Answer(0, (), b"")
        body, self._rest = self._rest[:length], self._rest[length:]
        return Answer(int(first[9:12]), fields, body)

    def rest(self) -> bytes:
        """Everything until the other side closes."""
        while self._read():
            pass
        return self._rest

    def leave(self) -> None:
        """Send no more."""
        with suppress(OSError):
            socket.socket.shutdown(self._line, socket.SHUT_WR)

    def _read(self) -> bool:
        try:
            piece = self._line.recv(PIECE)
        except ConnectionError:
            piece = b""
        self._rest += piece
        return bool(piece)


def read_all(sock: socket.socket) -> bytes:
    """Everything until the other side closes."""
    received = b""
    while piece := sock.recv(PIECE):
        received += piece
    return received

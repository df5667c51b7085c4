"""An LDAP server that takes its time: it answers each question after a pause, or accepts connections and says nothing.

Knows: as much of RFC 4511 as a bind and a search need. Must not know: who asks.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

#: Protocol operations (RFC 4511 section 4.2 onwards) by what answers them.
BIND, BOUND, SEARCH, ENTRY, DONE = 0x60, 0x61, 0x63, 0x64, 0x65
SUCCESS = b"\x0a\x01\x00\x04\x00\x04\x00"


class SlowLdap:
    """Serves on a loopback port until `close`, everybody with any password. `pause`: seconds; None: for ever."""

    def __init__(self, pause: float | None) -> None:
        self._pause = pause
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._lines: list[socket.socket] = []
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="slow ldap", daemon=True).start()

    def close(self) -> None:
        """Hang up on everybody."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for line in (self._listening, *self._lines):
            line.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                self._lines.append(line)
                if self._pause is not None:
                    threading.Thread(target=self._serve, args=(line, self._pause), daemon=True).start()

    def _serve(self, line: socket.socket, pause: float) -> None:
        with suppress(OSError):
            for message in messages(line):
                time.sleep(pause)
                line.sendall(answer(message))


def messages(line: socket.socket) -> Iterator[bytes]:
    """What is in the envelope of each message that comes, until the end."""
    got = b""
    while piece := line.recv(65536):
        got += piece
        while (found := split(got)) is not None and len(got) >= found[0] + found[1]:
            begin, size = found
            yield got[begin : begin + size]
            got = got[begin + size :]


def answer(message: bytes) -> bytes:
    """What is said to a bind or a search: yes, and the entry that was asked for, named as the search's base is."""
    number_end = 2 + message[1]
    number, kind, body = message[:number_end], message[number_end], part(message[number_end:])
    if kind == BIND:
        return tagged(0x30, number + tagged(BOUND, SUCCESS))
    if kind != SEARCH:
        return b""
    base = part(body)
    name = base.partition(b"=")[2].partition(b",")[0]
    attribute = tagged(0x30, tagged(0x04, b"uid") + tagged(0x31, tagged(0x04, name)))
    entry = tagged(ENTRY, tagged(0x04, base) + tagged(0x30, attribute))
    return tagged(0x30, number + entry) + tagged(0x30, number + tagged(DONE, SUCCESS))


def split(data: bytes) -> tuple[int, int] | None:
    """Where the content of the first element begins and how long it is (X.690 section 8.1.3); None: not known yet."""
    if len(data) < 2 or len(data) < 2 + (data[1] & 0x7F if data[1] & 0x80 else 0):
        return None
    if not data[1] & 0x80:
        return 2, data[1]
    begin = 2 + (data[1] & 0x7F)
    return begin, int.from_bytes(data[2:begin], "big")


def part(data: bytes) -> bytes:
    """The content of the first element."""
    begin, size = split(data) or (0, 0)
    return data[begin : begin + size]


def tagged(tag: int, content: bytes) -> bytes:
    """An element with the long form of its length."""
    return bytes((tag, 0x82)) + len(content).to_bytes(2, "big") + content

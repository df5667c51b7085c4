"""Chat calls at a steady rate, arriving as independent callers do, timed to the microsecond.

A loop of its own on `select`, because event loops round their timers to milliseconds, which would send the calls in
bunches. A call's time begins when it was due, so a server (or this loop) that falls behind is seen in the figures.
Must not know: which server is asked, what is done with the times.
"""

from __future__ import annotations

import random
import select
import socket
import ssl
import time
from collections import deque

from bench.load import LoadFailedError

ANSWER_LIMIT = 5.0  # seconds without any answer while calls are open: the server hangs
GOOD = b"HTTP/1.1 200 "


class Line:
    """One kept connection and the call on it: when that was due, and the bytes of its answer so far."""

    __slots__ = ("due", "got", "socket")

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        self.socket.setblocking(False)
        self.due, self.got = 0.0, b""

    def ask(self, request: bytes, due: float) -> None:
        self.due, self.got = due, b""
        if self.socket.send(request) != len(request):
            raise LoadFailedError("a request did not fit into an idle connection")

    def whole(self) -> bool:
        """Read what is there; True when the answer is complete. LoadFailedError when it is not a 200."""
        try:
            piece = self.socket.recv(65536)
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        if not piece:
            raise LoadFailedError("the server closed a connection in use")
        self.got += piece
        return complete(self.got)


def complete(answer: bytes) -> bool:
    """Whether `answer` is a whole 200 with a Content-Length; LoadFailedError when it is another status."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if not answer.startswith(GOOD):
        raise LoadFailedError(f"answered {answer[:40]!r}")
    head = answer[:end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise LoadFailedError("the answer has no Content-Length")
    length = int(head[at + 17 :].split(b"\r\n", 1)[0])
    return len(answer) >= end + 4 + length


class Steady:
    """Calls due at random moments, `rate` a second on average, on a fixed number of connections."""

    __slots__ = ("_busy", "_due", "_free", "_request", "times")

    def __init__(self, lines: list[Line], request: bytes, moments: list[float]) -> None:
        self._free, self._busy = deque(lines), dict[int, Line]()
        self._request, self._due = request, deque(moments)
        self.times: list[float] = []  # milliseconds

    def run(self, begin: float) -> None:
        """Make every call and wait for every answer; moments count from `begin` of `perf_counter`."""
        while self._due or self._busy:
            now = time.perf_counter() - begin
            while self._due and self._free and self._due[0] <= now:
                self._send(self._free.popleft())
            patience = max(0.0, self._due[0] - now) if self._due and self._free else ANSWER_LIMIT
            ready, _, _ = select.select(self._busy, (), (), patience)
            if not ready and patience == ANSWER_LIMIT:
                raise LoadFailedError(f"no answer for {ANSWER_LIMIT} s")
            self._receive(ready, begin)

    def _send(self, line: Line) -> None:
        line.ask(self._request, self._due.popleft())
        self._busy[line.socket.fileno()] = line

    def _receive(self, ready: list[int], begin: float) -> None:
        for number in ready:
            line = self._busy[number]
            if line.whole():
                self.times.append((time.perf_counter() - begin - line.due) * 1000)
                self._free.append(self._busy.pop(number))


def arrivals(rate: float, seconds: float, chance: random.Random) -> list[float]:
    """The moments, in seconds from the start, of a Poisson process."""
    moments, at = [], chance.expovariate(rate)
    while at < seconds:
        moments.append(at)
        at += chance.expovariate(rate)
    return moments


def at_rate(port: int, tls: ssl.SSLContext | None, request: bytes, rate: float, seconds: float) -> list[float]:
    """Milliseconds that each call took, `rate` a second for `seconds`; the first half second is not reported.

    LoadFailedError when a call was not answered with a whole 200.
    """
    warm = 0.5
    moments = arrivals(rate, seconds + warm, random.Random(8443))
    lines = [Line(port, tls) for _ in range(32)]
    try:
        calls = Steady(lines, request, moments)
        calls.run(time.perf_counter())
        return calls.times[int(warm * rate) :]
    finally:
        for line in lines:
            line.socket.close()

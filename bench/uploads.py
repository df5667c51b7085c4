"""Tensors sent at once, by threads: OpenSSL does the work outside the interpreter lock, so the generator stays cheap.

Must not know: which server is asked.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

from bench.load import LoadFailedError

SEND_LIMIT = 60.0  # seconds for one tensor


def send_all(port: int, tls: ssl.SSLContext | None, head: bytes, tensor: memoryview, at_once: int) -> float:
    """Seconds until `at_once` uploads of `tensor` are answered; LoadFailedError when one is refused."""
    lines = [_line(port, tls) for _ in range(at_once)]
    try:
        begin = time.perf_counter()
        with ThreadPoolExecutor(at_once) as threads:
            answers = list(threads.map(lambda line: _send(line, head, tensor), lines))
        took = time.perf_counter() - begin
    finally:
        for line in lines:
            line.close()
    if bad := [status for status in answers if status != 200]:
        raise LoadFailedError(f"{len(bad)} of {at_once} uploads were answered with {bad[0]}")
    return took


def _line(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=SEND_LIMIT)
    return plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")


def _send(line: socket.socket, head: bytes, tensor: memoryview) -> int:
    line.sendall(head)
    line.sendall(tensor)
    answer = http.client.HTTPResponse(line)
    answer.begin()
    answer.read()
    return answer.status

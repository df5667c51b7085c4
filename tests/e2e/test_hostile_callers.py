"""Callers who mean harm, or whose programs are broken: what they do stays theirs."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import raw, read_all, spoken
from tests.parts.gateway import Gateway, pool
from tests.parts.process import wait_until
from tests.parts.stub import Stub

TINY = b"GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}")) as made:
        yield made


def port_of(gateway: Gateway) -> int:
    return int(gateway.url.rpartition(":")[2])


def call(gateway: Gateway, token: str, model: str = "m") -> int:
    return gateway.ask("POST", "/v1/completions", body={"model": model}, token=token).status


def head(token: str, path: str, *fields: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: gw.test", f"Authorization: Bearer {token}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("framing", ["Content-Length: 100000", "Transfer-Encoding: chunked"])
def test_a_caller_who_stops_in_his_body_is_told_so_in_time_and_no_backend_is_blamed(
    start_gateway: StartGateway, stub: Stub, token: Token, framing: str
) -> None:
    """B134: his last byte comes before the connection to the backend is there."""
    kserve = pool("triton", ["m"], stub.url, protocols=["kserve"], health={"path": "/v2/health/ready"}, first_byte="3s")
    gateway = start_gateway([kserve], limits={"timeouts": {"idle": "1s"}})
    gateway.backends_up("triton", 1)
    for _ in range(3):
        with raw(port_of(gateway), gateway.ca) as line:
            line.sendall(head(token("alice"), "/v2/models/m/infer", framing) + b"3e8\r\n" + b"x" * 500)
            assert line.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert gateway.metric("gateway_backend_failures_total") == 0


def test_callers_who_send_without_end_and_read_nothing_cost_a_bounded_part_of_memory(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    gateway.backends_up("nim", 1)
    before = gateway.metric("process_resident_memory_bytes")
    with ExitStack() as stack:
        for _ in range(40):
            line = stack.enter_context(raw(port_of(gateway), gateway.ca, limit=0.2))
            with suppress(TimeoutError):
                send_often(line, b"GET /v1/health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        assert call(gateway, token("alice")) == 200
        taken = gateway.metric("process_resident_memory_bytes") - before
        assert taken < 40 * 2 * 1024 * 1024


def quietly(run: Callable[[], None]) -> Callable[[], None]:
    """For a thread whose connection ends under it when the test is over."""

    def ran() -> None:
        with suppress(OSError):
            run()

    return ran


def send_often(line: socket.socket, data: bytes) -> None:
    for _ in range(2000):
        line.sendall(data)


def kserve(url: str) -> dict[str, Any]:
    return pool("triton", ["open", "locked"], url, protocols=["kserve"], health={"path": "/v2/health/ready"})


def test_an_upgrade_with_a_body_is_never_relayed(start_gateway: StartGateway, stub: Stub, token: Token) -> None:
    """A backend that is promised a body and gets none would take the next caller's request for it."""
    gateway = start_gateway([kserve(stub.url)])
    with raw(port_of(gateway), gateway.ca) as line:
        fields = ("Connection: Upgrade", "Upgrade: x", "Content-Type: application/json", "Content-Length: 50")
        line.sendall(head(token("alice"), "/v2/models/open/infer", *fields))
        assert line.recv(12) == b"HTTP/1.1 400"
    assert stub.requests == []


FLOOD = """
import select, socket, ssl, sys, time
port, ca, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
line = ssl.create_default_context(cafile=ca).wrap_socket(
    socket.create_connection(("127.0.0.1", port)), server_hostname="localhost"
)
line.settimeout(0)
print("flooding", flush=True)
many, until = b"GET /v1/x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n" * 500, time.monotonic() + seconds
left = many
while time.monotonic() < until:  # one thread, as TLS needs it
    select.select([line], [line], [], 0.05)
    try:
        left = left[line.send(left) :] or many
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        pass
    try:
        line.recv(1 << 16)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        pass
"""


def test_a_flood_of_pipelined_requests_leaves_time_for_others(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """In a program of its own, so that it does not starve the caller it is compared with."""
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    alice = token("alice")
    command = [sys.executable, "-c", FLOOD, str(port_of(gateway)), str(gateway.ca), "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == b"flooding\n"
        calls = 0
        while flood.poll() is None:
            assert call(gateway, alice) == 200
            calls += 1
    assert calls >= 20  # starved, there would be one or none
    assert gateway.metric("gateway_requests_total", status="401") > 1000


def test_who_sends_and_never_reads_is_not_read_from(start_gateway: StartGateway, stub: Stub, token: Token) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    before = gateway.metric("process_resident_memory_bytes")
    with raw(port_of(gateway), gateway.ca, limit=2) as line:
        with pytest.raises(TimeoutError):  # at some point nothing more is taken
            send_often(line, TINY * 2000)
        assert call(gateway, token("alice")) == 200
        assert gateway.metric("process_resident_memory_bytes") - before < 64 * 1024 * 1024


@pytest.mark.parametrize("rest", [b"zz\r\n", b"2\r\n{}\r\n0\r\nContent-Length 5\r\n\r\n", b"-1\r\n", b"2\r\n{}zz"])
def test_a_broken_chunk_that_came_with_its_head_is_answered(
    start_gateway: StartGateway, stub: Stub, token: Token, rest: bytes
) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    with raw(port_of(gateway), gateway.ca) as line:
        fields = ("Content-Type: application/json", "Transfer-Encoding: chunked")
        line.sendall(head(token("alice"), "/v1/completions", *fields) + rest)
        assert line.recv(12) == b"HTTP/1.1 400"
    assert stub.requests == []


@contextmanager
def deaf_backend() -> Iterator[str]:
    """Is ready, reads the head of a call, and then nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as kept:

        def accept() -> None:
            while True:
                line, _ = server.accept()
                kept.callback(line.close)
                if line.recv(4096).startswith(b"GET"):
                    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    line.close()

        threading.Thread(target=quietly(accept), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_caller_who_resets_an_upload_that_is_held_back_is_noticed(start_gateway: StartGateway, token: Token) -> None:
    with deaf_backend() as url:
        gateway = start_gateway([kserve(url)])
        gateway.backends_up("triton", 1)
        with raw(port_of(gateway), gateway.ca, limit=1) as line:
            line.sendall(head(token("alice"), "/v2/models/open/infer", "Content-Length: 60000000"))
            with pytest.raises(TimeoutError):
                send_often(line, bytes(65536))
            assert gateway.metric("gateway_in_flight_requests", pool="triton") == 1
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: gateway.metric("gateway_in_flight_requests", pool="triton") == 0, 5, "the call's end")
        wait_until(lambda: [call["status"] for call in gateway.audit()][-1:] == [499], 5, "the audit line")


def test_a_backend_that_takes_nothing_of_an_upload_is_not_the_callers_fault(
    start_gateway: StartGateway, token: Token
) -> None:
    """However patient callers have to be: it is the backend's silence that ends the call."""
    timeouts = {"idle": "300ms", "first_byte": "2s", "pre_stop": "200ms"}
    with deaf_backend() as url:
        gateway = start_gateway([kserve(url)], limits={"timeouts": timeouts})
        gateway.backends_up("triton", 1)
        with raw(port_of(gateway), gateway.ca, limit=1) as line:
            line.sendall(head(token("alice"), "/v2/models/open/infer", "Content-Length: 60000000"))
            with pytest.raises(TimeoutError):
                send_often(line, bytes(65536))
            line.settimeout(30)
            assert line.recv(12) == b"HTTP/1.1 504"
    assert gateway.metric("gateway_backend_failures_total", pool="triton", reason="first_byte") == 1


def test_each_of_many_pipelined_requests_is_answered_in_order(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """More than may wait, in one piece, with bodies of many sizes; the last one closes."""
    gateway = start_gateway([pool("nim", ["m", "n"], stub.url)])
    alice, wanted, sent = token("alice"), [], b""
    for number in range(120):
        model = "m" if number % 3 else "unknown"
        body = json.dumps({"model": model, "user": "x" * (number * 37 % 5000)}).encode()
        last = ("Connection: close",) if number == 119 else ()
        fields = ("Content-Type: application/json", f"Content-Length: {len(body)}", *last)
        sent += head(alice, "/v1/completions", *fields) + body
        wanted.append(200 if model == "m" else 404)
    with raw(port_of(gateway), gateway.ca) as line:
        received = spoken(line, sent)
    statuses = [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == wanted
    assert len(stub.requests) == wanted.count(200)


def test_a_malformed_request_behind_a_good_one_is_answered_and_accounted_too(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    body = b'{"model":"m"}'
    good = head(token("alice"), "/v1/completions", "Content-Type: application/json", f"Content-Length: {len(body)}")
    with raw(port_of(gateway), gateway.ca) as line:
        line.sendall(good + body + TINY.replace(b"Host", b"Host "))
        received = read_all(line)
    assert [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]] == [200, 400]
    wait_until(lambda: [call["status"] for call in gateway.audit()][-2:] == [200, 400], 5, "both audit lines")
    assert len(stub.requests) == 1

"""Callers who are slow, by nature or on purpose: each is let go within a limit, and costs the others nothing. B134."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conftest import StartGateway, Token
from tests.e2e.slow import SlowCallers, connections, slow_callers, while_dawdling
from tests.parts import scripts
from tests.parts.client import connection, prepared, raw, streaming, whole
from tests.parts.gateway import Gateway, pool
from tests.parts.process import wait_until
from tests.parts.stub import Request, Stub

MIB = 1024 * 1024
#: Of each kind of slow caller.
ROUNDS = 4
EACH = 40
LIMITS = {"header": "1s", "idle": "1s", "write": "1s", "keep_alive": "1s", "pre_stop": "200ms"}
JSON = ("Content-Type: application/json",)


def answer(request: Request) -> scripts.Script:
    return scripts.sized(b"x" * 16 * MIB if b"slowly" in request.body else b"{}")


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(answer) as made:
        yield made


def head(token: str | None, length: int, *fields: str, path: str = "/v1/completions") -> bytes:
    credential = (f"Authorization: Bearer {token}",) if token else ()
    lines = [f"POST {path} HTTP/1.1", "Host: gw.test", *credential, *JSON, *fields, f"Content-Length: {length}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def call(gateway: Gateway, token: str) -> int:
    return gateway.ask("POST", "/v1/completions", body={"model": "m"}, token=token).status


def all_kinds(callers: SlowCallers, token: str) -> None:
    """Those of B134 and their kin: in the handshake, the head, the body, and reading."""
    ask = b'{"model":"m","prompt":"slowly"}'
    callers.come(EACH, tls=False)
    callers.come(EACH, b"\x16\x03\x01\x02\x00\x01", tls=False)
    callers.come(EACH)
    callers.come(EACH, b"GET / HTTP/1.1\r\nHost: x\r\n", b"x")
    callers.come(EACH, b"GET /v1/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    callers.come(EACH, head(token, MIB) + b"{", b" ")
    callers.come(EACH, head(token, MIB, path="/v2/models/raw/infer"), b" ")
    callers.come(EACH, head(None, MIB), b" ")
    callers.come(EACH // 4, head(token, len(ask)) + ask, reads=False)


def test_slow_callers_of_every_kind_are_let_go_and_others_are_served_meanwhile(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    kserve = pool("triton", ["raw"], stub.url, protocols=["kserve"], health={"path": "/v2/health/ready"})
    gateway = start_gateway([pool("nim", ["m"], stub.url), kserve], limits={"timeouts": LIMITS})
    gateway.backends_up("nim", 1)
    gateway.backends_up("triton", 1)
    alice = token("alice")
    assert call(gateway, alice) == 200
    descriptors, memory = gateway.metric("process_open_fds"), []
    for _ in range(ROUNDS):
        with slow_callers(gateway) as callers:
            all_kinds(callers, alice)

            def nobody_left() -> bool:
                assert call(gateway, alice) == 200
                return connections(gateway) == 0

            wait_until(while_dawdling(callers, nobody_left), 60, "all slow callers being let go")
        wait_until(lambda: gateway.metric("process_open_fds") <= descriptors, 10, "descriptors being given back")
        memory.append(gateway.metric("process_resident_memory_bytes"))
    assert memory[-1] - memory[-2] < 16 * MIB  # the allocator keeps what the first rounds needed
    ends = Counter(
        (call["status"], call["reason"]) for call in gateway.audit() if call["subject"] or call["status"] > 400
    )
    assert ends[401, "invalid_api_key"] == ROUNDS * EACH
    assert ends[408, "request_timeout"] == ROUNDS * 3 * EACH  # in the head, in JSON, in what goes by unread
    assert gateway.metric("gateway_handshake_failures_total", reason="timeout") == ROUNDS * 2 * EACH
    assert gateway.metric("gateway_in_flight_requests") == 0
    wait_until(lambda: all(each.closed for each in stub.requests if b"slowly" in each.body), 10, "no backend held")


def test_who_is_nobody_is_refused_at_the_head_of_an_endless_body(start_gateway: StartGateway, stub: Stub) -> None:
    """B134: whatever length was announced."""
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    with raw(gateway.port, gateway.ca) as line:
        line.sendall(head(None, 60 * MIB) + b"{")
        assert line.recv(12) == b"HTTP/1.1 401"
    assert stub.requests == []


def bounded(start_gateway: StartGateway, stub: Stub) -> Gateway:
    """8 MiB for all bodies together, and no more for one."""
    gateway = start_gateway(
        [pool("nim", ["m"], stub.url)], limits={"bodies": "8MiB", "timeouts": {"pre_stop": "200ms"}}, start=False
    )
    gateway.config["listen"]["max_body"] = "8MiB"
    gateway.write_config()
    gateway.start()
    gateway.backends_up("nim", 1)
    return gateway


def taken(gateway: Gateway) -> float:
    return gateway.metric("gateway_request_bodies_bytes")


def test_bodies_of_all_callers_together_are_bounded_and_small_ones_have_their_place(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway, alice = bounded(start_gateway, stub), token("alice")
    with raw(gateway.port, gateway.ca) as first:
        first.sendall(head(alice, 6 * MIB) + b"{" + b" " * 5 * MIB)
        wait_until(lambda: taken(gateway) > 5 * MIB, 10, "the first body being held")
        announced = gateway.ask(
            "POST", "/v1/completions", body=b" " * 4 * MIB, token=alice, headers={"Content-Type": "application/json"}
        )
        assert (announced.status, announced.json()["error"]["code"]) == (503, "overloaded")
        assert 1 <= int(announced["retry-after"] or 0) <= 60
        with raw(gateway.port, gateway.ca) as second:
            lines = head(alice, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            second.sendall(lines + b"400000\r\n" + b" " * 4 * MIB)
            assert second.recv(12) == b"HTTP/1.1 503"
        assert call(gateway, alice) == 200
        assert taken(gateway) <= gateway.metric("gateway_request_bodies_limit_bytes")
    wait_until(lambda: taken(gateway) == 0, 10, "room being given back")
    body = {"model": "m", "prompt": "x" * 4 * MIB}
    assert gateway.ask("POST", "/v1/completions", body=body, token=alice).status == 200
    wait_until(lambda: taken(gateway) == 0, 10, "room being given back")


def test_neither_a_connection_that_is_kept_nor_a_caller_who_left_holds_anything_of_a_body(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = bounded(start_gateway, stub)
    line = connection(gateway.url, gateway.ca)
    for _ in range(3):
        line.request(
            "POST", "/v1/completions", *prepared({"model": "m", "prompt": "x" * 4 * MIB}, None, token("alice"))
        )
        assert whole(line.getresponse()).status == 200
        wait_until(lambda: taken(gateway) == 0, 10, "room being given back")
    line.close()
    body = {"model": "m", "prompt": "slowly" + "x" * 4 * MIB}
    for _ in range(3):
        with streaming(
            gateway.url, "POST", "/v1/completions", body=body, token=token("alice"), ca=gateway.ca
        ) as answer:
            assert taken(gateway) > 4 * MIB
            answer.leave()
        wait_until(lambda: taken(gateway) == 0, 10, "room being given back")

"""Who gets the next call: fair among equals, nobody before he showed himself, and nobody out for a caller's faults."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import streaming
from tests.parts.gateway import Gateway, pool
from tests.parts.process import wait_until
from tests.parts.scripts import Then
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"


@pytest.fixture
def stubs() -> Iterator[list[Stub]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Stub()) for _ in range(3)]


def call(gateway: Gateway, token: str, model: str = "m") -> int:
    return gateway.ask("POST", CHAT, body={"model": model}, token=token).status


def counts(stubs: list[Stub]) -> list[int]:
    return [len(stub.requests) for stub in stubs]


def log_of(gateway: Gateway, event: str) -> int:
    return gateway.process.stderr.read_text().count(f'"event":"{event}')


@pytest.mark.parametrize("balance", ["least_connections", "round_robin"])
def test_calls_one_after_the_other_go_to_equal_backends_in_equal_parts(
    start_gateway: StartGateway, stubs: list[Stub], token: Token, balance: str
) -> None:
    """B102."""
    gateway = start_gateway([pool("nim", ["m"], *(stub.url for stub in stubs), balance=balance)])
    gateway.backends_up("nim", 3)
    for _ in range(30):
        assert call(gateway, token("alice")) == 200
    assert all(9 <= count <= 11 for count in counts(stubs))


def test_a_backend_that_comes_up_beside_busy_ones_is_filled_up_to_their_load_and_not_beyond(
    start_gateway: StartGateway, stubs: list[Stub], token: Token
) -> None:
    """B103 (choice): there is no slow start; nothing is sent before the first good probe."""
    late = stubs[2]
    late.healthy = False
    for stub in stubs:
        stub.say(scripts.sse(scripts.events(1), end=(Then.WAIT,)))
    urls = [stub.url for stub in stubs]
    gateway = start_gateway([pool("nim", ["m"], *urls, balance="least_connections")])
    gateway.backends_up("nim", 2)

    with ExitStack() as stack:

        def begin(count: int) -> None:
            for _ in range(count):
                body = {"model": "m", "stream": True}
                answer = streaming(gateway.url, "POST", CHAT, body=body, token=token("alice"), ca=gateway.ca)
                assert stack.enter_context(answer).next()

        begin(10)
        assert counts(stubs) == [5, 5, 0]
        late.healthy = True
        gateway.backends_up("nim", 3)
        begin(5)
        assert counts(stubs) == [5, 5, 5]
        begin(6)
        assert counts(stubs) == [7, 7, 7]


def test_a_backend_whose_probes_fail_now_and_then_stays_and_nothing_is_logged(
    start_gateway: StartGateway, stubs: list[Stub], token: Token
) -> None:
    """B105."""
    one = stubs[0]
    gateway = start_gateway([pool("nim", ["m"], one.url, health={"interval": "50ms", "fall": 2, "rise": 2})])
    gateway.backends_up("nim", 1)
    for _ in range(10):
        seen = len(one.probes)
        one.healthy = not one.healthy
        wait_until(lambda seen=seen: len(one.probes) > seen, 10, "the next probe")  # type: ignore[misc]
    one.healthy = True
    assert call(gateway, token("alice")) == 200
    assert log_of(gateway, "backend_up") == 1
    assert log_of(gateway, "backend_down") <= 1  # two probes may have fallen into one turn


def test_answers_that_blame_the_caller_do_not_take_a_backend_out(
    start_gateway: StartGateway, stubs: list[Stub], token: Token
) -> None:
    """B106; 429 (choice): back-pressure, not a failure."""
    gateway = start_gateway([pool("nim", ["m"], *(stub.url for stub in stubs[:2]))])
    gateway.backends_up("nim", 2)
    for status in (400, 401, 403, 404, 413, 422, 429):
        stubs[0].say(scripts.sized(b"{}", status))
        before = counts(stubs)[0]
        assert sorted(call(gateway, token("alice")) for _ in range(16)) == [200] * 8 + [status] * 8
        assert counts(stubs)[0] == before + 8
    assert gateway.metric("gateway_backend_ejections_total") == 0
    assert gateway.metric("gateway_backend_failures_total") == 0


def test_callers_who_leave_do_not_take_a_backend_out(
    start_gateway: StartGateway, stubs: list[Stub], token: Token
) -> None:
    """B106."""
    one = stubs[0]
    one.say(scripts.sse(scripts.events(1), end=(Then.WAIT,)))
    gateway = start_gateway([pool("nim", ["m"], one.url, stubs[1].url)])
    gateway.backends_up("nim", 2)
    for _ in range(40):
        body = {"model": "m", "stream": True}
        with streaming(gateway.url, "POST", CHAT, body=body, token=token("alice"), ca=gateway.ca) as answer:
            answer.next()
            answer.leave()
    wait_until(lambda: gateway.metric("gateway_in_flight_requests") == 0, 10, "all calls being over")
    assert gateway.metric("gateway_backend_ejections_total") == 0
    assert gateway.metric("gateway_backend_failures_total") == 0
    before = counts(stubs)[0]
    one.say(scripts.sized())
    assert [call(gateway, token("alice")) for _ in range(4)] == [200] * 4
    assert counts(stubs)[0] == before + 2


def test_a_model_that_is_not_ready_on_one_server_is_served_by_the_other_and_the_rest_by_both(
    start_gateway: StartGateway, stubs: list[Stub], token: Token
) -> None:
    """B108."""
    first, second, _ = stubs
    first.unready.add("/v2/models/small/ready")
    triton: dict[str, Any] = {"protocols": ["kserve"], "health": {"path": "/v2/health/ready", "interval": "50ms"}}
    gateway = start_gateway([pool("triton", ["small", "other"], first.url, second.url, **triton)])
    gateway.backends_up("triton", 2)

    def infer(model: str) -> int:
        path = f"/v2/models/{model}/infer"
        return gateway.ask("POST", path, body={"inputs": []}, token=token("alice")).status

    def served(model: str) -> list[int]:
        before = counts(stubs)
        assert [infer(model) for _ in range(10)] == [200] * 10
        return [after - earlier for after, earlier in zip(counts(stubs), before, strict=True)]

    wait_until(lambda: all(gateway.status()["models"]["triton"].values()), 10, "each model being served")
    assert served("small") == [0, 10, 0]
    assert served("other") == [5, 5, 0]
    first.unready.clear()
    wait_until(lambda: served("small")[0] == 5, 10, "the model being served by both")
    second.unready.add("/v2/models/small/ready")
    wait_until(lambda: served("small") == [10, 0, 0], 10, "the model being gone from the second")


def test_a_backend_is_watched_and_calls_are_served_while_forty_others_hang(
    start_gateway: StartGateway, stubs: list[Stub], token: Token
) -> None:
    """B109."""
    good = stubs[0]
    with socket.create_server(("0.0.0.0", 0), backlog=1024) as hanging:
        port = hanging.getsockname()[1]
        urls = [f"http://127.0.0.{number}:{port}" for number in range(2, 42)]
        gateway = start_gateway([pool("nim", ["m"], *urls, good.url, health={"interval": "300ms", "timeout": "5s"})])
        gateway.backends_up("nim", 1)
        for _ in range(2):
            good.healthy = False
            gateway.backends_up("nim", 0)
            good.healthy = True
            gateway.backends_up("nim", 1)
            assert call(gateway, token("alice")) == 200
    for probe in good.probes:
        assert not probe.values("authorization")
        assert not probe.values("cookie")

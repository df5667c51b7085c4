"""Backends that die, fall ill and come back, under load."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartGateway, Token
from tests.e2e.load import Load
from tests.parts import scripts
from tests.parts.gateway import Gateway, pool
from tests.parts.llama import HEALTH, Llama
from tests.parts.process import wait_until
from tests.parts.scripts import Script, Then
from tests.parts.stub import Request, Stub, in_turn

PATH = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


@pytest.fixture
def engines(tmp_path: Path, llama: Llama) -> Iterator[list[Llama]]:
    """Two real engines that may be killed."""
    made = [Llama(tmp_path), Llama(tmp_path)]
    yield made
    for engine in made:
        engine.process.kill()


def status(gateway: Gateway, token: str) -> int:
    return gateway.ask("POST", PATH, body=CHAT, token=token).status


def test_a_killed_backend_costs_no_caller_an_error_and_is_used_again_once_it_is_back(
    start_gateway: StartGateway, token: Token, tmp_path: Path, engines: list[Llama]
) -> None:
    gateway = start_gateway([pool("nim", ["m"], *(engine.url for engine in engines), health=HEALTH)])
    gateway.backends_up("nim", 2)
    alice = token("alice")
    with Load(lambda: status(gateway, alice), per_second=100) as load:
        wait_until(lambda: load.done >= 100, 30)
        with load.between_calls():
            engines[0].process.kill()
        wait_until(lambda: load.done >= 400, 30)
        gateway.backends_up("nim", 1)
        engines.append(Llama(tmp_path, port=engines[0].port))
        gateway.backends_up("nim", 2)
        before = load.done
        wait_until(lambda: load.done >= before + 100, 30)
    assert load.outcomes == {200: load.done}
    assert "tokens_predicted_total 0\n" not in engines[-1].metrics()


def test_a_backend_that_refuses_connections_is_retried_elsewhere(start_gateway: StartGateway, token: Token) -> None:
    steady = {"interval": "1h", "fall": 100}
    with Stub() as gone, Stub() as good:
        gateway = start_gateway([pool("nim", ["m"], gone.url, good.url, health=steady)])
        gateway.backends_up("nim", 2)
        gone.stop()
        answers = Counter(status(gateway, token("alice")) for _ in range(10))
    assert answers == {200: 10}
    assert gateway.metric("gateway_retries_total", pool="nim") >= 1


@pytest.mark.parametrize("busy", [502, 503, 504])
def test_a_backend_that_is_too_busy_is_retried_elsewhere(start_gateway: StartGateway, token: Token, busy: int) -> None:
    """B016, fourth try."""
    with Stub(scripts.sized(b"{}", busy)) as full, Stub() as good:
        gateway = start_gateway([pool("nim", ["m"], full.url, good.url)])
        gateway.backends_up("nim", 2)
        assert {status(gateway, token("alice")) for _ in range(4)} == {200}


@pytest.mark.parametrize("fault", [429, 500, 404])
def test_an_answer_of_the_backend_itself_is_not_retried(start_gateway: StartGateway, token: Token, fault: int) -> None:
    with Stub(scripts.sized(b"{}", fault)) as first, Stub(scripts.sized(b"{}", fault)) as second:
        gateway = start_gateway([pool("nim", ["m"], first.url, second.url)])
        gateway.backends_up("nim", 2)
        assert status(gateway, token("alice")) == fault
        assert len(first.requests) + len(second.requests) == 1


#: What a backend does with a call that it has read, and what the caller is told.
MAY_HAVE_RUN: dict[str, tuple[Script, int]] = {
    "it answers too late": ((2.0, *scripts.sized()), 504),
    "it resets": ((0.05, Then.RESET), 502),
    "it closes": ((0.05, Then.CLOSE), 502),
    "it breaks off within the head": ((b"HTTP/1.1 200 OK\r\nContent-Le", 0.05, Then.CLOSE), 502),
    "it answers nonsense": ((b"0 1 2 3\r\n\r\n", Then.CLOSE), 502),
}


def test_what_a_backend_may_have_run_is_not_sent_to_another(start_gateway: StartGateway, token: Token) -> None:
    """B016, first and second try: the other one is well, and hears nothing."""
    with Stub() as first, Stub() as second:
        gateway = start_gateway([pool("nim", ["m"], first.url, second.url, first_byte="500ms")])
        gateway.backends_up("nim", 2)
        for name, (fault, wanted) in MAY_HAVE_RUN.items():
            asked = len(first.requests) + len(second.requests)
            once = in_turn(fault, scripts.sized())
            first.say(once)
            second.say(once)
            assert status(gateway, token("alice")) == wanted, name
            assert len(first.requests) + len(second.requests) == asked + 1, name
        assert gateway.metric("gateway_retries_total") == 0


def test_a_call_that_was_not_connected_reaches_another_backend_whole(start_gateway: StartGateway, token: Token) -> None:
    """B016, third try: also where the body is passed on as it comes."""
    steady = {"interval": "1h", "fall": 100}
    cases = {f"{kind}-{size}": size for kind in ("chat", "tensor") for size in (10, 200_000, 3_000_000)}
    with Stub() as gone, Stub() as good:
        pools = [
            pool(name, [name], gone.url, good.url, protocols=["openai" if "chat" in name else "kserve"], health=steady)
            for name in cases
        ]
        gateway = start_gateway(pools)
        for name in cases:
            gateway.backends_up(name, 2)
        gone.stop()
        for name, size in cases.items():
            body = b'{"model":"%b","pad":"%b"}' % (name.encode(), b"0123456789" * (size // 10))
            path = PATH if "chat" in name else f"/v2/models/{name}/infer"
            for _ in range(2):
                answer = gateway.ask("POST", path, body=body, headers=JSON, token=token("alice"))
                assert (answer.status, good.requests[-1].body) == (200, body), name
            assert gateway.metric("gateway_retries_total", pool=name) == 1
    assert len(good.requests) == 2 * len(cases)


def test_a_busy_answer_goes_to_the_caller_as_it_is_where_nobody_else_is_left(
    start_gateway: StartGateway, token: Token
) -> None:
    """B016, fourth try."""

    def busy(request: Request) -> Script:
        return scripts.sized(b'{"busy":true}', int(json.loads(request.body)["model"]), "Retry-After: 2")

    names = ("502", "503", "504")
    with Stub(busy) as stub:
        gateway = start_gateway([pool(f"nim-{name}", [name], stub.url) for name in names])
        for name in names:
            gateway.backends_up(f"nim-{name}", 1)
            answer = gateway.ask("POST", PATH, body={"model": name}, token=token("alice"))
            assert (answer.status, answer["retry-after"], answer.body) == (int(name), "2", b'{"busy":true}')
    assert len(stub.requests) == len(names)


def test_a_long_upload_that_met_a_busy_backend_is_not_sent_again_in_part(
    start_gateway: StartGateway, token: Token
) -> None:
    """B016: what was passed on as it came is gone, so the busy answer is the caller's."""
    body = bytes(2_000_000)
    with Stub(scripts.sized(b"{}", 503)) as first, Stub(scripts.sized(b"{}", 503)) as second:
        health = {"path": "/v2/health/ready"}
        gateway = start_gateway([pool("triton", ["t"], first.url, second.url, protocols=["kserve"], health=health)])
        gateway.backends_up("triton", 2)
        assert gateway.ask("POST", "/v2/models/t/infer", body=body, token=token("alice")).status == 503
    assert [request.body for request in first.requests + second.requests] == [body]


def test_a_kept_connection_that_the_backend_closed_meanwhile_goes_unnoticed(
    start_gateway: StartGateway, token: Token
) -> None:
    """B015: engines close idle connections after a few seconds, often just when the next call comes."""
    with Stub(lambda _: (*scripts.sized(), 0.02, Then.CLOSE)) as closing:
        gateway = start_gateway([pool("nim", ["m"], closing.url)])
        with Load(lambda: status(gateway, token("alice")), per_second=50) as load:
            wait_until(lambda: load.done >= 150, 30)
    assert load.outcomes == {200: load.done}


def test_a_kept_connection_that_closes_as_the_call_comes_is_answered_by_the_second_try(
    start_gateway: StartGateway, token: Token
) -> None:
    with Stub(in_turn(scripts.sized(), (Then.CLOSE,), scripts.sized(b'{"again":true}'))) as stub:
        gateway = start_gateway([pool("nim", ["m"], stub.url)])
        gateway.backends_up("nim", 1)
        assert status(gateway, token("alice")) == 200
        answer = gateway.ask("POST", PATH, body=CHAT, token=token("alice"))
    assert (answer.status, answer.body) == (200, b'{"again":true}')
    first, kept, fresh = stub.requests
    assert kept.connection == first.connection != fresh.connection
    assert kept.body == fresh.body


def test_a_kept_connection_that_closes_late_may_have_run_the_call_which_is_not_sent_again(
    start_gateway: StartGateway, token: Token
) -> None:
    """B016."""
    with Stub(in_turn(scripts.sized(), (2.0, Then.CLOSE), scripts.sized())) as stub:
        gateway = start_gateway([pool("nim", ["m"], stub.url)])
        gateway.backends_up("nim", 1)
        assert status(gateway, token("alice")) == 200
        answer = gateway.ask("POST", PATH, body=CHAT, token=token("alice"))
    assert answer.status == 502
    assert answer.json()["error"]["code"] == "upstream_error"
    first, kept = stub.requests
    assert kept.connection == first.connection
    assert gateway.audit_of(answer["x-request-id"])["attempts"] == 1


@pytest.mark.parametrize("part", [b"H", b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Type: a"])
@pytest.mark.parametrize("end", [Then.CLOSE, Then.RESET])
def test_a_kept_connection_that_closes_after_any_byte_of_an_answer_has_run_the_call(
    start_gateway: StartGateway, token: Token, part: bytes, end: Then
) -> None:
    """B015, B016."""
    with Stub(in_turn(scripts.sized(), (part, 0.05, end), scripts.sized())) as stub:
        gateway = start_gateway([pool("nim", ["m"], stub.url)])
        gateway.backends_up("nim", 1)
        assert [status(gateway, token("alice")) for _ in range(2)] == [200, 502]
    assert len(stub.requests) == 2


def test_a_backend_that_falls_ill_gets_no_calls_until_it_is_well(start_gateway: StartGateway, token: Token) -> None:
    with Stub() as first, Stub() as second:
        gateway = start_gateway([pool("nim", ["m"], first.url, second.url)])
        gateway.backends_up("nim", 2)
        first.healthy = False
        gateway.backends_up("nim", 1)
        before = len(first.requests)
        assert {status(gateway, token("alice")) for _ in range(6)} == {200}
        assert len(first.requests) == before
        first.healthy = True
        gateway.backends_up("nim", 2)
        assert {status(gateway, token("alice")) for _ in range(6)} == {200}
        assert len(first.requests) > before


def test_round_robin_is_fair_and_least_connections_avoids_the_slow(start_gateway: StartGateway, token: Token) -> None:
    with Stub() as first, Stub() as second:
        gateway = start_gateway([pool("nim", ["m"], first.url, second.url)])
        gateway.backends_up("nim", 2)
        for _ in range(10):
            assert status(gateway, token("alice")) == 200
        assert len(first.requests) == len(second.requests) == 5
    with Stub((1.0, *scripts.sized())) as slow, Stub() as quick:
        gateway = start_gateway([pool("nim", ["m"], slow.url, quick.url, balance="least_connections")])
        gateway.backends_up("nim", 2)
        with Load(lambda: status(gateway, token("alice")), per_second=40) as load:
            wait_until(lambda: load.done >= 60, 30)
        assert len(slow.requests) <= 0.2 * load.done

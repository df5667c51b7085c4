"""Backends that die, fall ill and come back, under load."""

from __future__ import annotations

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
from tests.parts.scripts import Then
from tests.parts.stub import Stub, in_turn

PATH = "/v1/chat/completions"
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


def test_a_new_connection_that_breaks_after_the_request_is_not_retried(
    start_gateway: StartGateway, token: Token
) -> None:
    """The backend may have executed it."""
    with Stub((0.05, Then.RESET)) as first, Stub((0.05, Then.RESET)) as second:
        gateway = start_gateway([pool("nim", ["m"], first.url, second.url)])
        gateway.backends_up("nim", 2)
        assert status(gateway, token("alice")) == 502
        assert len(first.requests) + len(second.requests) == 1


def test_a_kept_connection_that_the_backend_closed_meanwhile_goes_unnoticed(
    start_gateway: StartGateway, token: Token
) -> None:
    """Engines close idle connections after a few seconds, often just when the next call comes."""
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

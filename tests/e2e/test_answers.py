"""The table of answers (contract, section 4): each situation, its status, its code, in the caller's dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import Answer, streaming
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.scripts import Script, Then
from tests.parts.stub import Stub

JSON = {"Content-Type": "application/json"}
CHAT = "/v1/chat/completions"
LIMIT = 64 * 1024
QUICK = {"header": "2s", "connect": "1s", "first_byte": "1s", "idle": "1s", "pre_stop": "200ms", "drain": "5s"}


@dataclass(frozen=True)
class Row:
    """A situation: what is sent by whom, and what is answered."""

    status: int
    code: str
    path: str = CHAT
    method: str = "POST"
    body: bytes = b'{"model":"m","messages":[]}'
    user: str | None = "alice"
    bearer: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    backend: Script = field(default_factory=scripts.sized)


ROWS = {
    "no credential": Row(401, "invalid_api_key", user=None),
    "a credential that is no token": Row(401, "invalid_api_key", bearer="nonsense"),
    "a model that is not granted": Row(403, "model_not_allowed", user="bob"),
    "a model that nobody serves": Row(404, "model_not_found", body=b'{"model":"absent"}'),
    "a path that nobody knows": Row(404, "not_found", path="/v1/secrets"),
    "a path of the administration": Row(404, "not_found", path="/v1/load_lora_adapter", body=b'{"lora_name":"m"}'),
    "a path that only operators may see": Row(404, "not_found", path="/metrics", method="GET", body=b""),
    "a model named twice": Row(400, "ambiguous_model", body=b'{"model":"m","model":"absent"}'),
    "a body that is no JSON": Row(400, "invalid_request", body=b'{"model":'),
    "a body that is not an object": Row(400, "invalid_request", body=b'["m"]'),
    "a model that is not a word": Row(400, "invalid_request", body=b'{"model":7}'),
    "a path with dot segments": Row(400, "invalid_request", path="/v1/../v1/chat/completions"),
    "a path with an encoded slash": Row(400, "invalid_request", path="/v1%2Fchat/completions"),
    "a body that is too large": Row(413, "request_too_large", body=b'{"model":"m","pad":"' + b"x" * LIMIT + b'"}'),
    "a header that is too large": Row(431, "request_too_large", headers={**JSON, "X-Long": "x" * 70_000}),
    "a backend that answers nonsense": Row(502, "upstream_error", backend=(b"SSH-2.0-nonsense\r\n\r\n", Then.CLOSE)),
    "a backend that closes without a word": Row(502, "upstream_error", backend=(Then.CLOSE,)),
    "a backend that resets": Row(502, "upstream_error", backend=(Then.RESET,)),
    "a backend that says nothing": Row(504, "upstream_timeout", backend=(Then.WAIT,)),
}


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, stub: Stub) -> Gateway:
    """Small limits, a model `m` with a stub behind it and one for KServe."""
    steady = {"path": "/v1/health/ready", "interval": "1h", "timeout": "1s", "fall": 100, "rise": 1}
    pools = [
        pool("nim", ["m", "locked"], stub.url, health=steady),
        pool("triton", ["t"], stub.url, protocols=["kserve"], health={**steady, "path": "/v2/health/ready"}),
    ]
    rules = [allow("science", ["m", "t"])]
    listen = {"max_body": "64KiB"}
    running = start_shared_gateway(pools, rules, start=False, limits={"header": "32KiB", "timeouts": QUICK})
    running.config["listen"] |= listen
    running.write_config()
    running.start()
    return running


def send(gateway: Gateway, row: Row, token: Token) -> Answer:
    bearer = row.bearer or (token(row.user) if row.user else None)
    body = row.body or None
    return gateway.ask(row.method, row.path, body=body, headers=row.headers, token=bearer)


@pytest.mark.parametrize("name", ROWS)
def test_each_situation_has_its_status_and_code(gateway: Gateway, stub: Stub, token: Token, name: str) -> None:
    row = ROWS[name]
    stub.say(row.backend)
    answer = send(gateway, row, token)
    assert answer.status == row.status, answer.body
    error = answer.json()["error"]
    assert error["code"] == row.code
    assert set(error) == {"message", "type", "param", "code"}
    assert len(error["message"]) > 10
    assert answer["x-request-id"]
    assert answer["content-type"] == "application/json"


def test_an_answer_that_stalls_in_the_middle_is_cut_after_the_idle_limit(
    gateway: Gateway, stub: Stub, token: Token
) -> None:
    stub.say(scripts.sse(scripts.events(2)[:1], end=(Then.WAIT,)))
    body = {"model": "m", "stream": True}
    with streaming(gateway.url, "POST", CHAT, body=body, token=token("alice"), ca=gateway.ca) as answer:
        received = answer.rest()
    assert received.startswith(scripts.events(2)[0])
    assert b"[DONE]" not in received
    assert b'"error"' in received
    assert answer.cut


def test_who_is_nobody_is_told_how_to_come_back(gateway: Gateway, token: Token) -> None:
    bare = send(gateway, ROWS["no credential"], token)
    assert bare["www-authenticate"] == 'Bearer realm="nim-gateway"'
    bad = send(gateway, ROWS["a credential that is no token"], token)
    assert (bad["www-authenticate"] or "").startswith("Bearer ")
    assert 'error="invalid_token"' in (bad["www-authenticate"] or "")


def test_no_unidentified_caller_ever_reaches_a_backend(gateway: Gateway, stub: Stub, token: Token) -> None:
    before = len(stub.requests)
    for row in ROWS.values():
        if row.status in {400, 401, 403, 404, 413, 431}:
            send(gateway, row, token)
    assert len(stub.requests) == before


KSERVE: dict[str, tuple[str, str | None, int, dict[str, Any]]] = {
    "no credential": ("/v2/models/t/infer", None, 401, {}),
    "not granted": ("/v2/models/t/infer", "bob", 403, {}),
    "unknown": ("/v2/models/absent/infer", "alice", 404, {}),
    "closed": ("/v2/repository/models/t/load", "alice", 404, {}),
}


@pytest.mark.parametrize("name", KSERVE)
def test_kserve_callers_are_refused_in_kserve_words(gateway: Gateway, token: Token, name: str) -> None:
    path, user, status, body = KSERVE[name]
    answer = gateway.ask("POST", path, body=body, token=token(user) if user else None)
    assert answer.status == status
    assert list(answer.json()) == ["error"]
    assert isinstance(answer.json()["error"], str)


def test_anthropic_callers_are_refused_in_anthropic_words(gateway: Gateway, token: Token) -> None:
    answer = gateway.ask("POST", "/v1/messages", body={"model": "m"}, token="nonsense")
    assert answer.status == 401
    assert answer.json()["type"] == "error"
    assert set(answer.json()["error"]) >= {"type", "message"}


def test_hidden_models_look_like_models_that_do_not_exist(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    rules = [allow("science", ["m"])]
    hiding = start_gateway([pool("nim", ["m", "locked"], stub.url)], rules, hide_models=True)
    for more, status in (({}, 404), ({"model_name": "x"}, 404), ({"stream": 1}, 400), ({"conversation": "x"}, 404)):
        locked, absent = (
            hiding.ask("POST", CHAT, body={"model": model, **more}, token=token("alice"))
            for model in ("locked", "absent")
        )
        assert locked.status == absent.status == status
        assert locked.body.replace(b"locked", b"absent") == absent.body


def test_no_healthy_backend_is_503_with_a_time_to_come_back(start_gateway: StartGateway, token: Token) -> None:
    with Stub() as ill:
        ill.healthy = False
        gateway = start_gateway([pool("nim", ["m"], ill.url)])
        gateway.backends_up("nim", 0)
        answer = gateway.ask("POST", CHAT, body={"model": "m"}, token=token("alice"))
    assert answer.status == 503
    assert answer.json()["error"]["code"] == "no_backend"
    assert 1 <= int(answer["retry-after"] or 0) <= 60


def test_a_backend_that_cannot_be_reached_is_502(start_gateway: StartGateway, token: Token) -> None:
    steady = {"interval": "1h", "fall": 100}
    with Stub() as gone:
        gateway = start_gateway([pool("nim", ["m"], gone.url, health=steady)])
        gateway.backends_up("nim", 1)
    answer = gateway.ask("POST", CHAT, body={"model": "m"}, token=token("alice"))
    assert answer.status == 502
    assert answer.json()["error"]["code"] == "upstream_error"


def test_health_of_the_gateway_needs_no_credential(gateway: Gateway) -> None:
    for path in ("/v1/health/live", "/v1/health/ready", "/v2/health/live", "/v2/health/ready"):
        assert gateway.ask("GET", path).status == 200


def test_the_request_id_is_ours_and_new_each_time(gateway: Gateway, token: Token) -> None:
    ids = set()
    for _ in range(3):
        answer = gateway.ask("GET", "/v1/models", token=token("alice"), headers={"X-Request-Id": "mine"})
        ids.add(answer["x-request-id"])
    assert len(ids) == 3
    assert "mine" not in ids

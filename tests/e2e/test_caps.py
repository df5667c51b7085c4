"""Backends only ever get what the rules let a caller ask for, and everything else as it came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.llama import HEALTH, Llama
from tests.parts.stub import Request, Stub
from tests.parts.triton import Triton

CHAT = "/v1/chat/completions"
BATCH = "/v1/chat/completions/batch"
LIMITS = {"max_tokens": 10, "n": 1, "prompts": 2, "images": 1, "tools": 1, "remote_media": False, "input": "2KiB"}
RULES = [
    allow("strict", ["strict"], limits=LIMITS, operations=["infer", "stream", "admin"]),
    allow("guests", ["salted-free"], subjects={"groups": ["guests"]}),
    allow("lenient", ["lenient", "salted"], limits={**LIMITS, "on_excess": "clamp"}),
    allow("free", ["free", "salted-free"]),
    allow("opened", ["opened"], engine_fields=["priority"]),
    allow("small-bodies", ["echo"], limits={"input": "1KiB"}),
    allow("first", ["first"], limits={"input": "2KiB"}),
    allow("second", ["second"], limits={"input": "1KiB"}),
    allow("two-low", ["two"], limits={"max_tokens": 10}),
    allow("two-high", ["two"], limits={"max_tokens": 100}),
]


@pytest.fixture(scope="module")
def backend() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}")) as made:
        yield made


@pytest.fixture(scope="module")
def capped(start_shared_gateway: StartGateway, backend: Stub) -> Gateway:
    """A backend that writes everything down, with a model for each rule."""

    def spoken() -> list[str]:  # a list of its own each time: the file takes no anchors
        return ["openai", "anthropic", "nim-mgmt"]

    models: list[Any] = ["strict", {"name": "lenient", "aliases": ["lax"]}, "free", "opened", "two"]
    running = start_shared_gateway(
        [
            pool("nim", models, backend.url, protocols=spoken(), open=[BATCH]),
            pool("salted", ["salted", "salted-free"], backend.url, cache_salt="subject", protocols=spoken()),
            pool("generic", ["first", "second"], backend.url, protocols=["generic-infer"], prefix="/generic"),
            pool("triton", ["strict", "echo"], backend.url, protocols=["kserve"], health={"path": "/v2/health/ready"}),
        ],
        RULES,
    )
    for name in ("nim", "salted", "triton"):
        running.backends_up(name, 1)
    return running


class Asked:
    """Alice's calls, and what the backend got of each."""

    def __init__(self, gateway: Gateway, stub: Stub, token: str) -> None:
        self.gateway, self._stub, self._token = gateway, stub, token

    def __call__(self, body: bytes | dict[str, Any], path: str = CHAT) -> tuple[Answer, list[Request]]:
        before = len(self._stub.requests)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        answer = self.gateway.ask("POST", path, token=self._token, body=content, headers=headers)
        return answer, self._stub.requests[before:]


@pytest.fixture
def alice(capped: Gateway, backend: Stub, token: Token) -> Asked:
    return Asked(capped, backend, token("alice"))


def test_what_is_within_the_limits_goes_on_byte_for_byte(alice: Asked) -> None:
    body = b' { "max_tokens" :10,"model": "strict", "x":"\\u00e9\\/" }\n'
    answer, (got,) = alice(body)
    assert (answer.status, answer["x-gateway-clamped"], got.body) == (200, None, body)
    line = alice.gateway.audit_of(answer["x-request-id"])
    assert (line["terms"], line["changed"]) == ("strict", [])


def test_too_much_is_refused_by_field_value_and_cap_and_reaches_nobody(alice: Asked) -> None:
    answer, got = alice({"model": "strict", "max_tokens": 4096, "messages": [{"content": "a secret"}]})
    assert (answer.status, got) == (400, [])
    assert answer.json()["error"] == {
        "message": "'max_tokens' is 4096, and you may ask for 10 at most.",
        "type": "invalid_request_error",
        "param": "max_tokens",
        "code": "cap_exceeded",
    }
    line = alice.gateway.audit_of(answer["x-request-id"])
    assert (line["reason"], line["terms"], line["changed"]) == ("cap_exceeded", "strict", [])
    assert line["detail"] == "max_tokens 4096 > 10"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": 1, "n": 2}, "n"),
    ({"max_tokens": 1, "max_completion_tokens": 11}, "max_completion_tokens"),
    ({"max_tokens": "10"}, "max_tokens"),
    ({"max_tokens": 1, "tools": [{}, {}]}, "tools"),
    ({"max_tokens": 1, "prompt": ["a", "b", "c"]}, "prompt"),
    ({"max_tokens": 1, "messages": [{"content": [{"image_url": {"url": "http://10.0.0.1/"}}]}]}, "messages"),
    ({"max_tokens": 1, "messages": [{"content": [{"image_url": "data:a"}, {"image_url": "data:b"}]}]}, "messages"),
    ({"max_tokens": 1, "priority": 0}, "priority"),
    ({"max_tokens": 1, "nvext": {"priority": 0}}, "nvext.priority"),
    ({"max_tokens": 1, "nvext": {"extra_body": {"max_tokens": 11}}}, "nvext.extra_body.max_tokens"),
    ({"max_tokens": 1, "chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template"),
]


@pytest.mark.parametrize(("more", "param"), REFUSED)
def test_each_limit_is_held_on_the_way(alice: Asked, more: dict[str, Any], param: str) -> None:
    answer, got = alice({"model": "strict", **more})
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["param"], got) == (400, "cap_exceeded", param, [])


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/responses", "/v1/embeddings"])
def test_engine_fields_are_refused_from_a_caller_without_limits_too(alice: Asked, path: str) -> None:
    bodies: list[dict[str, Any]] = [{"priority": 1}, {"kv_transfer_params": {}}, {"cache_salt": "b"}, {"Priority": 1}]
    for body in bodies:
        answer, got = alice({"model": "free", **body}, path)
        assert (answer.status, got) == (400, [])


def test_an_engine_field_that_a_rule_opens_goes_on(alice: Asked) -> None:
    answer, (got,) = alice(b'{"model":"opened","priority":5}')
    assert (answer.status, got.body) == (200, b'{"model":"opened","priority":5}')
    assert alice({"model": "opened", "rid": "x"})[0].status == 400


def test_where_a_rule_clamps_only_what_is_too_much_changes_and_the_caller_is_told(alice: Asked) -> None:
    body = b'{ "max_tokens" : 4096, "priority":1 ,"model":"lax" , "n":9,"x":[1, 2] }'
    answer, (got,) = alice(body)
    assert got.body == b'{ "max_tokens" : 10 ,"model":"lenient" , "n":1,"x":[1, 2] }'
    assert answer["x-gateway-clamped"] == "priority removed, max_tokens=10, n=1"
    line = alice.gateway.audit_of(answer["x-request-id"])
    assert (line["terms"], line["changed"]) == ("lenient", ["priority removed", "max_tokens=10", "n=1"])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (CHAT, "max_tokens"),
        ("/v1/completions", "max_tokens"),
        ("/v1/messages", "max_tokens"),
        ("/v1/responses", "max_output_tokens"),
    ],
)
def test_a_budget_that_is_not_named_is_the_cap(alice: Asked, path: str, name: str) -> None:
    answer, (got,) = alice(b'{"model":"strict","stream":false}', path)
    assert got.body == b'{"%b":10,"model":"strict","stream":false}' % name.encode()
    assert answer["x-gateway-clamped"] == f"{name}=10"


def test_no_route_that_generates_nothing_gets_a_budget(alice: Asked) -> None:
    body = b'{"model":"strict","input":"a"}'
    answer, (got,) = alice(body, "/v1/embeddings")
    assert (got.body, answer["x-gateway-clamped"]) == (body, None)


def test_the_largest_of_two_rules_holds(alice: Asked) -> None:
    answer, (got,) = alice(b'{"model":"two","max_tokens":50}')
    assert got.body == b'{"model":"two","max_tokens":50}'
    assert alice.gateway.audit_of(answer["x-request-id"])["terms"] == "two-high"
    assert alice({"model": "two", "max_tokens": 101})[0].json()["error"]["message"].endswith("10 at most.")


def test_a_body_that_is_too_large_for_the_rule_is_413(alice: Asked) -> None:
    answer, got = alice({"model": "strict", "max_tokens": 1, "x": "a" * 3000})
    error = answer.json()["error"]
    assert (answer.status, error["code"], got) == (413, "request_too_large", [])
    assert "2048 bytes" in error["message"]


def test_a_body_of_json_that_nobody_understands_is_refused_where_its_fields_are_limited(alice: Asked) -> None:
    answer, got = alice({"model": "strict", "messages": [[{"role": "user", "content": "a"}]]}, BATCH)
    assert (answer.status, got) == (400, [])
    assert "cannot be seen on this route" in answer.json()["error"]["message"]


def test_an_address_in_a_form_does_not_reach_an_engine_that_would_fetch_it(capped: Gateway, token: Token) -> None:
    body = b'--X\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    form = body % (b"model", b"strict") + body % (b"url[]", b"http://10.0.0.1/") + b"--X--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=X"}
    answer = capped.ask("POST", "/v1/audio/transcriptions", token=token("alice"), body=form, headers=headers)
    assert (answer.status, answer.json()["error"]["param"]) == (400, "url[]")


def test_tensors_that_nobody_can_read_are_refused_where_their_fields_are_limited(alice: Asked) -> None:
    answer, got = alice(b"tensors", "/v2/models/strict/infer")
    assert (answer.status, got) == (400, [])
    assert "cannot be seen on this route" in answer.json()["error"]


def test_a_streamed_body_is_cut_off_at_the_limit_of_the_rule(alice: Asked) -> None:
    assert alice(b"x" * 1024, "/v2/models/echo/infer")[0].status == 200
    answer, got = alice(b"x" * 1025, "/v2/models/echo/infer")
    assert (answer.status, got) == (413, [])
    assert "1024 bytes" in answer.json()["error"]


def test_a_call_that_needs_two_models_is_held_to_the_limits_for_both(alice: Asked) -> None:
    assert alice(b"x" * 1024, "/generic/v1/infer")[0].status == 200
    answer, got = alice(b"x" * 1025, "/generic/v1/infer")
    assert (answer.status, got) == (413, [])


def test_the_gateway_says_whose_caches_a_call_may_use(alice: Asked, token: Token, backend: Stub) -> None:
    bob = Asked(alice.gateway, backend, token("bob"))
    salts = [
        json.loads(got.body)["cache_salt"]
        for caller, model in ((alice, "salted"), (alice, "salted-free"), (bob, "salted-free"))
        for got in caller({"model": model, "max_tokens": 1})[1]
    ]
    assert salts[0] == salts[1] != salts[2]
    assert alice({"model": "salted-free", "cache_salt": salts[2]})[0].status == 400
    _, (got,) = alice({"model": "salted", "max_tokens": 1, "cache_salt": salts[2]})
    assert json.loads(got.body)["cache_salt"] == salts[0]


def test_the_openai_package_raises_what_can_be_branched_on(capped: Gateway, token: Token) -> None:
    trusting = openai.DefaultHttpxClient(verify=capped.trust)
    with OpenAI(base_url=f"{capped.url}/v1", api_key=token("alice"), max_retries=0, http_client=trusting) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="strict", messages=[{"role": "user", "content": "a"}], max_tokens=11)
        raw = client.chat.completions.with_raw_response.create(
            model="lenient", messages=[{"role": "user", "content": "a"}], max_tokens=11
        )
    assert (refused.value.code, refused.value.param) == ("cap_exceeded", "max_tokens")
    assert raw.headers["x-gateway-clamped"] == "max_tokens=10"


@pytest.fixture(scope="module")
def real(start_shared_gateway: StartGateway, llama: Llama, triton: Triton) -> Gateway:
    kserve = {"protocols": ["kserve"], "health": {"path": "/v2/health/ready"}}
    running = start_shared_gateway(
        [pool("llama", ["tiny"], llama.url, health=HEALTH), pool("triton", ["repeat", "slow"], triton.url, **kserve)],
        [allow("few", ["**"], limits={"max_tokens": 5, "on_excess": "clamp"})],
    )
    running.backends_up("llama", 1)
    running.backends_up("triton", 1)
    return running


@pytest.mark.parametrize("more", [{}, {"max_tokens": 400}, {"max_tokens": None}])
def test_a_real_engine_generates_no_more_than_the_cap(real: Gateway, token: Token, more: dict[str, Any]) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], **more}
    answer = real.ask("POST", CHAT, token=token("alice"), body=body)
    assert (answer.status, answer["x-gateway-clamped"]) == (200, "max_tokens=5")
    assert answer.json()["usage"]["completion_tokens"] == 5


def test_a_real_triton_takes_a_call_with_the_budget_that_was_filled_in(real: Gateway, token: Token) -> None:
    answer = real.ask("POST", "/v2/models/slow/generate", token=token("alice"), body={"MS": 1})
    assert (answer.status, answer["x-gateway-clamped"], answer.json()["OK"]) == (200, "max_tokens=5", 1)
    refused = real.ask(
        "POST", "/v2/models/slow/generate", token=token("alice"), body={"MS": 1, "parameters": {"max_tokens": 6}}
    )
    assert (refused.status, refused.json()) == (
        400,
        {"error": "'parameters.max_tokens' is 6, and you may ask for 5 at most."},
    )


def test_a_real_triton_streams_what_was_held(real: Gateway, token: Token) -> None:
    body = {"PROMPT": "a", "N": 3, "DELAY_MS": 1, "max_tokens": 3}
    answer = real.ask("POST", "/v2/models/repeat/generate_stream", token=token("alice"), body=body)
    assert (answer.status, answer["x-gateway-clamped"], answer.body.count(b"data: ")) == (200, None, 3)

"""What comes out of the gateway is what went in, byte for byte, in both directions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Token
from tests.e2e.conftest import TINY
from tests.parts import scripts
from tests.parts.client import ask, streaming
from tests.parts.gateway import Gateway
from tests.parts.llama import Llama
from tests.parts.stub import Stub
from tests.parts.triton import Triton

CHAT = {"model": TINY, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 12, "temperature": 0, "seed": 1}
#: What the engine itself makes anew for each answer: ids, clocks, and how much of the prompt it remembered.
VARYING = re.compile(
    rb'"id":"[^"]*"|"created":\d+|"timings":\{[^}]*\}|"prompt_tokens_details":\{[^}]*\}|"(?:cached_tokens|cache_n)":\d+'
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_the_engine_says_the_same_directly_and_through_the_gateway(
    gateway: Gateway, llama: Llama, token: Token, path: str, stream: bool
) -> None:
    body = {**CHAT, "prompt": "once upon", "stream": stream}
    direct = ask(llama.url, "POST", path, body=body)
    relayed = gateway.ask("POST", path, body=body, token=token("alice"))
    assert relayed.status == direct.status == 200
    assert VARYING.sub(b"", relayed.body) == VARYING.sub(b"", direct.body)
    assert relayed["content-type"] == direct["content-type"]


def test_embeddings_are_the_same_numbers_directly_and_through_the_gateway(
    gateway: Gateway, llama: Llama, token: Token
) -> None:
    body = {"model": TINY, "input": "the same words"}
    direct = ask(llama.url, "POST", "/v1/embeddings", body=body)
    assert gateway.ask("POST", "/v1/embeddings", body=body, token=token("alice")).body == direct.body


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v2/models/addsub/infer",
            {"inputs": [{"name": n, "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]} for n in "AB"]},
        ),
        ("/v2/models/addsub/infer", {"inputs": []}),
        ("/v2/models/repeat/generate_stream", {"PROMPT": "x", "N": 4, "DELAY_MS": 1}),
    ],
)
def test_triton_says_the_same_directly_and_through_the_gateway(
    gateway: Gateway, triton: Triton, token: Token, path: str, body: dict[str, Any]
) -> None:
    direct = ask(triton.url, "POST", path, body=body)
    relayed = gateway.ask("POST", path, body=body, token=token("alice"))
    assert (relayed.status, relayed.body) == (direct.status, direct.body)
    assert relayed["content-type"] == direct["content-type"]


def test_metadata_of_triton_is_the_same_directly_and_through_the_gateway(
    gateway: Gateway, triton: Triton, token: Token
) -> None:
    direct = ask(triton.url, "GET", "/v2/models/addsub")
    assert gateway.ask("GET", "/v2/models/addsub", token=token("alice")).body == direct.body


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=3000), max_size=12),
    coded=st.sampled_from(["sized", "chunked", "until_close"]),
    status=st.sampled_from([200, 201, 400, 422, 429, 500]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_answer_comes_through_unchanged(
    stubbed: Gateway, stub: Stub, token: Token, pieces: list[bytes], coded: str, status: int
) -> None:
    whole = b"".join(pieces)
    answers = {
        "sized": scripts.sized(whole, status, "X-Of-The-Backend: kept"),
        "chunked": scripts.chunked(pieces),
        "until_close": scripts.until_close(whole),
    }
    stub.say(answers[coded])
    answer = stubbed.ask("POST", "/v1/chat/completions", body={"model": "m"}, token=token("alice"))
    assert answer.body == whole
    assert answer.status == (status if coded == "sized" else 200)
    if coded == "sized":
        assert answer["x-of-the-backend"] == "kept"


@given(body=st.dictionaries(st.text(max_size=8).filter(lambda key: key != "model"), st.text(max_size=40), max_size=6))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_request_reaches_the_backend_unchanged(
    stubbed: Gateway, stub: Stub, token: Token, body: dict[str, str]
) -> None:
    stub.say(scripts.sized())
    sent = json.dumps({**body, "model": "m"}, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    headers = {"Content-Type": "application/json"}
    answer = stubbed.ask("POST", "/v1/chat/completions", body=sent, headers=headers, token=token("alice"))
    assert answer.status == 200, answer.body
    assert stub.requests[-1].body == sent


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 300_000, 3_000_000])
def test_a_tensor_streams_to_the_backend_unchanged_with_its_length(
    stubbed: Gateway, stub: Stub, token: Token, size: int
) -> None:
    stub.say(scripts.sized())
    sent = bytes(number % 251 for number in range(size))
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": "0"}
    answer = stubbed.ask("POST", "/v2/models/t/infer", body=sent, headers=headers, token=token("alice"))
    assert answer.status == 200
    got = stub.requests[-1]
    assert got.body == sent
    assert got.values("inference-header-content-length") == ["0"]


@pytest.mark.parametrize("width", [1, 3, 7, 64, 1000])
def test_events_are_identical_however_they_are_cut(stubbed: Gateway, stub: Stub, token: Token, width: int) -> None:
    whole = b"".join(scripts.events(6)) + b": a comment\r\n\r\nevent: odd\rdata: \xf0\x9f\x98\x80\n\n"
    pieces = [whole[start : start + width] for start in range(0, len(whole), width)]
    stub.say(scripts.sse(pieces))
    body = {"model": "m", "stream": True}
    answer = stubbed.ask("POST", "/v1/chat/completions", body=body, token=token("alice"))
    assert answer.body == whole


def test_events_are_passed_on_as_they_come_and_not_merged(stubbed: Gateway, stub: Stub, token: Token) -> None:
    pieces = scripts.events(10)
    stub.say(scripts.sse(pieces, every=0.1))
    body = {"model": "m", "stream": True}
    path = "/v1/chat/completions"
    with streaming(stubbed.url, "POST", path, body=body, token=token("alice"), ca=stubbed.ca) as answer:
        arrivals = list(answer.pieces())
    assert b"".join(arrival.piece for arrival in arrivals) == b"".join(pieces)
    assert len(arrivals) >= len(pieces) - 2  # a stall of the machine may join two, a buffer would join all

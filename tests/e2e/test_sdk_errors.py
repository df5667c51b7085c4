"""How often the `openai` package comes back: never for what stays refused, and no more often than it says itself."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionUserMessageParam
from pydantic import BaseModel

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.process import PARTS_PYTHON
from tests.parts.scripts import Then
from tests.parts.stub import Request, Stub

HELLO: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hello"}]
FAULTS: dict[bytes, scripts.Script] = {
    b"m-broken": (Then.CLOSE,),
    b"m-silent": (Then.WAIT,),
    b"m-nonsense": (b"nonsense\r\n\r\n", Then.CLOSE),
    b"m-limited": scripts.sized(b'{"error":{"message":"slow down"}}', 429, "Retry-After: 1", "Connection: close"),
    b"m-cut": scripts.sse(scripts.events(3)[:2], end=(Then.RESET,)),
}
WHOLE = {
    "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"city":"Rome"}'}, "finish_reason": "stop"}],
}  # fmt: skip
SPOKEN = b'{"text":"hello"}'


def answer(request: Request) -> scripts.Script:
    for name, script in FAULTS.items():
        if b'"' + name + b'"' in request.body:
            return script
    # No connection is kept: a call that breaks on a kept one is sent again on another, which is not counted here.
    return scripts.sized(SPOKEN if "audio" in request.target else json.dumps(WHOLE).encode(), 200, "Connection: close")


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(answer) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, stub: Stub) -> Gateway:
    speech = pool("speech", ["whisper"], stub.url)
    models = ["m", "locked", *(name.decode() for name in FAULTS)]
    down = pool("down", ["m-down"], "http://127.0.0.1:1", health={"interval": "1s"})
    running = start_shared_gateway(
        [pool("nim", models, stub.url, first_byte="500ms", max_body="64KiB"), speech, down],
        [allow("most", ["m", "m-*", "whisper"]), allow("others", ["locked"], subjects={"groups": ["nobody-here"]})],
    )
    running.backends_up("nim", 1)
    running.backends_up("speech", 1)
    return running


@pytest.fixture
def client(gateway: Gateway, token: Token) -> Iterator[OpenAI]:
    """As it comes: with its own retries."""
    trusting = openai.DefaultHttpxClient(verify=gateway.trust)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=token("alice"), timeout=60, http_client=trusting) as made:
        yield made


def attempts(gateway: Gateway, stub: Stub, ask: Callable[[], object], error: type[openai.APIError]) -> list[int]:
    """The status of each attempt until `ask` gave up with this `error`, and how often the backend was asked."""
    before, requests = statuses(gateway), len(stub.requests)
    with pytest.raises(error):
        ask()
    seen = statuses(gateway) - before
    return [*seen.elements(), len(stub.requests) - requests]


def statuses(gateway: Gateway) -> Counter[int]:
    """How many calls ended with each status."""
    found = Counter[int]()
    for labels, count in gateway.samples()["gateway_requests_total"]:
        found[int(labels["status"])] += int(count)
    return found


STAYS: dict[str, tuple[dict[str, Any], type[openai.APIStatusError]]] = {
    "400": ({"model": "m", "extra_body": {"stream": "perhaps"}}, openai.BadRequestError),
    "403": ({"model": "locked"}, openai.PermissionDeniedError),
    "404": ({"model": "nowhere"}, openai.NotFoundError),
    "413": ({"model": "m", "user": "x" * 100_000}, openai.APIStatusError),
}


@pytest.mark.parametrize(("status", "call", "error"), [(int(status), *what) for status, what in STAYS.items()])
def test_what_stays_refused_is_asked_once(
    gateway: Gateway, stub: Stub, client: OpenAI, status: int, call: dict[str, Any], error: type[openai.APIStatusError]
) -> None:
    """B141."""
    ask = lambda: client.chat.completions.create(messages=HELLO, **call)  # noqa: E731
    assert attempts(gateway, stub, ask, error) == [status, 0]


def test_a_bad_key_is_tried_once(gateway: Gateway, stub: Stub, client: OpenAI) -> None:
    """B141."""
    ask = lambda: client.with_options(api_key="bad").chat.completions.create(model="m", messages=HELLO)  # noqa: E731
    assert attempts(gateway, stub, ask, openai.AuthenticationError) == [401, 0]


MAY_PASS: dict[str, tuple[str, int, int]] = {
    "502, broken": ("m-broken", 502, 3),
    "502, nonsense": ("m-nonsense", 502, 3),
    "504": ("m-silent", 504, 3),
    "503": ("m-down", 503, 0),
    "429 of the backend": ("m-limited", 429, 3),
}


@pytest.mark.parametrize(("model", "status", "asked"), MAY_PASS.values(), ids=MAY_PASS)
def test_what_may_pass_is_asked_again_by_the_client_alone(
    gateway: Gateway, stub: Stub, client: OpenAI, model: str, status: int, asked: int
) -> None:
    """B141: its three attempts are three at the backend, never multiplied by retries of the gateway."""
    ask = lambda: client.chat.completions.create(model=model, messages=HELLO)  # noqa: E731
    assert attempts(gateway, stub, ask, openai.APIStatusError) == [status, status, status, asked]


def test_a_stream_that_was_cut_is_an_error_and_not_asked_again(gateway: Gateway, stub: Stub, client: OpenAI) -> None:
    """B141."""
    ask = lambda: list(client.chat.completions.create(model="m-cut", messages=HELLO, stream=True))  # noqa: E731
    assert attempts(gateway, stub, ask, openai.APIError) == [200, 1]


class Place(BaseModel):
    city: str


def test_parsed_and_raw_answers_and_uploads_are_those_of_the_backend(
    gateway: Gateway, stub: Stub, client: OpenAI, token: Token
) -> None:
    """B143."""
    direct = OpenAI(base_url=f"{stub.url}/v1", api_key="x")
    both = [direct, client]
    raw = [each.chat.completions.with_raw_response.create(model="m", messages=HELLO) for each in both]
    assert raw[0].content == raw[1].content == json.dumps(WHOLE).encode()
    parsed = [
        each.chat.completions.parse(model="m", messages=HELLO, response_format=Place).choices[0].message.parsed
        for each in both
    ]
    assert parsed == [Place(city="Rome")] * 2
    sound = bytes(range(256)) * 100
    texts = [each.audio.transcriptions.create(model="whisper", file=("a.wav", sound)).text for each in both]
    assert texts == ["hello", "hello"]
    sent = [request.body for request in stub.requests if "audio" in request.target]
    assert [body.count(sound) for body in sent[-2:]] == [1, 1]
    direct.close()


REQUESTS = """
import json, sys, requests
url, ca, token = sys.argv[1:]
body = json.dumps({"model": "m", "messages": [], "user": "x" * 20000})
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Expect": "100-continue"}
answers = [requests.post(url, data=body, headers=headers, verify=ca, timeout=30)]
with requests.Session() as session:
    answers += [session.post(url, data=iter([body.encode()]), headers=headers, verify=ca, timeout=30) for _ in range(3)]
print(json.dumps([[each.status_code, each.json()["id"]] for each in answers]))
"""


def test_requests_may_expect_to_go_on_and_send_in_chunks(gateway: Gateway, stub: Stub, token: Token) -> None:
    """B143: it sends `Expect`, and does not wait."""
    seen = len(stub.requests)
    command = [PARTS_PYTHON, "-c", REQUESTS, f"{gateway.url}/v1/chat/completions", gateway.ca, token("alice")]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=60)
    assert Counter(map(tuple, json.loads(done.stdout))) == {(200, "c1"): 4}
    assert [len(request.body) for request in stub.requests[seen:]] == [len(stub.requests[seen].body)] * 4
    assert not any(request.values("expect") for request in stub.requests[seen:])

"""Event streams of every kind that backends send: the caller gets their bytes, the numbers get their tokens."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.conftest import Token
from tests.parts import scripts
from tests.parts.client import Answer, connection, prepared, streaming
from tests.parts.gateway import Gateway
from tests.parts.process import wait_until
from tests.parts.scripts import Script, Then
from tests.parts.stub import Stub
from tests.usage import streams

CHAT = "/v1/chat/completions"
PATHS = {"responses": "/v1/responses", "anthropic": "/v1/messages", "triton": "/v2/models/t/generate_stream"}
SSE = "text/event-stream"
STREAM = {"model": "m", "stream": True}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def gateway(stubbed: Gateway) -> Gateway:
    return stubbed


def ask(gateway: Gateway, token: Token, path: str = CHAT) -> Answer:
    return gateway.ask("POST", path, body=STREAM, token=token("alice"))


def byte_by_byte(text: bytes) -> Script:
    """Each byte a chunk, at both ends of a text that is very long."""
    middle = [text[300:-300]] if len(text) > 20_000 else [text[at : at + 1] for at in range(300, len(text) - 300)]
    ends = text[:300], text[300:][-300:]
    first, last = ([end[at : at + 1] for at in range(len(end))] for end in ends)
    return scripts.sse([*first, *middle, *last])


def chunk(text: bytes) -> Script:
    return scripts.sse([text] if text else [])


def sized(text: bytes) -> Script:
    return scripts.sized(text, kind=SSE)


@pytest.mark.parametrize("framed", [chunk, byte_by_byte, sized])
@pytest.mark.parametrize("name", streams.SAMPLES)
def test_each_stream_comes_through_byte_for_byte_and_is_counted_once(
    gateway: Gateway, stub: Stub, token: Token, name: str, framed: Callable[[bytes], Script]
) -> None:
    """B006, B009, B010, B012. What ends as its framing says is whole."""
    text = streams.SAMPLES[name]
    stub.say(framed(text))
    answer = ask(gateway, token, PATHS.get(name, CHAT))
    assert (answer.status, answer["content-type"], answer.body) == (200, SSE, text)
    told = gateway.audit_of(answer["x-request-id"])
    counted = (3, 5) if name in streams.COUNTED else (None, None)
    assert (told["tokens_in"], told["tokens_out"], told["reason"]) == (*counted, "ok")


@pytest.mark.parametrize("name", streams.SAMPLES)
def test_a_stream_that_only_the_connection_ends_is_whole_after_its_last_word_alone(
    gateway: Gateway, stub: Stub, token: Token, name: str
) -> None:
    """B003 (c): nothing but the last word tells such an end from a broken backend."""
    text = streams.SAMPLES[name]
    stub.say(scripts.until_close(text, kind=SSE))
    path = PATHS.get(name, CHAT)
    with streaming(gateway.url, "POST", path, body=STREAM, token=token("alice"), ca=gateway.ca) as answer:
        received = answer.rest()
    assert received.startswith(text)
    whole = name in streams.WHOLE
    told = gateway.audit_of(answer.fields["x-request-id"])
    assert (answer.cut, told["reason"]) == ((False, "ok") if whole else (True, "stream_truncated"))
    rest = received[len(text) :]
    if whole or name.startswith("cut"):  # the latter end within an event
        assert rest == b""
    else:
        assert re.fullmatch(rb'data: \{"error":\{.*"code":"stream_truncated"\}\}\n\n', rest)


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("responses", rb'data: \{"error":\{.*"code":"stream_truncated"\}\}\n\n'),
        ("anthropic", rb'event: error\ndata: \{"type":"error","error":\{"type":"api_error".*\}\}\n\n'),
        ("triton", rb'data: \{"error":"[^"]*"\}\n\n'),
    ],
)
def test_each_protocol_is_told_of_a_broken_stream_in_its_own_words(
    gateway: Gateway, stub: Stub, token: Token, name: str, last: bytes
) -> None:
    """B003."""
    first = streams.SAMPLES[name].partition(b"\n\n")[0] + b"\n\n"
    stub.say(scripts.sse([first], every=0.05, end=(Then.RESET,)))
    path = PATHS[name]
    with streaming(gateway.url, "POST", path, body=STREAM, token=token("alice"), ca=gateway.ca) as answer:
        received = answer.rest()
        assert answer.cut
    assert received.startswith(first)
    assert re.fullmatch(last, received.removeprefix(first))


@pytest.mark.parametrize("accepted", ["gzip, br, zstd", "identity", None])
def test_events_are_never_compressed_on_the_way_and_come_as_they_are_made(
    gateway: Gateway, stub: Stub, token: Token, accepted: str | None
) -> None:
    """B002: a compressor would hold small events back until its window is full."""
    pieces = scripts.events(2)
    stub.say(scripts.sse(pieces[:1], end=(Then.WAIT,)))
    with closing(connection(gateway.url, gateway.ca)) as line:
        fields = {} if accepted is None else {"Accept-Encoding": accepted}
        body, headers = prepared(STREAM, fields, token("alice"))
        line.putrequest("POST", CHAT, skip_accept_encoding=True)
        for field in {**headers, "Content-Length": str(len(body or b""))}.items():
            line.putheader(*field)
        line.endheaders(body)
        answer = line.getresponse()
        assert answer.read(len(pieces[0])) == pieces[0]  # the backend goes on only when we leave
        assert answer.headers["Content-Encoding"] is None
    assert stub.requests[-1].values("accept-encoding") == ([] if accepted is None else [accepted])


@pytest.mark.parametrize("whole", [True, False])
def test_events_that_the_backend_compressed_come_through_compressed(
    gateway: Gateway, stub: Stub, token: Token, whole: bool
) -> None:
    """B002. Nobody can look into them, so their framing alone tells whether they are whole."""
    text = gzip.compress(streams.USAGE)
    head = scripts.head(200, f"Content-Type: {SSE}", "Content-Encoding: gzip", "Transfer-Encoding: chunked")
    stub.say((head, *map(scripts.chunk, (text[:20], text[20:])), *((scripts.LAST_CHUNK,) if whole else (Then.CLOSE,))))
    with streaming(gateway.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=gateway.ca) as answer:
        assert answer.rest() == text
        assert answer.cut is not whole
    assert answer.fields["content-encoding"] == "gzip"
    told = gateway.audit_of(answer.fields["x-request-id"])
    assert (told["tokens_in"], told["reason"]) == (None, "ok" if whole else "stream_truncated")


def test_a_line_of_many_megabytes_comes_through_without_being_kept(gateway: Gateway, stub: Stub, token: Token) -> None:
    """B006."""
    text = streams.frame("a") + streams.frame("x" * 8 * MIB) + streams.LAST
    stub.say(scripts.sse([text[at : at + 50_000] for at in range(0, len(text), 50_000)]))
    before = gateway.process.resident_bytes()
    answer = ask(gateway, token)
    assert answer.body == text
    assert gateway.process.resident_bytes() - before < 6 * MIB
    told = gateway.audit_of(answer["x-request-id"])
    assert (told["tokens_in"], told["tokens_out"]) == (3, 5)


@pytest.mark.parametrize("begun", [b'data: {"id":"c1",', b"id: 7\n", b": keep-ali", b"event: x\r"])
def test_nothing_is_put_into_an_event_that_is_not_finished(
    gateway: Gateway, stub: Stub, token: Token, begun: bytes
) -> None:
    """B009: neither while the backend pauses nor when it goes away."""
    for script, text in (
        (scripts.sse([begun, b'"choices":[]}\n\n'], every=0.3), begun + b'"choices":[]}\n\n'),
        (scripts.sse([streams.frame("a"), begun], every=0.1, end=(Then.CLOSE,)), streams.frame("a") + begun),
    ):
        stub.say(script)
        with streaming(gateway.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=gateway.ca) as answer:
            assert answer.rest() == text


@pytest.mark.parametrize(
    "options", ["", ',"stream_options":{"include_usage":true}', ',"stream_options":{"include_usage":false}']
)
def test_tokens_are_counted_without_being_asked_for_on_the_callers_behalf(
    gateway: Gateway, stub: Stub, token: Token, options: str
) -> None:
    """B010: who did not ask for counts gets no event that it does not expect."""
    stub.say(scripts.sse([streams.GROWING]))
    sent = b'{"model":"m","stream":true%b}' % options.encode()

    def tokens() -> tuple[float, float]:
        given, made = (gateway.metric("gateway_tokens_total", model="m", direction=way) for way in ("input", "output"))
        return given, made

    before = tokens()
    headers = {"Content-Type": "application/json"}
    answer = gateway.ask("POST", CHAT, body=sent, headers=headers, token=token("alice"))
    assert stub.requests[-1].body == sent
    assert answer.body == streams.GROWING
    wait_until(lambda: tokens() == (before[0] + 3, before[1] + 5), 5, "three tokens in and five out")

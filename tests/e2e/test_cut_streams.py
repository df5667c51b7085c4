"""Answers that break off, clients that leave, clients that read slowly."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time

import pytest

from tests.conftest import Token
from tests.e2e.conftest import TINY
from tests.parts import scripts
from tests.parts.client import connection, prepared, raw, read_all, streaming
from tests.parts.gateway import Gateway
from tests.parts.llama import Llama
from tests.parts.process import wait_until
from tests.parts.scripts import Script, Then
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
STREAM = {"model": "m", "stream": True}
SSE = "text/event-stream"
MIB = 1024 * 1024


@pytest.mark.parametrize("ending", [Then.CLOSE, Then.RESET])
def test_an_event_stream_that_breaks_ends_in_an_error_event_and_never_in_done(
    stubbed: Gateway, stub: Stub, token: Token, ending: Then
) -> None:
    """B003 (a)."""
    events = scripts.events(3)
    stub.say(scripts.sse(events[:2], every=0.1, end=(ending,)))
    with streaming(stubbed.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=stubbed.ca) as answer:
        received = answer.rest()
    whole = b"".join(events[:2])
    assert received.startswith(whole)
    rest = received[len(whole) :]
    assert b'"error"' in rest
    assert b"[DONE]" not in rest
    record = stubbed.audit_of(answer.fields["x-request-id"])
    assert (record["status"], record["reason"]) == (200, "stream_truncated")


def breaking(text: bytes, framing: str) -> Script:
    """An event stream that ends before it is whole."""
    endings: dict[str, Script] = {
        "chunked, closed": scripts.sse([text], every=0.02, end=(Then.CLOSE,)),
        "chunked, reset": scripts.sse([text], every=0.05, end=(Then.RESET,)),
        "within a chunk": (*scripts.sse([text], every=0.02, end=()), b"40\r\n", 0.02, Then.CLOSE),
        "sized, closed": scripts.cut(text, 5000, kind=SSE),
        "sized, reset": (*scripts.cut(text, 5000, kind=SSE)[:1], 0.05, Then.RESET),
        "no length, closed": scripts.until_close(text, kind=SSE),
        "no length, reset": (*scripts.until_close(text, kind=SSE)[:1], 0.05, Then.RESET),
    }
    return endings[framing]


FRAMINGS = (
    "chunked, closed", "chunked, reset", "within a chunk", "sized, closed", "sized, reset", "no length, closed",
    "no length, reset",
)  # fmt: skip


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_stream_that_breaks_is_a_failure_for_the_caller_the_log_and_the_numbers(
    stubbed: Gateway, stub: Stub, token: Token, framing: str
) -> None:
    """B003 (a), (b), (c): and it is not tried again."""
    text = b"".join(scripts.events(2)[:2])
    stub.say(breaking(text, framing))

    def numbers() -> list[float]:
        return [
            stubbed.metric("gateway_requests_total", pool="nim", result="ok"),
            stubbed.metric("gateway_requests_total", pool="nim", result="truncated"),
            stubbed.metric("gateway_backend_failures_total", pool="nim", reason="truncated"),
            stubbed.metric("gateway_retries_total"),
            len(stub.requests),
        ]

    before = numbers()
    with streaming(stubbed.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=stubbed.ca) as answer:
        received = answer.rest()
        assert answer.cut
    assert received.startswith(text)
    assert (b'"stream_truncated"' in received) is not framing.startswith("sized")  # there no room was announced for it
    assert b"[DONE]" not in received
    told = stubbed.audit_of(answer.fields["x-request-id"])
    assert (told["status"], told["reason"], told["attempts"]) == (200, "stream_truncated", 1)
    wait_until(lambda: numbers() == [was + more for was, more in zip(before, (0, 1, 1, 0, 1), strict=True)])


def test_a_stream_may_break_at_any_byte_and_never_looks_whole(stubbed: Gateway, stub: Stub, token: Token) -> None:
    """B003."""
    first, second, _ = scripts.events(2)
    text = first + second
    for at in range(1, len(text)):
        stub.say(scripts.sse([text[:at]], end=(Then.CLOSE,)))
        with streaming(stubbed.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=stubbed.ca) as answer:
            received = answer.rest()
            assert answer.cut
        edge = at == len(first)
        assert received[:at] == text[:at]
        assert received[at:].startswith(b'data: {"error"') if edge else received[at:] == b"", at


def test_a_caller_without_chunks_gets_no_orderly_end_of_a_broken_stream(
    stubbed: Gateway, stub: Stub, token: Token
) -> None:
    """B003: in HTTP/1.0 the end of the connection ends an answer, so TLS must not say that it ended as meant."""
    body = b'{"model":"m","stream":true}'
    for framing in FRAMINGS:
        stub.say(breaking(scripts.events(1)[0], framing))
        with (
            socket.create_connection(("127.0.0.1", stubbed.port), timeout=30) as plain,
            stubbed.trust.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as sock,
        ):
            sock.sendall(
                b"POST %b HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                b"Authorization: Bearer %b\r\n\r\n%b" % (CHAT.encode(), len(body), token("alice").encode(), body)
            )
            received = b""
            try:
                while piece := sock.recv(65_536):
                    received += piece
            except (ssl.SSLEOFError, ConnectionResetError):
                pass
            else:
                assert b"content-length: 5000" in received, framing  # an end that is too early shows by itself
        assert scripts.events(1)[0] in received


def test_an_event_that_is_cut_in_half_is_not_completed(stubbed: Gateway, stub: Stub, token: Token) -> None:
    event = scripts.events(1)[0]
    stub.say(scripts.sse([event, event[:20]], every=0.1, end=(Then.CLOSE,)))
    with streaming(stubbed.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=stubbed.ca) as answer:
        received = answer.rest()
        assert answer.cut
    assert received.startswith(event)
    assert b"[DONE]" not in received


def test_a_json_answer_that_breaks_never_looks_complete(stubbed: Gateway, stub: Stub, token: Token) -> None:
    scripted = {
        "promised": scripts.cut(b'{"half":', 100),
        "chunked": scripts.chunked([b'{"half":'], every=0.05, end=(Then.CLOSE,)),
        "reset": (*scripts.cut(b'{"half":', 100)[:1], 0.1, Then.RESET),
    }
    for name, script in scripted.items():
        stub.say(script)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            print(name, stubbed.ask("POST", CHAT, body={"model": "m"}, token=token("alice")))


@pytest.mark.parametrize("body", [STREAM, {"model": "m"}], ids=["stream", "whole"])
@pytest.mark.parametrize("begun", [True, False])
def test_a_client_that_leaves_closes_the_connection_to_the_backend_within_a_second(
    stubbed: Gateway, stub: Stub, token: Token, begun: bool, body: dict[str, object]
) -> None:
    """B005 (a), (b), (c)."""
    stub.say(scripts.sse(scripts.events(1)[:1], end=(Then.WAIT,)) if begun else (Then.WAIT,))
    count, failed = len(stub.requests), stubbed.metric("gateway_backend_failures_total")
    line = connection(stubbed.url, stubbed.ca)
    payload, lines = prepared(body, None, token("alice"))
    line.request("POST", CHAT, payload, lines)
    wait_until(lambda: len(stub.requests) > count and stub.requests[-1].complete)
    request = stub.requests[-1]
    if begun:
        answer = line.getresponse()
        assert answer.read1(100)
        request_id = answer.headers["X-Request-Id"]
        answer.close()
    line.close()
    left = time.monotonic()
    wait_until(lambda: request.closed is not None, 5, "the backend's connection being closed")
    assert request.closed is not None
    assert request.closed - left < 1.0
    if begun:
        assert stubbed.audit_of(request_id)["status"] == 499
    wait_until(lambda: stubbed.metric("gateway_requests_total", result="client_gone") >= 1)
    wait_until(lambda: stubbed.metric("gateway_in_flight_requests", pool="nim") == 0)
    assert stubbed.metric("gateway_backend_failures_total") == failed


def test_a_client_that_closes_its_sending_side_has_left(stubbed: Gateway, stub: Stub, token: Token) -> None:
    """B005 (d): who wants the answer keeps the connection open in both directions (docs/protocols.md)."""
    stub.say(scripts.sse(scripts.events(1)[:1], end=(Then.WAIT,)))
    body = b'{"model":"m"}'
    with raw(stubbed.port, stubbed.ca) as sock:
        sock.sendall(
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
            b"Authorization: Bearer %b\r\n\r\n%b" % (CHAT.encode(), len(body), token("alice").encode(), body)
        )
        assert sock.recv(12) == b"HTTP/1.1 200"
        request = stub.requests[-1]
        with socket.socket(fileno=os.dup(sock.fileno())) as below:
            below.shutdown(socket.SHUT_WR)
        wait_until(lambda: request.closed is not None, 5, "the backend's connection being closed")
        assert not read_all(sock).endswith(scripts.LAST_CHUNK)


def test_a_client_that_leaves_stops_the_real_engine(gateway: Gateway, llama: Llama, token: Token) -> None:
    body = {"model": TINY, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3000, "stream": True}
    body |= {"ignore_eos": True, "n_probs": 50}  # probabilities make each token slow enough to leave in the middle
    with streaming(gateway.url, "POST", CHAT, body=body, token=token("alice"), ca=gateway.ca) as answer:
        assert answer.next()
        answer.leave()
    wait_until(lambda: "requests_processing 0\n" in llama.metrics(), 2, "the engine being idle")


def test_a_client_that_leaves_in_the_middle_of_an_upload_leaves_nothing_behind(
    stubbed: Gateway, stub: Stub, token: Token
) -> None:
    """B027."""
    stub.say(scripts.sized())
    count = len(stub.requests)
    with raw(stubbed.port, stubbed.ca) as sock:
        sock.sendall(
            b"POST /v2/models/t/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
            b"Authorization: Bearer %s\r\n\r\n" % token("alice").encode()
        )
        sock.sendall(b"x" * 500_000)
        wait_until(lambda: len(stub.requests) > count, 10, "the upload having begun")
    wait_until(lambda: stub.requests[-1].closed is not None, 2, "the backend's connection being closed")
    assert not stub.requests[-1].complete
    wait_until(lambda: stubbed.metric("gateway_in_flight_requests", pool="triton") == 0)


def test_a_client_that_reads_slowly_slows_the_backend_instead_of_filling_memory(
    stubbed: Gateway, stub: Stub, token: Token
) -> None:
    """B011."""
    pieces = [b"x" * 65_536] * 1600  # 100 MiB
    stub.say(scripts.chunked(pieces))
    before = stubbed.process.resident_bytes()
    with streaming(stubbed.url, "POST", CHAT, body={"model": "m"}, token=token("alice"), ca=stubbed.ca) as answer:
        request = stub.requests[-1]
        received = len(answer.next())
        seen: list[int] = []

        def stands_still() -> bool:
            seen.append(request.written)
            return len(seen) > 30 and seen[-1] == seen[-30]

        wait_until(stands_still, 20, "the backend being made to wait")
        assert request.written < 30 * MIB
        assert stubbed.process.resident_bytes() - before < 16 * MIB
        received += sum(len(arrival.piece) for arrival in answer.pieces())
    assert received == 65_536 * 1600


def test_a_backend_that_reads_slowly_slows_the_client_instead_of_filling_memory(
    stubbed: Gateway, stub: Stub, token: Token
) -> None:
    stub.say(scripts.sized())
    before = stubbed.process.resident_bytes()
    size = 60 * MIB
    sent = b"y" * size
    answer = stubbed.ask("POST", "/v2/models/t/infer", body=sent, token=token("alice"))
    assert answer.status == 200
    assert stub.requests[-1].body == sent
    assert stubbed.process.resident_bytes() - before < 16 * MIB


def test_a_connection_is_kept_after_an_answer_and_closed_when_asked(stubbed: Gateway, stub: Stub, token: Token) -> None:
    stub.say(scripts.sized())
    request = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n" % token("alice").encode()
    with raw(stubbed.port, stubbed.ca) as sock:
        sock.sendall(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
        received = read_all(sock)
    assert received.count(b"HTTP/1.1 200") == 2

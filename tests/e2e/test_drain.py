"""SIGTERM: unready at once, streams that fit end in peace, and then nothing is left."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import connection, prepared, raw, streaming, whole
from tests.parts.gateway import Gateway, pool
from tests.parts.process import listens, wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
STREAM = {"model": "m", "stream": True}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


def draining(pre_stop: str = "500ms", drain: str = "20s") -> dict[str, object]:
    return {"limits": {"timeouts": {"pre_stop": pre_stop, "drain": drain}}}


def test_a_stream_that_fits_is_finished_and_the_gateway_ends_well(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    pieces = scripts.events(15)
    stub.say(scripts.sse(pieces, every=0.2))
    gateway = start_gateway([pool("nim", ["m"], stub.url)], **draining())
    gateway.backends_up("nim", 1)
    wait_until(lambda: gateway.readiness() == 200, 10, "the gateway being ready")
    with streaming(gateway.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=gateway.ca) as answer:
        received = answer.next()
        gateway.process.signal(signal.SIGTERM)
        wait_until(lambda: gateway.readiness() == 503, 1, "the gateway being unready")
        wait_until(lambda: not listens(gateway.port), 5, "the port being closed")
        received += b"".join(arrival.piece for arrival in answer.pieces())
    assert received == b"".join(pieces)
    assert gateway.process.wait() == 0


def test_calls_are_still_taken_until_the_port_closes_and_asked_to_come_elsewhere_next(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)], **draining(pre_stop="3s"))
    gateway.backends_up("nim", 1)
    gateway.process.signal(signal.SIGTERM)
    wait_until(lambda: gateway.readiness() == 503, 1, "the gateway being unready")
    answer = gateway.ask("POST", CHAT, body={"model": "m"}, token=token("alice"))
    assert answer.status == 200
    assert (answer["connection"] or "").lower() == "close"
    assert gateway.process.wait() == 0


def test_an_idle_gateway_ends_as_soon_as_the_pre_stop_time_is_over(start_gateway: StartGateway, stub: Stub) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)], **draining(pre_stop="100ms", drain="300s"))
    gateway.process.signal(signal.SIGTERM)
    assert gateway.process.wait(5) == 0


def test_a_stream_longer_than_the_drain_time_is_cut_and_does_not_look_complete(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    stub.say(scripts.sse(scripts.events(300), every=0.1))
    gateway = start_gateway([pool("nim", ["m"], stub.url)], **draining(pre_stop="100ms", drain="1s"))
    gateway.backends_up("nim", 1)
    received = b""
    with streaming(gateway.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=gateway.ca) as answer:
        received += answer.next()
        gateway.process.signal(signal.SIGTERM)
        received += answer.rest()
    assert gateway.process.wait(10) == 0
    assert b"[DONE]" not in received


def test_a_second_signal_ends_it_at_once(start_gateway: StartGateway, stub: Stub, token: Token) -> None:
    stub.say(scripts.sse(scripts.events(300), every=0.1))
    gateway = start_gateway([pool("nim", ["m"], stub.url)], **draining(pre_stop="100ms", drain="60s"))
    gateway.backends_up("nim", 1)
    with streaming(gateway.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=gateway.ca) as answer:
        assert answer.next()
        gateway.process.signal(signal.SIGTERM)
        wait_until(lambda: gateway.readiness() == 503, 1, "the gateway being unready")
        gateway.process.signal(signal.SIGTERM)
        assert gateway.process.wait(3) == 0


def test_the_port_is_free_again_for_the_next_one(start_gateway: StartGateway, stub: Stub, token: Token) -> None:
    gateway: Gateway = start_gateway([pool("nim", ["m"], stub.url)])
    assert gateway.stop() == 0
    gateway.start()
    gateway.backends_up("nim", 1)
    assert gateway.ask("POST", CHAT, body={"model": "m"}, token=token("alice")).status == 200
    assert gateway.stop() == 0


def test_calls_on_new_and_kept_connections_are_all_served_until_the_port_closes_and_streams_after_it(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """B132: SIGINT as well; the whole takes no longer than was allowed."""
    stub.say(
        lambda request: scripts.sse(scripts.events(40), every=0.1) if b"stream" in request.body else scripts.sized()
    )
    gateway = start_gateway([pool("nim", ["m"], stub.url)], **draining(pre_stop="1500ms", drain="30s"))
    gateway.backends_up("nim", 1)
    alice, kept, closing = token("alice"), connection(gateway.url, gateway.ca), list[str]()
    body, lines = prepared({"model": "m"}, None, alice)

    def on_the_kept_one() -> int:
        kept.request("POST", CHAT, body, lines)
        answer = whole(kept.getresponse())
        closing.append((answer["connection"] or "").lower())
        return answer.status

    with ExitStack() as stack:
        stack.callback(kept.close)
        streams = [
            stack.enter_context(streaming(gateway.url, "POST", CHAT, body=STREAM, token=alice, ca=gateway.ca))
            for _ in range(8)
        ]
        received = [stream.next() for stream in streams]
        assert on_the_kept_one() == 200
        gateway.process.signal(signal.SIGINT)
        wait_until(lambda: gateway.readiness() == 503, 1, "the gateway being unready")
        for _ in range(5):
            assert on_the_kept_one() == 200  # on a new connection from the second on, since each is the last
            assert gateway.ask("POST", CHAT, body={"model": "m"}, token=alice).status == 200
        assert closing == ["", *["close"] * 5]
        wait_until(lambda: not listens(gateway.port), 10, "the port being closed")
        for stream, begun in zip(streams, received, strict=True):
            assert (begun + stream.rest()).endswith(b"data: [DONE]\n\n")
            assert not stream.cut
    assert gateway.process.wait(10) == 0


def test_idle_connections_and_handshakes_do_not_hold_up_the_end_and_a_stream_goes_on(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """B133."""
    stub.say(scripts.sse(scripts.events(30), every=0.1))
    timeouts = {"header": "5m", "keep_alive": "5m", "pre_stop": "100ms", "drain": "60s"}
    gateway = start_gateway([pool("nim", ["m"], stub.url)], limits={"timeouts": timeouts})
    gateway.backends_up("nim", 1)
    with ExitStack() as stack:
        idle = [connection(gateway.url, gateway.ca) for _ in range(5)]
        for line in idle:
            stack.callback(line.close)
            line.request("GET", "/v1/health/live")
            assert whole(line.getresponse()).status == 200
        silent = [stack.enter_context(raw(gateway.port, ca, limit=20)) for ca in (None, gateway.ca)]
        stream = stack.enter_context(
            streaming(gateway.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=gateway.ca)
        )
        received = stream.next()
        gateway.process.signal(signal.SIGTERM)
        for end in (*silent, *(line.sock for line in idle)):
            assert isinstance(end, socket.socket)
            assert ended(end)
        assert (received + stream.rest()).endswith(b"data: [DONE]\n\n")
    assert gateway.process.wait(5) == 0


def ended(line: socket.socket) -> bool:
    """Nothing more comes."""
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True

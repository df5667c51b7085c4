"""Connections to backends that serve one call after the other: nobody ever gets what was meant for somebody else."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import closing
from http.client import HTTPResponse

import pytest

from tests.conftest import Token
from tests.e2e.load import Load
from tests.parts import scripts
from tests.parts.client import raw, streaming
from tests.parts.gateway import Gateway
from tests.parts.process import wait_until
from tests.parts.scripts import Script, Then
from tests.parts.stub import Request, Stub, in_turn

CHAT = "/v1/chat/completions"
UNASKED = "gateway_backend_unsolicited_total"
INFER = "/v2/models/t/infer"
INJECTED = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nINJECTED"
TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def gateway(stubbed: Gateway) -> Gateway:
    return stubbed


def marked(request: Request) -> Script:
    """Says who asked."""
    return scripts.sized(json.dumps({"for": json.loads(request.body)["user"]}).encode())


def ask(gateway: Gateway, token: Token, user: str) -> tuple[int, bytes]:
    answer = gateway.ask("POST", CHAT, body={"model": "m", "user": user}, token=token("alice"))
    return answer.status, answer.body


def told(user: str) -> tuple[int, bytes]:
    return 200, json.dumps({"for": user}).encode()


@pytest.mark.parametrize(("path", "size"), [(CHAT, 10), (CHAT, 400_000), (INFER, 10), (INFER, 400_000)])
def test_no_call_fails_whenever_the_backend_closes_its_idle_connections(
    gateway: Gateway, stub: Stub, token: Token, path: str, size: int
) -> None:
    """B015: before, while and after the next call comes; some twenty calls at each moment around the edge."""
    moments = itertools.cycle(number / 1000 for number in range(0, 30, 3))
    stub.say(lambda _: (*scripts.sized(), next(moments), Then.CLOSE))
    body = json.dumps({"model": "m", "user": "x" * size}).encode()
    fields = {"Content-Type": "application/json"}

    def call() -> int:
        return gateway.ask("POST", path, body=body, headers=fields, token=token("alice")).status

    with Load(call, per_second=120) as load:
        wait_until(lambda: load.done >= 200, 60)
    assert load.outcomes == {200: load.done}
    assert {request.body for request in stub.requests} == {body}


@pytest.mark.parametrize(
    "first", [scripts.sized(told("alice")[1]), scripts.chunked([told("alice")[1]], kind="application/json")]
)
@pytest.mark.parametrize(
    ("late", "unasked"),
    [*itertools.product([0.0, 0.05], [INJECTED, TIMEOUT, INJECTED[:20], b"\0"]), (0.05, b"\r\n")],
)
def test_what_a_backend_says_unasked_is_nobodys_answer(
    gateway: Gateway, stub: Stub, token: Token, first: Script, late: float, unasked: bytes
) -> None:
    """B144: neither right behind an answer nor on an idle connection."""
    at_once = b"".join(step for step in first if isinstance(step, bytes)) + unasked
    stub.say(in_turn((*first, late, unasked, Then.WAIT) if late else (at_once,), scripts.sized(told("bob")[1])))
    counted = gateway.metric(UNASKED)
    assert ask(gateway, token, "alice") == told("alice")
    if late:
        wait_until(lambda: stub.requests[0].closed is not None, 5, "the connection being closed")
    assert ask(gateway, token, "bob") == told("bob")
    asked_by_alice, asked_by_bob = stub.requests
    assert asked_by_alice.connection != asked_by_bob.connection
    if late:
        wait_until(lambda: gateway.metric(UNASKED) == counted + 1, 5, "the number of unasked answers")


@pytest.mark.parametrize("left", ["within a stream", "within a sized answer", "before the answer"])
def test_what_one_caller_did_not_wait_for_is_never_given_to_the_next(
    gateway: Gateway, stub: Stub, token: Token, left: str
) -> None:
    """B020: and an abandoned connection serves nobody else."""
    half = {
        "within a stream": (*scripts.sse(scripts.events(1)[:1], end=()), 0.5, scripts.chunk(b"the rest")),
        "within a sized answer": (scripts.head(200, "Content-Length: 2000000") + b"x" * 1_000_000, 0.5, b"y" * 10),
        "before the answer": (0.5, *scripts.sized(b'{"for":"nobody"}')),
    }

    def answer(request: Request) -> Script:
        return half[left] if json.loads(request.body)["user"] == "leaver" else marked(request)

    stub.say(answer)
    body = {"model": "m", "user": "leaver", "stream": True}
    for number in range(70):
        count = len(stub.requests)
        if left == "before the answer":
            payload = json.dumps(body).encode()
            with raw(gateway.port, gateway.ca) as line:
                line.sendall(
                    b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                    b"Authorization: Bearer %b\r\n\r\n%b"
                    % (CHAT.encode(), len(payload), token("alice").encode(), payload)
                )
                wait_until(lambda: len(stub.requests) > count)  # noqa: B023  used at once
        else:
            with streaming(gateway.url, "POST", CHAT, body=body, token=token("alice"), ca=gateway.ca) as answered:
                assert answered.next()
        user = f"user-{number}"
        assert ask(gateway, token, user) == told(user)
    wait_until(lambda: gateway.metric("gateway_in_flight_requests", pool="nim") == 0)
    abandoned = [request.connection for request in stub.requests if b"leaver" in request.body]
    others = [request.connection for request in stub.requests if b"leaver" not in request.body]
    assert len(abandoned) == len(set(abandoned)) == len(others)
    assert all(other not in abandoned[:position] for position, other in enumerate(others, 1))


def test_an_answer_that_comes_before_the_whole_upload_ends_the_upload_and_both_connections(
    gateway: Gateway, stub: Stub, token: Token
) -> None:
    """B020: the rest of a body is nobody's next request, neither at the backend nor here."""
    stub.early = (*scripts.sized(b'{"error":"too much"}', 413), Then.WAIT)
    try:
        with raw(gateway.port, gateway.ca) as line:
            line.sendall(
                b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nAuthorization: Bearer %b\r\n\r\n%b"
                % (INFER.encode(), token("alice").encode(), b"x" * 5000)
            )
            with closing(HTTPResponse(line)) as answer:
                answer.begin()
                assert (answer.status, answer.headers["Connection"]) == (413, "close")
                assert answer.read() == b'{"error":"too much"}'
            wait_until(lambda: stub.requests[0].closed is not None, 5, "the backend's connection being closed")
    finally:
        stub.early = None


def test_idle_connections_are_closed_before_engines_close_them(gateway: Gateway, stub: Stub, token: Token) -> None:
    """B015: engines keep them for five seconds."""
    stub.say(scripts.sized())
    assert gateway.ask("POST", CHAT, body={"model": "m"}, token=token("alice")).status == 200
    (request,) = stub.requests
    wait_until(lambda: request.closed is not None, 15, "the gateway closing its idle connection")


async def test_hundreds_of_streams_run_at_once_and_hold_up_neither_probes_nor_keys(
    gateway: Gateway, stub: Stub, token: Token
) -> None:
    """B017: each has its own connection to the backend, and nothing waits behind them."""
    stub.say(scripts.sse(scripts.events(1)[:1], end=(Then.WAIT,)))
    body = b'{"model":"m","stream":true}'
    request = (
        b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"Authorization: Bearer %b\r\n\r\n%b" % (CHAT.encode(), len(body), token("alice").encode(), body)
    )

    async def begin() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", gateway.port, ssl=gateway.trust, server_hostname="localhost"
        )
        writer.write(request)
        assert b"word-0" in await reader.readuntil(b"\n\n")
        return writer

    streams = await asyncio.gather(*(begin() for _ in range(300)))
    assert len({request.connection for request in stub.requests}) == len(streams)
    assert gateway.metric("gateway_in_flight_requests", pool="nim") == len(streams)
    probed = len(stub.probes)
    await asyncio.to_thread(wait_until, lambda: len(stub.probes) > probed + 2, 10, "further probes")
    assert gateway.metric("gateway_backend_up", pool="nim") == 1
    for writer in streams:
        writer.close()

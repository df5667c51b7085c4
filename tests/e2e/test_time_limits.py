"""Limits on silences, never on a whole answer: who speaks and who reads may take as long as they like."""

from __future__ import annotations

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import streaming
from tests.parts.gateway import Gateway, pool
from tests.parts.process import wait_until
from tests.parts.scripts import Script
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
STREAM = {"model": "m", "stream": True}
MIB = 1024 * 1024
#: Each silence may last a second.
SECOND = dict.fromkeys(("header", "connect", "first_byte", "idle", "write", "keep_alive"), "1s")


@pytest.fixture(scope="module")
def hurried(start_shared_gateway: StartGateway, backend: Stub) -> Gateway:
    limits = {"timeouts": {**SECOND, "pre_stop": "200ms", "drain": "5s"}}
    running = start_shared_gateway([pool("nim", ["m"], backend.url)], limits=limits)
    running.backends_up("nim", 1)
    return running


@pytest.fixture(scope="module")
def impatient(start_shared_gateway: StartGateway, backend: Stub) -> Gateway:
    """Its limit on those who do not read is the only short one."""
    limits = {"timeouts": {"write": "1s", "pre_stop": "200ms", "drain": "5s"}}
    running = start_shared_gateway([pool("nim", ["m"], backend.url)], limits=limits)
    running.backends_up("nim", 1)
    return running


def test_an_answer_that_takes_longer_than_every_limit_is_whole(hurried: Gateway, stub: Stub, token: Token) -> None:
    """B007: 3.5 s, where each silence is limited to one."""
    events = scripts.events(13)
    stub.say(scripts.sse(events, every=0.25))
    with streaming(hurried.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=hurried.ca) as answer:
        received = answer.rest()
        assert not answer.cut
    assert received == b"".join(events)
    told = hurried.audit_of(answer.fields["x-request-id"])
    assert (told["status"], told["reason"]) == (200, "ok")
    assert told["duration_ms"] > 3000


@pytest.mark.parametrize("before", ["headers", "events"])
def test_a_backend_that_is_silent_for_too_long_is_given_up(
    hurried: Gateway, stub: Stub, token: Token, before: str
) -> None:
    """B003, B007: 504 before the answer began, a cut stream afterwards."""
    event = scripts.events(1)[0]
    silent: dict[str, Script] = {
        "headers": (2.0, *scripts.sse([event])),
        "events": (*scripts.sse([event], end=()), 2.0, scripts.LAST_CHUNK),
    }
    stub.say(silent[before])
    with streaming(hurried.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=hurried.ca) as answer:
        received = answer.rest()
    request = stub.requests[-1]
    if before == "headers":
        assert (answer.status, answer.cut) == (504, False)
        assert b'"upstream_timeout"' in received
    else:
        assert (answer.status, answer.cut) == (200, True)
        assert received.startswith(event)
        assert b'"error"' in received
    wait_until(lambda: request.closed is not None, 5, "the backend's connection being closed")


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_who_stops_reading_is_dropped_after_the_limit_and_so_is_the_backends_connection(
    impatient: Gateway, stub: Stub, token: Token, kind: str
) -> None:
    """B011."""
    stub.say(scripts.chunked([b"data: " + b"x" * 65_536 + b"\n\n"] * 1600, kind=kind))
    before = impatient.process.resident_bytes()
    with streaming(impatient.url, "POST", CHAT, body=STREAM, token=token("alice"), ca=impatient.ca) as answer:
        answer.next()
        request = stub.requests[-1]
        wait_until(lambda: request.closed is not None, 20, "the backend's connection being closed")
        assert request.written < 30 * MIB
        assert impatient.process.resident_bytes() - before < 20 * MIB
        answer.rest()
        assert answer.cut
    assert impatient.audit_of(answer.fields["x-request-id"])["status"] == 499
    wait_until(lambda: impatient.metric("gateway_in_flight_requests", pool="nim") == 0)

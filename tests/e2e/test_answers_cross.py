"""What of a backend's answer reaches the caller, and what stays behind: codings, frames, cookies, places, repeats."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import Answer, connection, prepared, whole
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.process import wait_until
from tests.parts.scripts import Script
from tests.parts.stub import Request, Stub

CHAT = "/v1/chat/completions"
INFER = "/v2/models/t/infer"
READY = "/ready"
PLAIN = json.dumps({"pad": "x" * 2048, "usage": {"prompt_tokens": 3, "completion_tokens": 5}}).encode()


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, backend: Stub) -> Gateway:
    """The backend is known by a name: cookie jars leave addresses alone."""
    url = f"http://localhost:{backend.port}"
    kserve = pool("triton", ["t"], url, protocols=["kserve"], health={"path": "/v2/health/ready"})
    rules = [allow("alice", ["**"]), allow("bob", ["m"], subjects={"users": ["bob"]})]
    running = start_shared_gateway([pool("nim", ["m"], url), kserve], rules)
    running.backends_up("nim", 1)
    running.backends_up("triton", 1)
    return running


def ask(gateway: Gateway, token: str, path: str, body: bytes, fields: dict[str, str]) -> Answer:
    """Exactly these fields, where clients like to add an `Accept-Encoding` of their own."""
    line = connection(gateway.url, gateway.ca)
    try:
        _, known = prepared(body, {"Content-Length": str(len(body)), **fields}, token)
        line.putrequest("POST", path, skip_accept_encoding=True)
        for name, value in known.items():
            line.putheader(name, value)
        line.endheaders(body)
        return whole(line.getresponse())
    finally:
        line.close()


CODED = {
    "gzip": gzip.compress(PLAIN),
    "deflate": zlib.compress(PLAIN),
    "br": b"\x0b\x02\x80 looks like it",
    "zstd": b"\x28\xb5\x2f\xfd looks like it",
    "gzip, gzip": gzip.compress(gzip.compress(PLAIN)),
    "x-gzip": gzip.compress(PLAIN),
    "identity": PLAIN,
}
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", [CHAT, INFER])
@pytest.mark.parametrize("accepted", ["gzip, deflate, br, zstd", None])
def test_an_answer_keeps_its_coding_its_bytes_and_its_length(
    gateway: Gateway, stub: Stub, token: Token, path: str, accepted: str | None
) -> None:
    """B043: one after the other on one connection, and each for itself; nor does the backend hear of other codings."""
    fields = JSON if accepted is None else {**JSON, "Accept-Encoding": accepted}
    for coding in (*CODED, *reversed(CODED)):
        content = CODED[coding]
        sized = scripts.sized(content, 200, f"Content-Encoding: {coding}", "Vary: Accept-Encoding")
        head = scripts.head(
            200, "Content-Type: application/json", f"Content-Encoding: {coding}", "Transfer-Encoding: chunked"
        )
        for script in (sized, (head, scripts.chunk(content[:9]), scripts.chunk(content[9:]), scripts.LAST_CHUNK)):
            stub.say(script)
            answer = ask(gateway, token("alice"), path, b'{"model":"m"}', fields)
            assert (answer.status, answer.body, answer["content-encoding"]) == (200, content, coding)
            assert answer["content-length"] == (str(len(content)) if script is sized else None)
            assert stub.requests[-1].values("accept-encoding") == ([] if accepted is None else [accepted])
            told = gateway.audit_of(answer["x-request-id"])
            assert told["tokens_in"] == (3 if (coding, path) == ("identity", CHAT) else None)


TENSOR = bytes(range(256)) * 16
DESCRIBED = json.dumps({"inputs": [{"name": "IN0", "shape": [4096], "datatype": "BYTES"}]}).encode().ljust(187)


@pytest.mark.parametrize("told", ["187", "0", "99999", "-1", "abc", ""])
@pytest.mark.parametrize("coding", [None, "deflate", "gzip"])
def test_a_binary_frame_crosses_both_ways_with_the_length_of_its_header(
    gateway: Gateway, stub: Stub, token: Token, told: str, coding: str | None
) -> None:
    """B044: the backend judges whether the length fits; it is Triton's own words that the caller gets."""
    name = "Inference-Header-Content-Length"
    body = DESCRIBED + TENSOR
    sent = body if coding is None else zlib.compress(body) if coding == "deflate" else gzip.compress(body)
    extra = [] if coding is None else [("Content-Encoding", coding)]
    status = 200 if told == "187" else 400
    lines = [f"{name}: {told}", *(f"{field}: {value}" for field, value in extra)]
    stub.say(scripts.sized(sent, status, *lines, kind="application/octet-stream"))
    fields = {"Content-Type": "application/octet-stream", name: told, **dict(extra)}
    answer = ask(gateway, token("alice"), INFER, sent, fields)
    (got,) = stub.requests
    assert got.body == answer.body == sent
    assert got.values(name.lower()) == [told]
    assert got.values("content-encoding") == [value for _, value in extra]
    assert (answer.status, answer[name.lower()], answer["content-encoding"]) == (status, told, coding)
    assert answer["content-type"] == "application/octet-stream"


def test_a_cookie_of_a_backend_reaches_nobody_and_never_comes_back(gateway: Gateway, stub: Stub, token: Token) -> None:
    """B014, B046: neither to the caller it was meant for nor with another's call."""
    cookies = ("Set-Cookie: sid=A; Path=/", "Set-Cookie: tenant=alice; Path=/; Domain=localhost", "Set-Cookie2: x=1")
    stub.say(scripts.sized(b"{}", 200, *cookies))
    for user, own in (("alice", {}), ("alice", {"Cookie": "gw_session=mine"}), ("bob", {}), ("alice", {})):
        answer = ask(gateway, token(user), CHAT, b'{"model":"m"}', {**JSON, **own})
        assert answer.status == 200
        assert [field for field in answer.fields if "cookie" in field[0]] == []
    assert [request.values("cookie") for request in stub.requests] == [[]] * 4
    assert len({request.connection for request in stub.requests}) == 1
    assert all(b"ookie" not in request.head for request in stub.probes)


def test_fields_that_come_several_times_all_arrive_in_their_order(gateway: Gateway, stub: Stub, token: Token) -> None:
    """B014, RFC 9110 §5.3."""
    told = [
        ("link", "</a>; rel=next"),
        ("warning", '199 - "one"'),
        ("link", "</b>; rel=prev"),
        ("warning", '199 - "two"'),
        ("x-mixed", "1"),
        ("x-mixed", "1"),
        ("vary", "a"),
        ("vary", "b"),
    ]
    stub.say(scripts.sized(b"{}", 200, *(f"{name}: {value}" for name, value in told)))
    for _ in range(2):  # the second time the head is remembered
        answer = ask(gateway, token("alice"), CHAT, b'{"model":"m"}', JSON)
        assert [field for field in answer.fields if field in told] == told


@pytest.fixture
def other() -> Iterator[Stub]:
    """A server that a redirect points to, and that nobody may reach so."""
    with Stub() as made:
        yield made


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_the_callers_to_follow(
    gateway: Gateway, stub: Stub, other: Stub, token: Token, status: int
) -> None:
    """B047: with the body and the credential that went to the backend, the gateway would reach anything."""
    places = {
        f"{other.url}/v2/repository/index": "/v2/repository/index",
        f"//127.0.0.1:{other.port}/x?y=1": "/x?y=1",
        "http://169.254.169.254/latest/": "/latest/",
        "/v1/other": "/v1/other",
    }
    for path in (CHAT, INFER):
        for place, told in places.items():
            stub.say(scripts.sized(b"gone there", status, f"Location: {place}"))
            asked = len(stub.requests)
            answer = ask(gateway, token("alice"), path, b'{"model":"m"}', JSON)
            assert (answer.status, answer["location"], answer.body) == (status, told, b"gone there")
            assert len(stub.requests) == asked + 1
            assert gateway.audit_of(answer["x-request-id"])["attempts"] == 1
    assert other.connections == 0


def test_a_readiness_page_that_is_elsewhere_is_no_readiness(start_gateway: StartGateway, other: Stub) -> None:
    """B047."""

    def elsewhere(request: Request) -> Script:
        return scripts.sized(b"", 307, f"Location: {other.url}{READY}")

    with Stub(elsewhere) as moved, Stub() as here:
        pools = [pool("moved", ["m"], moved.url, health={"path": READY}), pool("here", ["n"], here.url)]
        gateway = start_gateway(pools)
        gateway.backends_up("here", 1)
        wait_until(lambda: len(moved.requests) >= 3, 10, "three probes")
        assert {urlsplit(request.target).path for request in moved.requests} == {READY}
        assert gateway.metric("gateway_backend_up", pool="moved") == 0
    assert other.connections == 0

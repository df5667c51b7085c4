"""Bodies of requests: large, late, short, compressed, announced wrongly. Nothing unseen ever reaches a backend."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Callable

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import raw
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
INFER = "/v2/models/t/infer"
JSON = "Content-Type: application/json"
MIB = 1024 * 1024
HELLO = json.dumps({"model": "small"}).encode()


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, backend: Stub) -> Gateway:
    """`small` and `t` are granted, `big` is not."""
    kserve = pool("triton", ["t"], backend.url, protocols=["kserve"], health={"path": "/v2/health/ready"})
    running = start_shared_gateway(
        [pool("nim", ["small", "big"], backend.url), kserve],
        [allow("some", ["small", "t"])],
        limits={"timeouts": {"header": "5s", "idle": "5s", "pre_stop": "200ms", "drain": "5s"}},
    )
    running.backends_up("nim", 1)
    running.backends_up("triton", 1)
    return running


def head(token: str | None, path: str, *fields: str, version: str = "1.1") -> bytes:
    known = [] if token is None else [f"Authorization: Bearer {token}"]
    return "\r\n".join((f"POST {path} HTTP/{version}", "Host: gw.test", *known, *fields, "", "")).encode()


def answered(sock: socket.socket) -> tuple[int, bool, bytes]:
    """The next answer: its status, whether the connection ends with it, and its body; interim answers are answers."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = sock.recv(65_536)
        assert piece, received
        received += piece
    first, _, body = received.partition(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in first.split(b"\r\n")[1:])
    while len(body) < int(fields.get(b"content-length", b"0")):
        body += sock.recv(65_536)
    return int(first.split(b" ", 2)[1]), fields.get(b"connection") == b"close", body


def idle(gateway: Gateway) -> None:
    wait_until(lambda: gateway.metric("gateway_in_flight_requests") == 0, 5, "no call being under way")


MESSAGES = b'"messages":[{"role":"user","content":"%b"}]' % (b"x" * 3 * MIB)


@pytest.mark.parametrize("order", ["the model last", "the model first"])
@pytest.mark.parametrize("framing", ["sized", "chunked", "the end byte by byte"])
@pytest.mark.parametrize(("model", "wanted"), [(b"big", 403), (b"small", 200)])
def test_a_body_of_megabytes_is_read_to_its_end_before_it_is_decided(
    gateway: Gateway, stub: Stub, token: Token, framing: str, order: str, model: bytes, wanted: int
) -> None:
    """B023."""
    named = b'"model":"%b"' % model
    body = b"{%b}" % b",".join((MESSAGES, named) if order == "the model last" else (named, MESSAGES))
    with raw(gateway.port, gateway.ca) as sock:
        if framing == "sized":
            sock.sendall(head(token("alice"), CHAT, JSON, f"Content-Length: {len(body)}", "Connection: close") + body)
        else:
            sock.sendall(head(token("alice"), CHAT, JSON, "Transfer-Encoding: chunked", "Connection: close"))
            last = 24 if framing == "the end byte by byte" else 0
            whole = body[: len(body) - last]
            sock.sendall(b"".join(scripts.chunk(whole[at : at + 65_536]) for at in range(0, len(whole), 65_536)))
            for at in range(len(whole), len(body)):
                sock.sendall(scripts.chunk(body[at : at + 1]))
            sock.sendall(scripts.LAST_CHUNK)
        assert answered(sock)[0] == wanted
    assert [request.body for request in stub.requests] == ([body] if wanted == 200 else [])


EXPECT = "Expect: 100-continue"


@pytest.mark.parametrize("path", [CHAT, INFER])
@pytest.mark.parametrize(
    ("user", "fields", "wanted"),
    [
        (None, (EXPECT, f"Content-Length: {64 * MIB}"), 401),
        (None, (EXPECT, "Transfer-Encoding: chunked"), 401),
        (None, ("Content-Length: 17",), 401),
        ("bob", (EXPECT, f"Content-Length: {65 * MIB}"), 413),
        ("alice", (EXPECT, f"Content-Length: {65 * MIB}"), 413),
        ("alice", ("Expect: something-else", "Content-Length: 17"), 417),
        ("alice", (EXPECT, "Expect: something-else", "Content-Length: 17"), 417),
    ],
)
def test_nobody_is_asked_for_a_body_that_will_be_refused(
    gateway: Gateway, stub: Stub, token: Token, path: str, user: str | None, fields: tuple[str, ...], wanted: int
) -> None:
    """B024: the refusal comes first, no 100 before it, and what may yet come of the body is no next request."""
    if (user, path) == ("bob", INFER):
        wanted = 403  # there the path tells the model
    with raw(gateway.port, gateway.ca) as sock:
        sock.sendall(head(None if user is None else token(user), path, JSON, *fields))
        status, ends, body = answered(sock)
    assert (status, ends) == (wanted, True)
    assert json.loads(body)["error"]
    assert stub.requests == []


@pytest.mark.parametrize("path", [CHAT, INFER])
def test_a_caller_who_may_is_asked_for_the_body_once(gateway: Gateway, stub: Stub, token: Token, path: str) -> None:
    """B024."""
    with raw(gateway.port, gateway.ca) as sock:
        length = f"Content-Length: {len(HELLO)}"
        sock.sendall(head(token("alice"), path, JSON, "Expect: 100-Continue", length, "Connection: close"))
        assert answered(sock) == (100, False, b"")
        sock.sendall(HELLO)
        assert answered(sock)[0] == 200
    (got,) = stub.requests
    assert got.body == HELLO
    assert got.values("expect") == []


def test_a_caller_of_http_1_0_is_never_asked_to_go_on(gateway: Gateway, token: Token) -> None:
    """B024, RFC 9110 §10.1.1."""
    with raw(gateway.port, gateway.ca) as sock:
        sock.sendall(head(token("alice"), CHAT, JSON, EXPECT, f"Content-Length: {len(HELLO)}", version="1.0") + HELLO)
        assert answered(sock)[0] == 200


@pytest.mark.parametrize("path", [CHAT, INFER])
@pytest.mark.parametrize(
    ("length", "wanted"),
    [
        ("67108865", 413),
        ("2147483647", 413),
        ("2147483648", 413),
        ("4294967296", 413),
        ("9223372036854775807", 413),
        ("9223372036854775808", 413),
        ("18446744073709551615", 413),
        ("18446744073709551616", 400),
        ("1" * 100, 400),
        ("-1", 400),
        ("+1", 400),
        ("1_000", 400),
        ("0x10", 400),
        ("1e3", 400),
        ("1 0", 400),
        ("10, 10", 400),
        ("", 400),
        ("٣", 400),
        ("３", 400),
    ],
)
def test_a_length_beyond_all_limits_or_that_is_no_number_is_answered_at_once(
    gateway: Gateway, stub: Stub, token: Token, path: str, length: str, wanted: int
) -> None:
    """B026: the connection is closed, and the backend hears nothing."""
    with raw(gateway.port, gateway.ca) as sock:
        sock.sendall(head(token("alice"), path, JSON, f"Content-Length: {length}"))
        assert answered(sock)[:2] == (wanted, True)
    assert stub.requests == []


@pytest.mark.parametrize("path", [CHAT, INFER])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_shorter_than_announced_is_no_request(
    gateway: Gateway, stub: Stub, token: Token, path: str, chunked: bool
) -> None:
    """B027: though what came is valid JSON by itself."""
    came = HELLO.ljust(200)
    framing = "Transfer-Encoding: chunked" if chunked else "Content-Length: 500"
    with raw(gateway.port, gateway.ca) as sock:
        sock.sendall(head(token("alice"), path, JSON, framing) + (scripts.chunk(came) if chunked else came))
        if path == INFER:
            wait_until(lambda: stub.requests, 5, "the upload having begun")
    idle(gateway)
    if path == INFER:
        wait_until(lambda: stub.requests[0].closed is not None, 5, "the backend's connection being closed")
        assert not stub.requests[0].complete
    else:
        assert stub.requests == []


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


CODED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "gzip, gzip": lambda body: gzip.compress(gzip.compress(body)),
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "br": lambda body: b"\x0b\x02\x80" + body + b"\x03",  # one block that is stored as it is
    "zstd": lambda body: b"\x28\xb5\x2f\xfd\x20%c%c\0\0" % (len(body), len(body) << 3 | 1) + body,
    "gzip ": lambda body: body,  # said, but not done
    "identity, gzip": gzip.compress,
    "gzip,": lambda body: gzip.compress(body) + b"junk",
    "compress": lambda body: body,
    "unheard-of": lambda body: body,
}


@pytest.mark.parametrize("model", ["big", "small"])
@pytest.mark.parametrize("coding", CODED)
def test_a_compressed_body_that_has_to_be_read_is_refused(
    gateway: Gateway, stub: Stub, token: Token, coding: str, model: str
) -> None:
    """B061: whatever it holds, and in such a way that the caller learns what is taken (RFC 9110 §15.5.16)."""
    body = CODED[coding](json.dumps({"model": model}).encode())
    fields = {"Content-Type": "application/json", "Content-Encoding": coding}
    answer = gateway.ask("POST", CHAT, body=body, headers=fields, token=token("alice"))
    assert (answer.status, answer["accept-encoding"]) == (415, "identity")
    assert answer.json()["error"]["code"] == "unsupported_media_type"
    assert stub.requests == []


@pytest.mark.parametrize(("model", "wanted"), [("big", 403), ("small", 200)])
def test_a_body_that_says_it_is_not_compressed_is_read(
    gateway: Gateway, stub: Stub, token: Token, model: str, wanted: int
) -> None:
    """B061."""
    fields = {"Content-Type": "application/json", "Content-Encoding": "identity"}
    body = json.dumps({"model": model}).encode()
    assert gateway.ask("POST", CHAT, body=body, headers=fields, token=token("alice")).status == wanted
    assert [request.body for request in stub.requests] == ([body] if wanted == 200 else [])


@pytest.mark.parametrize("coding", CODED)
def test_a_compressed_tensor_whose_model_the_path_tells_goes_by_as_it_is(
    gateway: Gateway, stub: Stub, token: Token, coding: str
) -> None:
    """B044, B061: bytes, coding and length together."""
    body = CODED[coding](b'{"inputs":[]}')
    fields = {"Content-Type": "application/json", "Content-Encoding": coding.strip()}
    assert gateway.ask("POST", INFER, body=body, headers=fields, token=token("alice")).status == 200
    (got,) = stub.requests
    assert got.body == body
    assert (got.values("content-encoding"), got.values("content-length")) == ([coding.strip()], [str(len(body))])

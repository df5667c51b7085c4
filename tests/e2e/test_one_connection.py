"""Callers who share one kept connection: what is remembered of a head is never another caller's."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.process import wait_until
from tests.parts.stub import Stub

RIGHTS = {"alice": {"small", "both"}, "bob": {"big", "both"}}
MODELS = ("small", "big", "both", "nobody")


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b'{"usage":{"prompt_tokens":1,"completion_tokens":2}}')) as made:
        yield made


def connect(gateway: Gateway) -> socket.socket:
    host, port = "localhost", int(gateway.url.rpartition(":")[2])
    return gateway.trust.wrap_socket(socket.create_connection((host, port), timeout=30), server_hostname=host)


def request(token: str, model: str, path: str, padding: int) -> bytes:
    body = json.dumps({"model": model, "messages": [], "user": "x" * padding}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    )
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answered(line: socket.socket) -> tuple[int, str]:
    """Status and request id of the next answer."""
    response = HTTPResponse(line)
    response.begin()
    response.read()
    return response.status, response.headers["x-request-id"]


def test_each_call_on_a_shared_connection_is_decided_and_accounted_for_its_own_caller(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """Alternating, repeating and pipelined heads of two callers, so that every kind of memory is met."""
    who = {name: token(name) for name in RIGHTS}
    rules = [
        allow("alice-may", sorted(RIGHTS["alice"]), subjects={"users": ["alice"]}),
        allow("bob-may", sorted(RIGHTS["bob"]), subjects={"users": ["bob"]}),
    ]
    gateway = start_gateway([pool("nim", list(MODELS), stub.url, identity_headers=True)], rules)
    chance = random.Random(7)  # noqa: S311  a repeatable mix, no secret
    paths = ("/v1/chat/completions", "/v1/completions", "/v1/chat/completions?x=1")
    with connect(gateway) as line:
        for _ in range(60):
            burst = [
                (chance.choice(list(RIGHTS)), chance.choice(MODELS), chance.choice(paths), chance.choice([0, 1, 9, 99]))
                for _ in range(chance.choice([1, 1, 1, 2, 3]))
            ]
            stub.requests.clear()
            line.sendall(b"".join(request(who[name], model, path, size) for name, model, path, size in burst))
            reached = []
            for name, model, path, _ in burst:
                status, identifier = answered(line)
                allowed = model in RIGHTS[name]
                assert status == (200 if allowed else 403), (name, model, path)
                told = gateway.audit_of(identifier)
                assert (told["subject"], told["model"], told["status"]) == (name, model, status)
                assert told["path"] == path.partition("?")[0]
                assert told["rule"] == (f"{name}-may" if allowed else None)
                if allowed:
                    reached.append((name, model, path))
            seen = [
                (got.values("x-gateway-subject")[0], json.loads(got.body)["model"], got.target) for got in stub.requests
            ]
            assert seen == reached


def test_a_head_that_was_remembered_is_decided_anew_after_a_reload(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    mine = token("alice")
    gateway = start_gateway(
        [pool("nim", ["small"], stub.url)], [allow("may", ["small"], subjects={"users": ["alice"]})]
    )
    with connect(gateway) as line:
        for _ in range(3):
            line.sendall(request(mine, "small", "/v1/completions", 0))
            assert answered(line)[0] == 200
        before = gateway.status()["generation"]
        gateway.write_rules([allow("may", ["small"], subjects={"users": ["bob"]})])
        wait_until(lambda: gateway.status()["generation"] > before, 5, "the reload")
        for _ in range(3):
            line.sendall(request(mine, "small", "/v1/completions", 0))
            assert answered(line)[0] == 403


@pytest.fixture
def provider(tmp_path: Path, openid: OpenIdProvider) -> Iterator[OpenIdProvider]:
    """A provider of one's own, whose tokens live as long as the test says. `openid` has its packages installed."""
    made = OpenIdProvider(tmp_path)
    yield made
    made.stop()


def test_a_token_that_was_remembered_on_its_head_expires_there_too(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider
) -> None:
    provider.set_lifetime(2)
    gateway = start_gateway([pool("nim", ["small"], stub.url)], issuers=[oidc(provider.issuer, leeway="0s")])
    short = provider.user_token("alice")
    statuses: list[int] = []
    with connect(gateway) as line:

        def refused() -> bool:
            line.sendall(request(short, "small", "/v1/completions", 0))
            statuses.append(answered(line)[0])
            return statuses[-1] != 200

        wait_until(refused, 10, "the token being refused")

    assert statuses[0] == 200
    assert statuses[-1] == 401

"""What a backend gets: the caller's body, our headers, and nothing that was meant for the gateway alone."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import devcerts
from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.gateway import Gateway, pool
from tests.parts.process import wait_until
from tests.parts.stub import Request, Stub

FORGED = {
    "X-Forwarded-For": "6.6.6.6",
    "X-Forwarded-User": "root",
    "X-Gateway-Subject": "root",
    "X-Gateway-Groups": "admins",
    "Forwarded": "for=6.6.6.6",
    "X-Real-IP": "6.6.6.6",
    "Cookie": "session=1",
    "Connection": "X-Hop",
    "X-Hop": "1",
    "Proxy-Authorization": "Basic cm9vdDpyb290",
    "X-Kept": "1",
    "X-Forwarded-Client-Cert": 'Hash=1;Subject="CN=root"',
    "X-SSL-Client-Verify": "SUCCESS",
    "SSL-Client-Subject-DN": "CN=root",
    "Client-Cert": ":MIIB:",
    "Client-Cert-Chain": ":MIIB:",
    "X_Forwarded_Client_Cert": "Hash=1",
    "X_SSL_Client_Verify": "SUCCESS",
    "SSL_Client_Subject_DN": "CN=root",
    "Client_Cert": ":MIIB:",
}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}", 200, "Set-Cookie: who=me", "X-From-Backend: yes")) as made:
        yield made


def call(gateway: Gateway, stub: Stub, token: str) -> Request:
    answer = gateway.ask("POST", "/v1/chat/completions", body={"model": "m"}, headers=FORGED, token=token)
    assert answer.status == 200
    assert answer["set-cookie"] is None
    assert answer["x-from-backend"] == "yes"
    return stub.requests[-1]


def test_credentials_cookies_and_forged_identities_stay_outside(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """B113 among them: certificates that nobody showed."""
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    got = call(gateway, stub, token("alice"))
    for word in (b"cn=root", b"miib", b"success", b"client-cert", b"client_cert", b"ssl"):
        assert word not in got.head.lower()
    for name in ("authorization", "cookie", "proxy-authorization", "x-forwarded-user", "x-hop", "x-gateway-subject"):
        assert got.values(name) == [], name
    assert token("alice").encode() not in got.head
    assert b"6.6.6.6" not in got.head
    assert got.values("x-forwarded-for") == ["127.0.0.1"]
    assert got.values("x-forwarded-proto") == ["https"]
    assert got.values("x-kept") == ["1"]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", got.values("traceparent")[0])
    assert len(got.values("via")) == 1


def test_the_credential_of_the_pool_goes_with_calls_and_probes(
    start_gateway: StartGateway, stub: Stub, token: Token, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("Bearer of-the-pool\n")
    credential = {"header": "Authorization", "value": {"file": str(tmp_path / "key")}}
    gateway = start_gateway([pool("nim", ["m"], stub.url, credential=credential)])
    assert call(gateway, stub, token("alice")).values("authorization") == ["Bearer of-the-pool"]
    assert stub.probes[-1].values("authorization") == ["Bearer of-the-pool"]
    assert b"of-the-pool" not in gateway.process.stdout.read_bytes() + gateway.process.stderr.read_bytes()


def test_an_alias_is_written_as_the_name_the_backend_knows(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    model = {"name": "meta/long", "aliases": ["short"], "backend_name": "at-the-backend"}
    gateway = start_gateway([pool("nim", [model], stub.url)])
    for name in ("meta/long", "short"):
        body = b'{"x": 1.50, "model":"%s" ,"messages":[]}' % name.encode()
        headers = {"Content-Type": "application/json"}
        assert (
            gateway.ask("POST", "/v1/chat/completions", body=body, headers=headers, token=token("alice")).status == 200
        )
        assert stub.requests[-1].body == b'{"x": 1.50, "model":"at-the-backend" ,"messages":[]}'


def test_an_absent_model_is_the_only_one_of_the_pool_and_is_written_in(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    assert gateway.ask("POST", "/v1/chat/completions", body={"messages": []}, token=token("alice")).status == 200
    assert b'"model":"m"' in stub.requests[-1].body.replace(b" ", b"")


def test_a_backend_behind_tls_is_checked_against_its_own_authority(
    start_gateway: StartGateway, token: Token, tmp_path: Path
) -> None:
    theirs = devcerts.make(tmp_path / "theirs")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(theirs.certificate, theirs.key)
    with Stub(tls=context) as secure:
        entry = {"url": secure.url, "tls": {"ca": str(theirs.ca)}}
        trusted = start_gateway([pool("nim", ["m"], backends=[entry])])
        stranger = start_gateway([pool("nim", ["m"], secure.url)])
        trusted.backends_up("nim", 1)
        wait_until(lambda: "backend_down pool=nim" in stranger.process.stderr.read_text(), 10, "the backend being down")
        answers = [
            gateway.ask("POST", "/v1/chat/completions", body={"model": "m"}, token=token("alice"))
            for gateway in (trusted, stranger)
        ]
    assert answers[0].status == 200
    (down,) = [line for line in stranger.process.stderr.read_text().splitlines() if "backend_down" in line]
    assert "certificate" in down
    assert answers[1].status == 503
    assert answers[1].json()["error"]["code"] == "no_backend"
    assert len(secure.requests) == 1  # the stranger's call came to nobody

"""Callers known by their certificate, over real TLS: each kind of name, and certificates that count for nothing."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import openai
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.devcerts import Paths
from tests.parts.client import Answer, prepared, whole
from tests.parts.gateway import Gateway, oidc, pool
from tests.parts.people import Authority, Certificate
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": []}
SPIFFE = "spiffe://prod.example/ns/ml/sa/batch"
NAMES = (x509.UniformResourceIdentifier(SPIFFE), x509.DNSName("Batch.Example.com"), x509.RFC822Name("al@example.com"))
OWNERS = {"san_uri": SPIFFE, "san_dns": "batch.example.com", "san_email": "al@example.com", "cn": "Al the First"}


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


class Made:
    """A gateway that knows callers by certificates of `people`."""

    def __init__(self, folder: Path, certificates: Paths, people: Authority, stub: Stub) -> None:
        rule = {"id": "owners", "effect": "allow", "subjects": {"users": [*OWNERS.values()], "issuers": ["mtls"]}}
        entry = oidc("http://127.0.0.1:9")
        self.gateway = Gateway(
            folder, certificates, [entry], [pool("stub", ["m"], stub.url)], [{**rule, "models": ["m"]}], start=False
        )
        self.gateway.config["listen"]["tls"]["client_ca"] = str(people.file)

    def start(self, subject: str, **tls: str) -> Gateway:
        self.gateway.config["identity"]["mtls"] = {"subject": subject}
        self.gateway.config["listen"]["tls"] |= tls
        self.gateway.write_config()
        if "required" in tls.values():
            self.gateway.launch().wait_ready(lambda: self.gateway.readiness() > 0)
        else:
            self.gateway.start()
        return self.gateway


@pytest.fixture
def made(tmp_path: Path, certificates: Paths, people: Authority, stub: Stub) -> Iterator[Made]:
    made = Made(tmp_path, certificates, people, stub)
    yield made
    made.gateway.end()


def line(gateway: Gateway, shows: Certificate | None = None) -> http.client.HTTPSConnection:
    context = gateway.trust if shows is None else shows.show(gateway.trust)
    return http.client.HTTPSConnection("localhost", gateway.port, timeout=60, context=context)


def chat(made: http.client.HTTPConnection, headers: Mapping[str, str] | None = None) -> Answer:
    payload, fields = prepared(BODY, headers, None)
    made.request("POST", CHAT, payload, fields)
    return whole(made.getresponse())


def asked(gateway: Gateway, shows: Certificate | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    with closing(line(gateway, shows)) as made:
        return chat(made, headers)


def handshake_fails(gateway: Gateway, shows: Certificate | None = None) -> bool:
    """In TLS 1.3 the client hears of it with its first read."""
    try:
        asked(gateway, shows)
    except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
        return True
    return False


@pytest.mark.parametrize("which", OWNERS)
def test_a_caller_is_who_the_chosen_name_of_the_certificate_says(made: Made, people: Authority, which: str) -> None:
    gateway = made.start(which)
    answer = asked(gateway, people.issue(*NAMES, common=("Al the First",)))
    assert answer.status == 200, answer.body
    record = gateway.audit_of(answer["x-request-id"])
    assert (record["subject"], record["issuer"]) == (OWNERS[which], "mtls")
    assert gateway.metric("gateway_authentications_total", provider="mtls", result="ok") == 1


def test_the_openai_sdk_shows_a_certificate_once_it_is_told_to_leave_out_its_key(made: Made, people: Authority) -> None:
    """As docs/identity.md has it."""
    gateway = made.start("san_uri")
    context = people.issue(*NAMES).show(gateway.trust)

    def leave_out(request: Any) -> None:
        request.headers.pop("Authorization", None)

    with (
        openai.DefaultHttpxClient(verify=context, event_hooks={"request": [leave_out]}) as shown,
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="-", max_retries=0, http_client=shown) as client,
    ):
        assert client.chat.completions.with_raw_response.create(model="m", messages=[]).status_code == 200
    assert gateway.metric("gateway_authentications_total", provider="mtls", result="ok") == 1


def test_a_certificate_that_counts_for_nothing_lets_nobody_in(
    made: Made, people: Authority, stub: Stub, tmp_path: Path
) -> None:
    """Of another authority, expired, not valid yet, a server's: the handshake fails. Two names or none: 401."""
    gateway = made.start("san_uri")
    before = len(stub.requests)
    (tmp_path / "others").mkdir()
    stranger = Authority(tmp_path / "others").issue(*NAMES)
    expired = people.issue(*NAMES, until=timedelta(seconds=-5))
    early = people.issue(*NAMES, since=timedelta(hours=1))
    server = people.issue(*NAMES, usage=x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]))
    for bad in (stranger, expired, early, server):
        assert handshake_fails(gateway, bad)
    twice = people.issue(*NAMES, x509.UniformResourceIdentifier("spiffe://prod.example/admin"))
    for nobody in (twice, people.issue(NAMES[1])):
        answer = asked(gateway, nobody)
        assert (answer.status, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert len(stub.requests) == before
    wait_until(lambda: gateway.metric("gateway_handshake_failures_total") >= 4, 10, "the failed handshakes")
    assert asked(gateway, people.issue(*NAMES)).status == 200


def test_a_certificate_may_be_left_out_and_does_not_speak_for_who_says_something_else(
    made: Made, people: Authority, stub: Stub
) -> None:
    """B113: nor does a field that speaks of one."""
    gateway = made.start("san_uri")
    before = len(stub.requests)
    good = people.issue(*NAMES)
    assert asked(gateway).status == 401
    for fields in ({"Authorization": "Bearer x"}, {"Authorization": "Basic YTpi"}, {"x-api-key": "nimgw_x"}):
        assert asked(gateway, good, fields).status == 401, fields
    forged = {
        "X-Forwarded-Client-Cert": f"Hash=00;URI={SPIFFE}",
        "X-SSL-Client-Verify": "SUCCESS",
        "SSL-Client-Subject-DN": "CN=Al the First",
        "SSL_Client_Subject_DN": "CN=Al the First",
        "Client-Cert": ":MIIB:",
    }
    assert asked(gateway, None, forged).status == 401
    assert len(stub.requests) == before
    assert asked(gateway, good, forged).status == 200
    names = {name for name, _ in stub.requests[-1].fields}
    assert not {name.lower() for name in forged} & names


def test_where_certificates_are_required_nobody_gets_further_without(made: Made, people: Authority) -> None:
    gateway = made.start("san_uri", client_certificate="required")
    assert handshake_fails(gateway)
    assert asked(gateway, people.issue(*NAMES)).status == 200


def test_a_connection_that_outlives_its_certificate_is_nobodys(made: Made, people: Authority) -> None:
    gateway = made.start("san_uri")
    with closing(line(gateway, people.issue(*NAMES, until=timedelta(seconds=4)))) as kept:

        def models() -> Answer:  # without a body, which a refusal might not wait for, and then close
            kept.request("GET", "/v1/models")
            return whole(kept.getresponse())

        assert models().status == 200
        wait_until(lambda: models().status == 401, 20, "the end of the certificate")
        assert "expired" in models().json()["error"]["message"]


def test_another_name_counts_from_a_reload_on(made: Made, people: Authority) -> None:
    """Also on connections that are open."""
    gateway = made.start("san_uri")
    with closing(line(gateway, people.issue(*NAMES))) as kept:
        first = chat(kept)
        generation = gateway.status()["generation"]
        gateway.config["identity"]["mtls"] = {"subject": "san_email"}
        gateway.write_config()
        wait_until(lambda: gateway.status()["generation"] > generation, 10, "the reload")
        second = chat(kept)
    subjects = [gateway.audit_of(answer["x-request-id"])["subject"] for answer in (first, second)]
    assert subjects == [SPIFFE, "al@example.com"]


def test_a_connection_ends_behind_its_answer_once_its_authority_is_withdrawn(
    made: Made, people: Authority, tmp_path: Path
) -> None:
    """Also one that is kept and was asked a moment ago; one without a certificate goes on."""
    ca = tmp_path / "clients-ca.pem"
    ca.write_bytes(people.file.read_bytes())
    gateway = made.start("cn", client_ca=str(ca))
    shows = people.issue(common=("Al the First",))
    with closing(line(gateway, shows)) as kept, closing(line(gateway)) as plain:
        assert chat(kept).status == 200
        plain.request("GET", "/v1/health/live")
        assert whole(plain.getresponse()).status == 200
        generation = gateway.metric("gateway_config_generation")
        ca.write_bytes(Authority(tmp_path, "others").file.read_bytes())
        wait_until(lambda: gateway.metric("gateway_config_generation") > generation, 10, "the reload")
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            chat(kept)
        plain.request("GET", "/v1/health/live")
        assert whole(plain.getresponse()).status == 200


def test_a_handshake_or_a_request_half_sent_before_an_authority_was_withdrawn_brings_nobody_in(
    made: Made, people: Authority, tmp_path: Path
) -> None:
    ca = tmp_path / "clients-ca.pem"
    ca.write_bytes(people.file.read_bytes())
    gateway = made.start("cn", client_ca=str(ca))
    shows = people.issue(common=("Al the First",))
    with (
        socket.create_connection(("localhost", gateway.port), timeout=60) as plain,
        closing(line(gateway, shows)) as half,
    ):
        half.connect()
        half.sock.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n")
        generation = gateway.metric("gateway_config_generation")
        wait_until(lambda: gateway.metric("gateway_connections", state="handshake") == 1, 10, "the handshake")
        ca.write_bytes(Authority(tmp_path, "others").file.read_bytes())
        wait_until(lambda: gateway.metric("gateway_config_generation") > generation, 10, "the reload")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shows.show(gateway.trust).wrap_socket(plain, server_hostname="localhost").recv(1)
        half.sock.sendall(b"\r\n")
        answer = http.client.HTTPResponse(half.sock)
        answer.begin()
        assert (answer.status, answer.headers["connection"]) == (401, "close")

"""Tokens of a real OpenID provider that are bound to a certificate or a key, from issue to the backend, over TLS."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509

from gateway.devcerts import Paths
from tests.identity.proofs import FORGED, Prover
from tests.identity.signers import ec_signer
from tests.parts.client import Answer, prepared, whole
from tests.parts.gateway import Gateway, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.people import Authority, Certificate
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": []}
SIGNER = ec_signer("a client of the provider")


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


Made = Callable[..., Gateway]


@pytest.fixture(scope="module")
def made(certificates: Paths, openid_tls: OpenIdProvider, people: Authority, stub: Stub) -> Iterator[Made]:
    """A gateway that takes client certificates, and knows nobody by them alone."""
    running: list[Gateway] = []

    def make(folder: Path, **more: object) -> Gateway:
        rule = {"id": "r", "effect": "allow", "subjects": {"groups": ["services"]}, "models": ["m"]}
        entry = oidc(openid_tls.issuer, ca=str(certificates.ca), **more)
        gateway = Gateway(folder, certificates, [entry], [pool("stub", ["m"], stub.url)], [rule], start=False)
        running.append(gateway)
        gateway.config["listen"]["tls"]["client_ca"] = str(people.file)
        gateway.write_config()
        gateway.start()
        return gateway

    yield make
    for gateway in running:
        gateway.end()


@pytest.fixture(scope="module")
def asking(made: Made, tmp_path_factory: pytest.TempPathFactory, openid_tls: OpenIdProvider) -> Gateway:
    """It asks the provider about tokens."""
    folder = tmp_path_factory.mktemp("asking")
    secret = folder / "secret"
    secret.write_text(openid_tls.secret)
    how = {"client_id": "introspector", "client_secret": {"file": str(secret)}}
    return made(folder, verify="introspect", introspection=how)


@pytest.fixture(scope="module")
def signed(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    """It checks signatures."""
    return made(tmp_path_factory.mktemp("signed"))


@pytest.fixture(scope="module")
def mine(people: Authority) -> Certificate:
    return people.issue(x509.DNSName("batch.example.com"))


def line(gateway: Gateway, shows: Certificate | None = None) -> http.client.HTTPSConnection:
    """A connection, with a certificate or without."""
    context = gateway.trust if shows is None else shows.show(gateway.trust)
    return http.client.HTTPSConnection("localhost", gateway.port, timeout=60, context=context)


def chat(made: http.client.HTTPConnection, headers: Mapping[str, str]) -> Answer:
    payload, fields = prepared(BODY, None, None)
    made.request("POST", CHAT, payload, {**fields, **headers})
    return whole(made.getresponse())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("kind", ["RS256", "opaque"])
def test_a_token_that_was_issued_to_a_certificate_is_worth_something_with_it_alone(
    asking: Gateway,
    signed: Gateway,
    openid_tls: OpenIdProvider,
    people: Authority,
    mine: Certificate,
    stub: Stub,
    kind: str,
) -> None:
    """B080, B113."""
    at = asking if kind == "opaque" else signed
    token = openid_tls.service_token(kind, "certified", shows=mine)
    other = people.issue(x509.DNSName("batch.example.com"))
    before = len(stub.requests)
    fields = {**bearer(token), "X-Forwarded-Client-Cert": f"Hash={mine.der.hex()}", "X-SSL-Client-Verify": "SUCCESS"}
    with closing(line(at, mine)) as good, closing(line(at)) as none, closing(line(at, other)) as wrong:
        for _ in range(2):
            assert chat(good, bearer(token)).status == 200
            for bad in (none, wrong):
                answer = chat(bad, fields)
                assert answer.status == 401
                assert 'error="invalid_token"' in (answer["www-authenticate"] or "")
    assert len(stub.requests) == before + 2
    assert not any(token in request.head.decode("latin-1") for request in stub.requests)


@pytest.mark.parametrize("kind", ["ES256", "opaque"])
def test_a_token_that_was_issued_to_a_key_needs_a_new_proof_for_each_call(
    asking: Gateway, signed: Gateway, openid_tls: OpenIdProvider, stub: Stub, kind: str
) -> None:
    """B080: also on one connection with the same head, and when the token is remembered."""
    at = asking if kind == "opaque" else signed
    asked = Prover(SIGNER, "", time.time(), f"{openid_tls.issuer}/token").proof(ath=...)
    token = openid_tls.service_token(kind, "proving", proof=asked)
    prover = Prover(SIGNER, token, time.time(), f"{at.url}{CHAT}")
    before = len(stub.requests)
    with closing(line(at)) as made:
        for _ in range(3):
            fields = {"Authorization": f"DPoP {token}", "DPoP": prover.proof()}
            assert chat(made, fields).status == 200
            again = chat(made, fields)
            assert again.status == 401
            assert (again["www-authenticate"] or "").startswith('DPoP realm="nim-gateway", error="invalid_dpop_proof"')
        elsewhere = Prover(SIGNER, token, time.time(), f"https://evil.example{CHAT}").proof()
        misled = {"Authorization": f"DPoP {token}", "DPoP": elsewhere, "Host": "evil.example"}
        for fields in (bearer(token), {**bearer(token), "DPoP": prover.proof()}, misled):
            assert chat(made, fields).status == 401
    assert len(stub.requests) == before + 3
    assert not any(request.values("dpop") or request.values("authorization") for request in stub.requests)


def test_of_forged_proofs_none_reaches_a_backend(signed: Gateway, openid_tls: OpenIdProvider, stub: Stub) -> None:
    """B080: with a token that the provider issued to this key."""
    asked = Prover(SIGNER, "", time.time(), f"{openid_tls.issuer}/token").proof(ath=...)
    token = openid_tls.service_token("RS256", "proving", proof=asked)
    before = len(stub.requests)
    seen: dict[str, int] = {}
    with closing(line(signed)) as made:
        for name, forge in FORGED.items():
            proof = forge(Prover(SIGNER, token, time.time(), f"{signed.url}{CHAT}"))
            if not proof.isascii():
                continue
            seen[name] = chat(made, {"Authorization": f"DPoP {token}", "DPoP": proof}).status
        good = Prover(SIGNER, token, time.time(), f"{signed.url}{CHAT}").proof()
        assert chat(made, {"Authorization": f"DPoP {token}", "DPoP": good}).status == 200
    assert {name: status for name, status in seen.items() if status != 401} == {}
    assert len(seen) >= 40
    assert len(stub.requests) == before + 1

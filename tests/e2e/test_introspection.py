"""A real OpenID provider that is asked about its tokens: opaque ones, revoked ones, and what its absence does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.identity.provider.introspection import NOBODYS
from tests.conftest import StartGateway
from tests.identity.signers import ec_signer
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.process import wait_until
from tests.parts.scripts import Script, sized
from tests.parts.stub import Request, Stub

# Seconds within which what goes on beside calls is seen.
LIVE = 10

CHAT = {"model": "m", "messages": []}
RULES = [
    {"id": "r", "effect": "allow", "subjects": {"groups": ["services", "data-science"]}, "models": ["m"]},
]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def provider(tmp_path: Path, openid: OpenIdProvider) -> Iterator[OpenIdProvider]:
    """A provider of one's own, which knows a client by its key."""
    made = OpenIdProvider(tmp_path, client_key=ec_signer("introspector").jwk())
    yield made
    made.stop()


def chat(gateway: Gateway, token: str) -> Answer:
    return gateway.ask("POST", "/v1/chat/completions", token=token, body=CHAT)


def asking(folder: Path, issuer: str, secret: str, **more: Any) -> dict[str, Any]:
    """The entry of a provider that is asked, as the client `introspector`."""
    file = folder / "secret"
    file.write_text(secret)
    how = {"client_id": "introspector", "client_secret": {"file": str(file)}, **more.pop("asking", {})}
    return oidc(issuer, **{"verify": "introspect", "introspection": how, **more})


def test_an_opaque_token_lets_its_owner_in_until_it_is_revoked(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, tmp_path: Path
) -> None:
    """For no longer than `positive`; the provider is asked once in between."""
    entry = asking(tmp_path, openid.issuer, openid.secret, asking={"positive": "1s", "negative": "1s"})
    gateway = start_gateway([pool("stub", ["m"], stub.url)], RULES, issuers=[entry])
    user, service = openid.user_token("alice", "opaque"), openid.service_token("opaque")
    assert "." not in user
    for token, subject in ((user, "alice"), (service, "service")):
        answer = chat(gateway, token)
        assert answer.status == 200, answer.body
        record = gateway.audit_of(answer["x-request-id"])
        assert (record["subject"], record["issuer"]) == (subject, openid.issuer)
    openid.revoke(service)
    wait_until(lambda: chat(gateway, service).status == 401, 10, "the revocation being seen")
    assert 'error="invalid_token"' in (chat(gateway, service)["www-authenticate"] or "")
    assert chat(gateway, user).status == 200
    assert gateway.metric("gateway_authentications_total", provider="corp", result="inactive") >= 1
    assert token not in gateway.process.stderr.read_text() + gateway.process.stdout.read_text()


def test_an_opaque_token_that_is_for_nobody_or_made_up_lets_nobody_in(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, tmp_path: Path
) -> None:
    """B080: the provider knows the first, but not as one for the gateway."""
    gateway = start_gateway(
        [pool("stub", ["m"], stub.url)], RULES, issuers=[asking(tmp_path, openid.issuer, openid.secret)]
    )
    assert chat(gateway, openid.service_token("for nobody")).status == 401
    for made_up in ("ya29.a0AfB_by-made-up", "x", "A" * 43, "a.b.c.d.e"):
        assert chat(gateway, made_up).status == 401
    assert stub.requests == []


def test_the_gateway_may_prove_itself_with_a_key(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider, tmp_path: Path
) -> None:
    """`private_key_jwt`, RFC 7523; the provider checks the statement."""
    file = tmp_path / "introspector.pem"
    private = ec_signer("introspector").private
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    how = {"client_id": "introspector-with-key", "private_key": str(file)}
    entry = oidc(provider.issuer, verify="introspect", introspection=how)
    gateway = start_gateway([pool("stub", ["m"], stub.url)], RULES, issuers=[entry])
    for _ in range(2):
        answer = chat(gateway, provider.service_token("opaque"))
        assert answer.status == 200, answer.body


def test_a_gateway_that_its_provider_does_not_take_says_so_and_blames_no_caller(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, tmp_path: Path
) -> None:
    entry = asking(tmp_path, openid.issuer, "not the secret")
    gateway = start_gateway([pool("stub", ["m"], stub.url)], RULES, issuers=[entry])
    answer = chat(gateway, openid.service_token("opaque"))
    assert (answer.status, answer["retry-after"]) == (503, "5")
    assert answer.json()["error"]["code"] == "identity_unavailable"
    log = gateway.process.stderr
    wait_until(lambda: "introspection" in log.read_text(), LIVE, "the look that tells")
    lines = [json.loads(line) for line in log.read_text().splitlines() if "introspection" in line]
    assert [line["level"].lower() for line in lines] == ["error"]
    assert "does not accept this client" in lines[0]["event"]
    assert "not the secret" not in gateway.process.stderr.read_text()


def test_a_provider_that_is_away_is_503_and_is_back_at_once(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider, tmp_path: Path
) -> None:
    """Whom it vouched for is served on until `positive` has passed; gauges tell before."""
    entry = asking(tmp_path, provider.issuer, provider.secret, asking={"positive": "2s"})
    gateway = start_gateway([pool("stub", ["m"], stub.url)], RULES, issuers=[entry])
    known, other = provider.service_token("opaque"), provider.service_token("opaque")
    assert chat(gateway, known).status == 200
    provider.stop()
    assert chat(gateway, other).status == 503
    wait_until(lambda: gateway.metric("gateway_identity_outage_seconds", provider="corp") > 0, LIVE, "the outage told")
    assert gateway.metric("gateway_identity_outage_bound_seconds", provider="corp") == 2
    wait_until(lambda: chat(gateway, known).status == 503, 10, "the memory of a good token ending")
    again = OpenIdProvider(tmp_path, port=provider.port)
    try:
        entry["introspection"]["client_secret"] = {"file": str(_written(tmp_path / "new", again.secret))}
        gateway.config["identity"]["oidc"] = [entry]
        gateway.write_config()
        fresh = again.service_token("opaque")
        wait_until(lambda: chat(gateway, fresh).status == 200, 10, "the provider being asked again")
        assert gateway.metric("gateway_identity_outage_seconds", provider="corp") == 0
    finally:
        again.stop()


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


# What no real provider can be made to answer.

ODD: dict[str, Script] = {
    "active as text": sized(b'{"active":"true","aud":"nim-gateway","sub":"alice"}'),
    "active as a number": sized(b'{"active":1,"aud":"nim-gateway","sub":"alice"}'),
    "nothing said": sized(b"{}"),
    "a list": sized(b'[{"active":true}]'),
    "half of it": sized(b'{"active":true,"aud":"nim-gate'),
    "a page": sized(b"<html>login</html>"),
    "empty": sized(b""),
    "a redirect": sized(b"", 302, "Location: /introspect"),
    "an error that says active": sized(b'{"active":true,"aud":"nim-gateway","sub":"alice"}', 500),
    "too large": sized(b'{"active":true,"x":"' + b"x" * 100_000 + b'"}'),
}


def test_an_odd_answer_is_never_a_pass_and_never_a_401(start_gateway: StartGateway, stub: Stub, tmp_path: Path) -> None:
    """And a good one is a pass, whatever came before it. Those who choose odd tokens take nobody else's place."""
    good = {"active": True, "aud": "nim-gateway", "sub": "alice", "groups": ["services"]}
    none = {NOBODYS.replace("_", " "): sized(b'{"active":false}')}
    answers = {**ODD, "refused": sized(b"", 403), "good": sized(json.dumps(good).encode())}

    def answer(request: Request) -> Script:
        return {**answers, **none}[request.body.decode().split("&")[0].removeprefix("token=").replace("_", " ")]

    with Stub(answer) as odd:
        entry = asking(tmp_path, "corp", "s", asking={"endpoint": f"{odd.url}/introspect"})
        gateway = start_gateway([pool("stub", ["m"], stub.url)], RULES, issuers=[entry])
        seen = {name: chat(gateway, name.replace(" ", "_")).status for name in answers}
        log = gateway.process.stderr
        wait_until(lambda: "identity.introspection.odd" in log.read_text(), LIVE, "the odd answers being told of")
        assert gateway.metric("gateway_identity_ready", provider="corp") == 1
    assert seen == {**dict.fromkeys(answers, 503), "good": 200}
    assert {request.method for request in odd.requests} == {"POST"}
    assert "identity.introspection.failed" not in log.read_text()

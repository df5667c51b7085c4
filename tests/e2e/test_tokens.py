"""Access tokens of a real OpenID provider: algorithms, rotation while running, and a provider that is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartGateway, Token
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = {"model": "m", "messages": []}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def provider(tmp_path: Path, openid: OpenIdProvider) -> Iterator[OpenIdProvider]:
    """A provider of one's own, whose keys may be rotated and which may be stopped."""
    made = OpenIdProvider(tmp_path)
    yield made
    made.stop()


def chat(gateway: Gateway, token: str | None) -> Answer:
    return gateway.ask("POST", "/v1/chat/completions", token=token, body=CHAT)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_tokens_of_users_and_services_are_believed_in_both_algorithms(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, token: Token, algorithm: str
) -> None:
    rule = {"id": "both", "effect": "allow", "subjects": {"groups": ["data-science", "services"]}, "models": ["m"]}
    gateway = start_gateway([pool("stub", ["m"], stub.url)], [rule])
    for bearer in (token("alice", algorithm), openid.service_token(algorithm)):
        answer = chat(gateway, bearer)
        assert answer.status == 200, answer.body
    subjects = {gateway.audit_of(answer["x-request-id"])["subject"] for answer in [chat(gateway, bearer)]}
    assert subjects == {"service"}


def test_an_algorithm_that_is_not_listed_is_refused(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider
) -> None:
    issuers = [oidc(openid.issuer, algorithms=["ES256"])]
    gateway = start_gateway([pool("stub", ["m"], stub.url)], issuers=issuers)
    assert chat(gateway, openid.user_token("alice", "RS256")).status == 401
    assert chat(gateway, openid.user_token("alice", "ES256")).status == 200


def test_a_token_for_another_audience_and_an_opaque_one_are_refused(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider
) -> None:
    gateway = start_gateway([pool("stub", ["m"], stub.url)])
    for kind in ("elsewhere", "opaque"):
        answer = chat(gateway, openid.user_token("alice", kind))
        assert answer.status == 401
        assert 'error="invalid_token"' in (answer["www-authenticate"] or "")
    assert stub.requests == []


def test_an_expired_token_is_refused_though_it_was_good_before(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider
) -> None:
    provider.set_lifetime(2)
    gateway = start_gateway([pool("stub", ["m"], stub.url)], issuers=[oidc(provider.issuer, leeway="0s")])
    short = provider.user_token("alice")
    assert chat(gateway, short).status == 200
    wait_until(lambda: chat(gateway, short).status == 401, 10, "the token being refused")


def test_keys_may_be_rotated_while_the_gateway_runs(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider
) -> None:
    gateway = start_gateway([pool("stub", ["m"], stub.url)], issuers=[oidc(provider.issuer)])
    old = provider.user_token("alice")
    assert chat(gateway, old).status == 200
    provider.rotate()
    for algorithm in ("RS256", "ES256"):
        assert chat(gateway, provider.user_token("alice", algorithm)).status == 200
    assert chat(gateway, old).status == 200  # its key is still published


def test_a_key_id_nobody_knows_is_not_asked_for_again_and_again(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider, openid: OpenIdProvider
) -> None:
    gateway = start_gateway([pool("stub", ["m"], stub.url)], issuers=[oidc(provider.issuer)])
    assert chat(gateway, provider.user_token("alice")).status == 200
    before = provider.fetches()["jwks"]
    provider.rotate()
    strangers = []
    for _ in range(5):
        strangers.append(provider.user_token("bob"))
        provider.rotate(drop=True)
    answers = [chat(gateway, stranger).status for stranger in strangers]
    assert set(answers) == {401}
    assert provider.fetches()["jwks"] - before <= 1


def test_a_provider_that_goes_away_does_not_stop_tokens_that_were_known(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider
) -> None:
    gateway = start_gateway([pool("stub", ["m"], stub.url)], issuers=[oidc(provider.issuer)])
    alice, carol = provider.user_token("alice"), provider.user_token("alice", "ES256")
    assert chat(gateway, alice).status == 200
    provider.stop()
    assert chat(gateway, alice).status == 200
    assert chat(gateway, carol).status == 200  # never seen, but its key is known


def test_a_provider_that_was_never_there_is_503_until_it_comes(
    start_gateway: StartGateway, stub: Stub, tmp_path: Path, openid: OpenIdProvider
) -> None:
    first = OpenIdProvider(tmp_path)
    alice = first.user_token("alice")
    first.stop()
    gateway = start_gateway([pool("stub", ["m"], stub.url)], issuers=[oidc(first.issuer)])
    answer = chat(gateway, alice)
    assert answer.status == 503
    assert answer.json()["error"]["code"] == "identity_unavailable"
    assert 1 <= int(answer["retry-after"] or 0) <= 60
    again = OpenIdProvider(tmp_path, port=first.port)
    try:
        fresh = again.user_token("alice")
        wait_until(lambda: chat(gateway, fresh).status == 200, 40, "tokens being believed once the provider is there")
    finally:
        again.stop()


def test_a_provider_that_hangs_is_503_and_other_callers_do_not_wait_for_it(
    start_gateway: StartGateway, stub: Stub, provider: OpenIdProvider, openid: OpenIdProvider, token: Token
) -> None:
    hung = provider.user_token("alice")
    provider.process.pause()
    try:
        issuers = [oidc(openid.issuer), oidc(provider.issuer, name="hung")]
        gateway = start_gateway([pool("stub", ["m"], stub.url)], issuers=issuers)
        assert chat(gateway, token("alice")).status == 200
        assert chat(gateway, hung).status == 503
    finally:
        provider.process.resume()

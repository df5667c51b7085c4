"""Tokens as the common providers make them, at a gateway that is configured for them as docs/identity.md says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from gateway.devcerts import Paths
from tests.identity.samples import SAMPLES, Sample, documented
from tests.identity.signers import Json, ec_signer
from tests.parts.client import Answer
from tests.parts.gateway import Config, Gateway, pool
from tests.parts.issuers import Issuers
from tests.parts.process import wait_until
from tests.parts.stub import Stub

KEY = ec_signer("provider")
CHAT = "/v1/chat/completions"
OF_THE_PAGE = documented()
TOKENS = [sample for sample in SAMPLES if sample.entry in OF_THE_PAGE]


def on_loopback(entry: Config, issuers: Issuers) -> Config:
    """The same entry, with everything that is fetched from the net fetched from `issuers`."""
    moved = dict(entry)
    if "jwks_uri" in entry:
        moved["jwks_uri"] = issuers.url + _below(entry["jwks_uri"])
        issuers.add_keys(_below(entry["jwks_uri"]), KEY.jwk())
    else:
        moved["issuer"] = issuers.add(_below(entry["issuer"]), KEY.jwk()).iss
    return moved


def _below(url: str) -> str:
    parts = urlsplit(url)
    return f"/{parts.netloc}{parts.path}"


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture(scope="module")
def issuers() -> Iterator[Issuers]:
    with Issuers() as made:
        yield made


@pytest.fixture(scope="module")
def providers(issuers: Issuers) -> dict[str, Config]:
    return {name: on_loopback(entry, issuers) for name, entry in OF_THE_PAGE.items()}


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, certificates: Paths, providers: dict[str, Config], stub: Stub
) -> Iterator[Gateway]:
    """`open` is for everybody, `guarded` for everybody but one group."""
    everybody = {"effect": "allow", "subjects": {"issuers": [*providers]}, "models": ["open", "guarded"]}
    barred = {"effect": "deny", "subjects": {"groups": ["contractors"]}, "models": ["guarded"]}
    rules = [{"id": "everybody", **everybody}, {"id": "barred", **barred}]
    pools = [pool("nim", ["open", "guarded"], stub.url, identity_headers=True)]
    with Gateway(tmp_path_factory.mktemp("gateway"), certificates, [*providers.values()], pools, rules) as running:
        running.backends_up("nim", 1)
        wait_until(lambda: all(one["ready"] for one in running.status()["issuers"].values()), 10, "all keys")
        yield running


def call(gateway: Gateway, provider: Config, claims: Json, model: str) -> Answer:
    now = int(time.time())
    made = claims | {"iss": provider["issuer"], "iat": now, "nbf": now, "exp": now + 3600}
    return gateway.ask("POST", CHAT, body={"model": model}, token=KEY.sign(made))


@pytest.mark.parametrize("sample", TOKENS, ids=str)
def test_a_providers_token_is_who_the_page_says_or_refused(
    gateway: Gateway, providers: dict[str, Config], stub: Stub, sample: Sample
) -> None:
    """B073, B074, B080."""
    provider, claims, becomes = providers[sample.entry], sample.claims(), sample.becomes
    answer = call(gateway, provider, claims, "open")
    record = gateway.audit_of(answer["x-request-id"])
    if isinstance(becomes, str):
        assert (answer.status, record["detail"]) == (401, becomes)
        return
    assert answer.status == 200, record
    request = stub.requests[-1]
    assert request.values("x-gateway-subject") == [becomes.subject]
    assert set(",".join(request.values("x-gateway-groups")).split(",")) - {""} == becomes.groups
    assert (record["subject"], record["issuer"], record["client"]) == (
        (becomes.subject, provider["issuer"], becomes.client)
    )
    assert (record["provider"], record["credential"]) == (sample.entry, becomes.credential)
    guarded = call(gateway, provider, claims, "guarded")
    assert guarded.status == (200 if becomes.groups_known else 403)


@pytest.mark.parametrize("endpoint", ["http://169.254.169.254/", "{url}/graph/getMemberObjects"])
def test_groups_that_a_token_says_lie_elsewhere_are_not_asked_for_and_the_caller_is_told(
    gateway: Gateway, providers: dict[str, Config], issuers: Issuers, endpoint: str
) -> None:
    """B074: the address is the token's word."""
    (sample,) = (sample for sample in TOKENS if sample.name == "entra-overage")
    elsewhere = {"_claim_sources": {"src1": {"endpoint": endpoint.format(url=issuers.url)}}}
    answer = call(gateway, providers["entra"], sample.claims() | elsewhere, "guarded")
    assert answer.status == 403
    assert answer.json()["error"]["code"] == "groups_overage"
    assert "group" in answer.json()["error"]["message"]
    assert "contractors" not in answer.json()["error"]["message"]
    assert issuers.strays == []


def test_an_opaque_access_token_is_refused(gateway: Gateway) -> None:
    """B080: as Google's are."""
    answer = gateway.ask("POST", CHAT, body={"model": "open"}, token="ya29.fake")
    assert answer.status == 401
    assert 'error="invalid_token"' in (answer["www-authenticate"] or "")

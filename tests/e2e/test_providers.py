"""Tokens as the common providers make them, at a gateway that is configured for them as docs/identity.md says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from gateway.devcerts import Paths
from tests.identity.signers import Json, Mint, ec_signer
from tests.parts.client import Answer
from tests.parts.gateway import Config, Gateway, pool
from tests.parts.issuers import Issuers
from tests.parts.process import wait_until
from tests.parts.stub import Stub

PAGE = (Path(__file__).parents[2] / "docs" / "identity.md").read_text(encoding="utf-8")
TENANT, OTHER_TENANT = "22222222-bbbb-4bbb-8bbb-000000000002", "22222222-bbbb-4bbb-8bbb-000000000009"
FILLED_IN = {"OTHER-TENANT": OTHER_TENANT, "TENANT": TENANT, "REALM": "ml", "COMPANY": "acme", "GATEWAY": "gw"}
KEY = ec_signer("provider")
CHAT = "/v1/chat/completions"

ALICE, GROUP, APP = (f"{n * 8}-cccc-4ccc-8ccc-00000000000{n}" for n in "354")
#: Entra sends those of its users without `groups` who are in more than 200.
OVERAGE: Json = {"groups": ..., "_claim_names": {"groups": "src1"}}
ENTRA: Json = {
    "ver": "2.0", "tid": TENANT, "oid": ALICE, "sub": "pairwise-AbC", "azp": APP, "azpacr": "0", "roles": ["Chat.User"],
    "scp": "infer models.read", "groups": [GROUP], "preferred_username": "alice@example.com",
}  # fmt: skip
KEYCLOAK: Json = {
    "aud": ["gw", "account"], "azp": "web", "typ": "Bearer", "sub": "66666666-ffff-4fff-8fff-000000000006",
    "scope": "openid profile infer", "realm_access": {"roles": ["offline_access", "ds"]},
    "resource_access": {"gw": {"roles": ["small-user"]}, "account": {"roles": ["view-profile"]}},
    "groups": ["/ds", "/ds/team-a"], "preferred_username": "alice",
}  # fmt: skip
GOOGLE: Json = {
    "azp": "9.apps.googleusercontent.com", "sub": "100000000000000000001", "hd": "example.com", "groups": ...,
    "email": "alice@example.com", "email_verified": True,
}  # fmt: skip
ADFS: Json = {
    "sub": ..., "groups": ..., "apptype": "Confidential", "appid": "gw", "ver": "1.0", "scp": "openid",
    "upn": "alice@example.com", "group": "ds",
}  # fmt: skip
OKTA: Json = {
    "ver": 1, "jti": "AT.x", "cid": "0oaX", "uid": "00uX", "scp": ["openid", "infer"], "sub": "alice@example.com",
}  # fmt: skip
DEX: Json = {"sub": "CgVhbGljZRIEbGRhcA", "at_hash": "x", "email": "alice@example.com", "name": "alice"}


@dataclass(frozen=True)
class Seen:
    """Whom backend and operators are told of. `groups_known` False: rules that deny a group deny this caller."""

    subject: str
    groups: set[str] = field(default_factory=set)
    client: str | None = None
    groups_known: bool = True


#: A name, the provider's entry in the documents, what its token says beyond the usual, and what becomes of it: a
#: caller, or the reason of a refusal.
SHAPES: list[tuple[str, str, Json, Seen | str]] = [
    ("a user", "entra", ENTRA, Seen(ALICE, {GROUP}, APP)),
    ("a user of too many groups", "entra", ENTRA | OVERAGE, Seen(ALICE, set(), APP, groups_known=False)),
    ("the same, implicit", "entra", ENTRA | {"groups": ..., "hasgroups": True}, Seen(ALICE, set(), APP, False)),
    ("no oid", "entra", ENTRA | {"oid": ...}, "bad_claims"),
    ("a user by roles", "entra-roles", ENTRA | {"tid": OTHER_TENANT}, Seen(ALICE, {"Chat.User"}, APP)),
    (
        "an application", "entra-roles",
        ENTRA | {"idtyp": "app", "scp": ..., "groups": ..., "roles": ["Infer.All"], "sub": APP, "oid": APP},
        Seen(APP, {"Infer.All"}, APP),
    ),
    (
        "a user of version 1", "entra-v1",
        ENTRA | {"ver": "1.0", "azp": ..., "appid": APP, "upn": "alice@example.com", "unique_name": "alice"},
        Seen(ALICE, {GROUP}, APP),
    ),
    ("a user", "keycloak", KEYCLOAK, Seen(KEYCLOAK["sub"], {"data-science", "/ds/team-a"}, "web")),
    ("no audience mapper", "keycloak", KEYCLOAK | {"aud": "account"}, "bad_audience"),
    ("an offline token", "keycloak", KEYCLOAK | {"typ": "Offline"}, "wrong_kind"),
    (
        "a service account", "keycloak",
        KEYCLOAK | {"groups": ..., "azp": "batch", "client_id": "batch", "preferred_username": "service-account-batch"},
        Seen(KEYCLOAK["sub"], set(), "batch"),
    ),
    ("a user", "okta", OKTA, Seen("alice@example.com", {"ds"}, "0oaX")),
    ("of the organisation's own server", "okta", OKTA | {"aud": "https://acme.okta.com"}, "bad_audience"),
    ("a user", "google", GOOGLE, Seen("alice@example.com", set(), "9.apps.googleusercontent.com")),
    ("of another company", "google", GOOGLE | {"hd": "example.org"}, "bad_claims"),
    ("of no company", "google", GOOGLE | {"hd": ...}, "bad_claims"),
    ("not verified", "google", GOOGLE | {"email_verified": False}, "bad_claims"),
    (
        "verified as text", "google-bare", GOOGLE | {"email_verified": "true"},
        Seen("alice@example.com", set(), "9.apps.googleusercontent.com"),
    ),
    ("in one group", "adfs", ADFS, Seen("alice@example.com", {"ds"}, "gw")),
    ("in several groups", "adfs", ADFS | {"group": ["ds", "ops"]}, Seen("alice@example.com", {"ds", "ops"}, "gw")),
    ("a user", "dex", DEX, Seen("CgVhbGljZRIEbGRhcA", {"ds"})),
]  # fmt: skip


def documented() -> dict[str, Config]:
    """The entries of the page, filled in."""
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "name: keycloak" in text)
    for capitals, name in FILLED_IN.items():
        block = block.replace(capitals, name)
    return {entry["name"]: entry for entry in yaml.safe_load(block)["identity"]["oidc"]}


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
    return {name: on_loopback(entry, issuers) for name, entry in documented().items()}


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


def call(gateway: Gateway, provider: Config, says: Json, model: str) -> Answer:
    mint = Mint(provider["issuer"], KEY, time.time())
    return gateway.ask("POST", CHAT, body={"model": model}, token=mint.token(**{"aud": provider["audience"][0]} | says))


def test_every_provider_of_the_page_has_a_token_here() -> None:
    assert {entry for _, entry, _, _ in SHAPES} == set(documented())


@pytest.mark.parametrize(
    ("entry", "says", "becomes"), [each[1:] for each in SHAPES], ids=[f"{each[1]}, {each[0]}" for each in SHAPES]
)
def test_a_providers_token_is_who_the_page_says_or_refused(
    gateway: Gateway, providers: dict[str, Config], stub: Stub, entry: str, says: Json, becomes: Seen | str
) -> None:
    """B073, B074, B080."""
    answer = call(gateway, providers[entry], says, "open")
    record = gateway.audit_of(answer["x-request-id"])
    if isinstance(becomes, str):
        assert (answer.status, record["detail"]) == (401, becomes)
        return
    assert answer.status == 200, record
    request = stub.requests[-1]
    assert request.values("x-gateway-subject") == [becomes.subject]
    assert set(",".join(request.values("x-gateway-groups")).split(",")) - {""} == becomes.groups
    assert (record["subject"], record["issuer"], record["client"]) == (
        (becomes.subject, providers[entry]["issuer"], becomes.client)
    )
    guarded = call(gateway, providers[entry], says, "guarded")
    assert guarded.status == (200 if becomes.groups_known else 403)


@pytest.mark.parametrize("endpoint", ["http://169.254.169.254/", "{url}/graph/getMemberObjects"])
def test_groups_that_a_token_says_lie_elsewhere_are_not_asked_for_and_the_caller_is_told(
    gateway: Gateway, providers: dict[str, Config], issuers: Issuers, endpoint: str
) -> None:
    """B074: the address is the token's word."""
    elsewhere = {"_claim_sources": {"src1": {"endpoint": endpoint.format(url=issuers.url)}}}
    answer = call(gateway, providers["entra"], ENTRA | OVERAGE | elsewhere, "guarded")
    assert answer.status == 403
    assert answer.json()["error"]["code"] == "groups_overage"
    assert "group" in answer.json()["error"]["message"]
    assert "contractors" not in answer.json()["error"]["message"]
    assert issuers.strays == []


def test_an_opaque_access_token_is_refused(gateway: Gateway) -> None:
    """B080: as Google's are."""
    answer: Any = gateway.ask("POST", CHAT, body={"model": "open"}, token="ya29.fake")
    assert answer.status == 401
    assert 'error="invalid_token"' in answer["www-authenticate"]

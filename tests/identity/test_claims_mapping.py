"""What becomes of claims, the odd ones too: subject, groups, scopes, client. Whole tokens: `test_samples.py`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Principal
from gateway.globs import compile_glob
from gateway.identity.tokens.mapping import ClaimMapping
from gateway.settings import Claims, OidcIssuer
from tests.identity.conftest import EPOCH, Bench
from tests.identity.signers import Json


@dataclass(frozen=True)
class Shape:
    """What a provider's token says beyond the usual, how the gateway is set up for it, and what must come out."""

    says: Json
    subject: str = "alice"
    groups: set[str] = field(default_factory=set)
    scopes: set[str] = field(default_factory=set)
    client: str | None = None
    known: bool = True
    settings: Json = field(default_factory=dict)


KEYCLOAK: Json = {
    "aud": ["gw", "account"], "azp": "web", "typ": "Bearer", "sub": "6666", "scope": "openid profile infer",
    "realm_access": {"roles": ["offline_access", "ds"]},
    "resource_access": {"gw": {"roles": ["small-user"]}, "account": {"roles": ["view-profile"]}},
    "groups": ["/ds", "/ds/team-a"],
}  # fmt: skip
K_SCOPES = {"openid", "profile", "infer"}
SHAPES: dict[str, Shape] = {
    "Entra overage, implicit flow": Shape({"groups": ..., "hasgroups": True}, known=False),
    "Entra without overage": Shape({"groups": ["ds"], "hasgroups": False}, groups={"ds"}),
    "overage of another claim": Shape({"_claim_names": {"address": "src1"}, "groups": ["ds"]}, groups={"ds"}),
    "overage, odd form": Shape({"groups": ..., "_claim_names": ["groups"]}, known=False),
    "overage, odd hint": Shape({"groups": ..., "hasgroups": ["x"]}, known=False),
    "roles are there though groups are not": Shape(
        {"groups": ..., "hasgroups": True, "roles": ["r"]}, groups={"r"}, settings={"claims": Claims(groups=("roles",))}
    ),
    "Keycloak realm roles": Shape(
        KEYCLOAK, "6666", {"offline_access", "ds"}, K_SCOPES, "web",
        settings={"claims": Claims(groups=("realm_access", "roles"))},
    ),
    "Keycloak client roles": Shape(
        KEYCLOAK, "6666", {"small-user"}, K_SCOPES, "web",
        settings={"claims": Claims(groups=("resource_access", "gw", "roles"))},
    ),
    "a name with dots": Shape(
        {"https://x.test/groups": ["ml"]}, groups={"ml"}, settings={"claims": Claims(groups=("https://x.test/groups",))}
    ),
    "one group as a string": Shape({"groups": "admins"}, groups={"admins"}),
    "a comma is part of a name": Shape({"groups": "ds,ops"}, groups={"ds,ops"}),
    "groups as objects": Shape({"groups": [{"name": "ds"}]}),
    "groups as an object": Shape({"groups": {"ds": True}}),
    "groups null": Shape({"groups": None}),
    "groups mixed": Shape({"groups": [1, None, "ds", True, ["ops"], ""]}, groups={"ds"}),
    "groups with control characters": Shape({"groups": ["ds", "a\nb", "c\0", "d\x85"]}, groups={"ds"}),
    "1,000 groups": Shape({"groups": [f"g{n}" for n in range(1000)]}, groups={f"g{n}" for n in range(1000)}),
    "path through a string": Shape({"groups": "ds"}, settings={"claims": Claims(groups=("groups", "0"))}),
    "scopes mixed": Shape({"scope": ["infer", 1, None, "", "a\nb"]}, groups={"ds"}, scopes={"infer"}),
    "scopes with control characters": Shape({"scope": "infer a\0b"}, groups={"ds"}, scopes={"infer"}),
    "scope an object": Shape({"scope": {"infer": True}}, groups={"ds"}),
    "client not a string": Shape({"client_id": 7, "azp": "web"}, groups={"ds"}, client="web"),
    "client not a plain name": Shape({"client_id": "a\nb", "azp": "", "cid": "web"}, groups={"ds"}, client="web"),
    "groups put under a prefix": Shape({"groups": ["ds"]}, groups={"corp:ds"}, settings={"group_prefix": "corp:"}),
    "groups renamed after the prefix": Shape(
        {"groups": ["/ml/ds", "ops"]}, groups={"data-science", "corp:ops"},
        settings={"group_prefix": "corp:", "group_map": (("corp:/ml/ds", "data-science"), ("/ml/ds", "wrong"))},
    ),
    "groups that it may not give": Shape(
        {"groups": ["team/a", "team/a/b", "admins"]}, groups={"team/a"}, settings={"groups_allowed": ("team/*",)}
    ),
    "a rename does not get around what it may give": Shape(
        {"groups": ["x", "y"]}, groups={"guests"},
        settings={"group_map": (("x", "admins"), ("y", "guests")), "groups_allowed": ("guests", "x")},
    ),
    "no group may be given": Shape({"groups": ["ds"]}, settings={"groups_allowed": ()}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
async def test_a_providers_token_becomes_the_principal_it_describes(bench: Bench, name: str) -> None:
    """B073, B074, and the token shapes of the common providers."""
    shape = SHAPES[name]
    bench.rebuild(**shape.settings)
    await bench.keys.refresh()
    principal = await bench.identify(bench.token(**shape.says))
    assert principal == Principal(
        subject=shape.subject,
        issuer=bench.provider.issuer,
        provider="corp",
        groups=frozenset(shape.groups),
        client=shape.client,
        scopes=frozenset(shape.scopes),
        expires=bench.wall.at + 3600,
        groups_known=shape.known,
    )


@pytest.mark.parametrize("value", [..., "example.org", "CORP.test", "", None, True, ["corp.test"]])
async def test_a_required_claim_has_to_be_there_with_exactly_its_text(bench: Bench, value: object) -> None:
    bench.rebuild(require=(("hd", "corp.test"), ("azp", "web")))
    await bench.keys.refresh()
    assert await bench.refused(bench.token(azp="web", hd=value)) == "bad_claims"
    assert (await bench.identify(bench.token(azp="web", hd="corp.test"))).subject == "alice"
    assert await bench.refused(bench.token(hd="corp.test")) == "bad_claims"


@pytest.mark.parametrize("value", [..., False, "false", None, 1, "yes", ["true"]])
async def test_a_mail_address_is_a_subject_only_if_the_provider_has_verified_it(bench: Bench, value: object) -> None:
    """Elsewhere anybody may write any address into a profile."""
    bench.rebuild(claims=Claims(subject=("email",)))
    await bench.keys.refresh()
    assert await bench.refused(bench.token(email="root@corp.test", email_verified=value)) == "bad_claims"
    for held in (True, "true"):
        principal = await bench.identify(bench.token(email="alice@corp.test", email_verified=held))
        assert principal.subject == "alice@corp.test"


async def test_an_odd_sub_is_refused_also_where_another_claim_is_the_subject(bench: Bench) -> None:
    bench.rebuild(claims=Claims(subject=("preferred_username",)))
    await bench.keys.refresh()
    assert await bench.refused(bench.token(preferred_username="alice", sub=7)) == "bad_claims"
    assert (await bench.identify(bench.token(preferred_username="bob", sub="7"))).subject == "bob"


@pytest.mark.parametrize("value", [None, "", 7, ["alice"], "a\r\nb"])
async def test_a_subject_claim_of_another_name_must_hold_a_plain_name_too(bench: Bench, value: object) -> None:
    bench.rebuild(claims=Claims(subject=("preferred_username",)))
    await bench.keys.refresh()
    assert await bench.refused(bench.token(preferred_username=value)) == "bad_claims"


async def test_odd_groups_are_warned_of_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    for n in range(5):
        await bench.identify(bench.token(groups=[n, {"name": "ds"}], jti=n))
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(lines) == 2
    assert all("identity.groups.ignored issuer=corp" in line for line in lines)


names = st.text(min_size=1, max_size=12)


@given(given_groups=st.lists(names, max_size=6), prefix=st.sampled_from(["", "corp:"]), target=names)
def test_no_provider_ever_gives_a_group_it_may_not_give(given_groups: list[str], prefix: str, target: str) -> None:
    """Whatever the token says and however groups are renamed, what comes out fits a pattern of `groups_allowed`."""
    settings = OidcIssuer(
        "corp", "https://idp.test", ("gw",), group_prefix=prefix, groups_allowed=("corp:*", "ds"),
        group_map=tuple((prefix + one, target) for one in given_groups[:2]),
    )  # fmt: skip
    allowed = [compile_glob("corp:*"), compile_glob("ds")]
    for name in ClaimMapping(settings).principal({"groups": given_groups}, "alice", EPOCH).groups:
        assert any(allows(name) for allows in allowed)

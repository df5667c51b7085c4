"""Tokens of the gateway itself: who logged in gets one, and is the same caller with it; nobody else can make one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Principal
from gateway.identity.names import plain
from gateway.identity.narrowed import GroupsAllowed
from gateway.identity.refused import BadToken, Result
from gateway.identity.revocation.revokedfile import load
from gateway.identity.signatures.jwt import parse
from gateway.identity.signatures.signing import OwnKey, own_keys
from gateway.identity.tokens.identity import BearerIdentity
from gateway.identity.tokens.oidc import OidcBearer
from gateway.identity.tokens.own import LEEWAY, Minted, NotMinted, OwnTokens, logins, new_id
from gateway.settings import Ldap, LdapUsers, Listen, Login, OidcIssuer, Policies, ServerTls, Settings
from tests.identity.conftest import EPOCH, Bench, Clock, bearing
from tests.identity.forged import FORGED
from tests.identity.pems import MAKERS, pem, private
from tests.identity.signers import Json, Mint, Signer, part

URL = "https://gw.test"
PROVIDERS = {"ldap:office": "office", "https://idp.test": "corp"}
DIRECTORY = Ldap("office", ("ldaps://dc",), LdapUsers())
CORP = OidcIssuer("corp", "https://idp.test", ("gw",))


def allowed(directory: Ldap = DIRECTORY, corp: OidcIssuer = CORP) -> GroupsAllowed:
    listen = Listen(ServerTls(Path("tls.crt"), Path("tls.key")))
    return GroupsAllowed(Settings(listen, Policies(Path("policies")), (), ldap=(directory,), oidc=(corp,)))


ALL = allowed()
ALICE = Principal("alice", "ldap:office", "office", frozenset({"data-science", "with space, and comma"}))


@cache
def keys(*algorithms: str) -> tuple[OwnKey, ...]:
    return own_keys(b"".join(pem(private(algorithm)) for algorithm in algorithms))


KEYS = keys("ES256")


class Gate:
    """A gateway that makes tokens and takes them."""

    def __init__(self, own: tuple[OwnKey, ...] = KEYS, url: str = URL, **more: Any) -> None:
        self.clock = Clock(EPOCH)
        self.counts: list[tuple[str, str]] = []
        settings: dict[str, Any] = {"lifetime": 3600.0, "providers": PROVIDERS, "narrowed": ALL, **more}
        self.own = OwnTokens(own, url, now=self.clock, **settings)
        self.identity = BearerIdentity([self.own], self.clock, lambda *count: self.counts.append(count))

    async def caller(self, token: Minted | str) -> Principal:
        principal = await self.identity.identify(bearing(token if isinstance(token, str) else token.text))
        assert principal is not None
        return principal

    async def refused(self, token: Minted | str) -> str:
        with pytest.raises(BadToken) as caught:
            await self.caller(token)
        assert caught.value.status == 401
        return caught.value.reason.value


def signer(algorithm: str = "ES256") -> Signer:
    """The gateway's key in the hands of somebody who writes tokens by hand."""
    (key,) = keys(algorithm)
    return Signer(key.kid, algorithm, key.private)


def claims(**more: object) -> Json:
    """What a token of `ALICE` says; a value of `...` leaves a name out."""
    full: Json = {
        "iss": URL, "aud": URL, "sub": "alice", "iat": EPOCH, "exp": EPOCH + 60, "jti": "t1", "idp": "ldap:office",
        "groups": ["data-science"],
    }  # fmt: skip
    return {name: value for name, value in (full | more).items() if value is not ...}


@pytest.mark.parametrize("algorithm", MAKERS)
async def test_who_shows_a_token_is_who_it_was_made_for(algorithm: str) -> None:
    gate = Gate(keys(algorithm))
    minted = gate.own.mint(ALICE)
    caller = await gate.caller(minted)

    assert caller == replace(ALICE, expires=EPOCH + 3600, credential=minted.id)
    assert minted.lifetime == 3600
    assert parse(minted.text).algorithm == algorithm
    assert [result for _, result in gate.counts] == ["ok"]


# Whatever `plain` lets through, also what no eye can tell from a space or from nothing; spaces separate scopes.
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)
SCOPES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters=" "), min_size=1)


LOGINS = st.builds(
    lambda issuer, **fields: Principal(issuer=issuer, provider=PROVIDERS[issuer], **fields),
    issuer=st.sampled_from(sorted(PROVIDERS)),
    subject=PLAIN,
    groups=st.frozensets(PLAIN, max_size=20),
    client=st.none() | PLAIN,
    scopes=st.frozensets(SCOPES, max_size=5),
    groups_known=st.booleans(),
    expires=st.floats(EPOCH + 1, EPOCH + 7200),
)


@given(LOGINS, st.sampled_from(sorted(MAKERS)))
async def test_nothing_that_decides_is_lost_on_the_way(login: Principal, algorithm: str) -> None:
    gate = Gate(keys(algorithm))
    minted = gate.own.mint(login)
    caller = await gate.caller(minted)

    assert replace(caller, expires=login.expires, credential=None) == login
    assert caller.expires <= min(login.expires, EPOCH + 3600)
    assert caller.expires == EPOCH + minted.lifetime


@pytest.mark.parametrize("name", ["Jos\u00e9\u00a0Mart\u00ed", "a\u200bb", "\ufeffalice", "a" * 512, "\U0001f600"])
async def test_who_has_an_odd_name_gets_a_token_that_works_and_can_be_revoked(name: str, tmp_path: Path) -> None:
    """One rule says what a name is: where it comes in, in a token, and in the list of what was revoked."""
    gate = Gate()
    caller = await gate.caller(gate.own.mint(replace(ALICE, subject=name)))
    assert caller.subject == name
    file = tmp_path / "revoked.yaml"
    escaped = "".join(f"\\U{ord(one):08x}" for one in name)
    file.write_text(f'version: 1\nsubjects:\n  - "{escaped}"\n')
    assert load(file, {"office"}).why(caller)


@pytest.mark.parametrize("name", ["", "a\nb", "a\x85b", "a" * 513])
async def test_a_name_that_no_token_can_hold_gets_none(name: str) -> None:
    with pytest.raises(NotMinted, match="ask your administrator"):
        Gate().own.mint(replace(ALICE, subject=name))


async def test_a_token_lasts_as_long_as_is_configured_and_never_longer_than_the_login() -> None:
    gate = Gate(lifetime=60.0)
    long, short = gate.own.mint(ALICE), gate.own.mint(replace(ALICE, expires=EPOCH + 30.9))
    assert (long.lifetime, short.lifetime) == (60, 30)
    gate.clock.at = EPOCH + 30 + LEEWAY
    assert await gate.refused(short) == "expired"
    assert (await gate.caller(long)).subject == "alice"
    gate.clock.at = EPOCH + 60 + LEEWAY
    assert await gate.refused(long) == "expired"


async def test_a_login_that_has_ended_gives_no_token() -> None:
    for expires in (EPOCH - 1, EPOCH, EPOCH + 0.5):
        with pytest.raises(NotMinted, match="log in again"):
            Gate().own.mint(replace(ALICE, expires=expires))


@pytest.mark.parametrize("principal", [
    replace(ALICE, credential="jti-of-a-token"),
    Principal("ci", "api_keys", "api_keys", credential="key1"),
    Principal("spiffe://x/y", "mtls", "mtls"),
    Principal("alice", "https://elsewhere.test", "elsewhere"),
    Principal("alice", "https://elsewhere.test", "office"),
    Principal("alice", "ldap:office", "corp"),
])  # fmt: skip
async def test_only_a_login_is_worth_a_token(principal: Principal) -> None:
    """Else a token would be renewed without end, and what a key or certificate may do would outlive it."""
    with pytest.raises(NotMinted, match="for a login alone"):
        Gate().own.mint(principal)


async def test_a_token_gives_no_other_token() -> None:
    gate = Gate()
    caller = await gate.caller(gate.own.mint(ALICE))
    with pytest.raises(NotMinted):
        gate.own.mint(caller)


async def test_more_groups_than_a_token_may_hold_are_said_when_it_is_asked_for_and_not_when_it_is_used() -> None:
    many = frozenset(f"group-{number:05}" for number in range(1500))
    with pytest.raises(NotMinted, match="too many groups"):
        Gate().own.mint(replace(ALICE, groups=many))


async def test_a_token_goes_on_with_an_old_key_until_that_is_dropped() -> None:
    old, both, new = keys("ES256"), keys("EdDSA", "ES256"), keys("EdDSA")
    before = Gate(old).own.mint(ALICE)
    rotated = Gate(both)
    after = rotated.own.mint(ALICE)

    assert parse(after.text).kid == new[0].kid != parse(before.text).kid
    assert (await rotated.caller(before)).subject == (await rotated.caller(after)).subject == "alice"
    assert (await Gate(new).caller(after)).subject == "alice"
    assert await Gate(new).refused(before) == "bad_algorithm"
    assert await Gate(keys("EdDSA", "ES384")).refused(before) == "bad_algorithm"
    other = own_keys(pem(private("ES256", 1)))
    assert await Gate(other).refused(before) == "unknown_key"


async def test_groups_that_a_provider_may_give_no_more_count_no_more_in_tokens_of_before() -> None:
    """Nor in a token for a login of before."""
    minted = Gate().own.mint(ALICE)
    office = Gate(narrowed=allowed(replace(DIRECTORY, groups_allowed=("data-*", "ml"))))
    assert (await office.caller(minted)).groups == {"data-science"}
    assert (await Gate().caller(office.own.mint(ALICE))).groups == {"data-science"}
    nothing = Gate(narrowed=allowed(replace(DIRECTORY, groups_allowed=())))
    caller = await nothing.caller(minted)
    assert (caller.groups, caller.groups_known) == (frozenset(), True)


async def test_whose_groups_come_from_a_directory_has_those_that_it_may_give() -> None:
    minted = Gate().own.mint(Principal("alice", "https://idp.test", "corp", frozenset({"admins", "staff"})))
    supplied = replace(CORP, groups_from="office", groups_allowed=("admins",))
    gate = Gate(narrowed=allowed(replace(DIRECTORY, groups_allowed=("staff",)), supplied))
    assert (await gate.caller(minted)).groups == {"staff"}
    assert (await Gate(narrowed=allowed(corp=replace(CORP, groups_allowed=("admins",)))).caller(minted)).groups == {
        "admins"
    }


async def test_a_provider_that_is_configured_no_more_vouches_for_nobody() -> None:
    minted = Gate().own.mint(ALICE)
    assert await Gate(providers={"https://idp.test": "corp"}).refused(minted) == "bad_claims"
    assert await Gate(providers={}).refused(minted) == "bad_claims"


async def test_a_provider_that_was_renamed_vouches_under_its_new_name() -> None:
    minted = Gate().own.mint(Principal("alice", "https://idp.test", "corp"))
    renamed = {"https://idp.test": "headquarters"}
    assert (await Gate(providers=renamed).caller(minted)).provider == "headquarters"


async def test_tokens_of_a_gateway_with_another_url_are_not_ours_though_the_key_is_the_same() -> None:
    minted = Gate(url="https://other.test").own.mint(ALICE)
    assert await Gate().refused(minted) == "bad_issuer"
    token = parse(minted.text)
    with pytest.raises(BadToken) as caught:
        await Gate().own.verify(token)
    assert caught.value.reason is Result.BAD_ISSUER


class ByHand(Mint):
    """Tokens signed with the gateway's own key by somebody who has it, so that only the claims can be wrong."""

    def __init__(self) -> None:
        super().__init__(URL, signer("RS256"), EPOCH)

    def claims(self, **more: object) -> Json:
        return claims(**more)


async def test_a_token_written_by_hand_with_the_key_of_the_gateway_holds() -> None:
    """The other side of those below: what is refused there is refused for what is wrong with it."""
    gate = Gate(keys("RS256"))
    assert (await gate.caller(ByHand().token())).groups == {"data-science"}


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_token_is_refused(name: str) -> None:
    gate = Gate(keys("RS256"))
    await gate.refused(FORGED[name](ByHand()))
    assert not any(result == "ok" for _, result in gate.counts)


BY_HAND: dict[str, Json] = {
    "no jti": {"jti": ...},
    "jti a number": {"jti": 1},
    "jti empty": {"jti": ""},
    "no idp": {"idp": ...},
    "idp a list": {"idp": ["ldap:office"]},
    "idp by its short name": {"idp": "office"},
    "idp unknown": {"idp": "ldap:elsewhere"},
    "idp the gateway": {"idp": URL},
    "no groups": {"groups": ...},
    "groups a string": {"groups": "data-science"},
    "groups odd": {"groups": ["data-science", 1]},
    "client a list": {"client_id": ["x"]},
    "scope a list": {"scope": ["x"]},
}


@pytest.mark.parametrize("name", BY_HAND)
async def test_a_token_that_the_gateway_would_not_have_written_is_refused(name: str) -> None:
    assert await Gate().refused(signer().sign(claims(**BY_HAND[name]))) == "bad_claims"


@pytest.mark.parametrize("known", [False, None, "true", 0, 1, "yes"])
async def test_groups_count_as_known_only_where_the_token_leaves_no_doubt(known: object) -> None:
    caller = await Gate().caller(signer().sign(claims(groups_known=known)))
    assert caller.groups_known is False


async def test_a_key_serves_its_own_algorithm_only() -> None:
    gate = Gate(keys("ES256", "RS256", "EdDSA", "ES384"))
    for algorithm in MAKERS:
        for other in MAKERS:
            header = part({"alg": other, "kid": signer(algorithm).kid, "typ": "at+jwt"})
            token = signer(algorithm).sign_raw(header, part(claims()))
            if algorithm == other:
                assert (await gate.caller(token)).subject == "alice"
            else:
                assert await gate.refused(token) == "bad_signature"


@given(st.data())
async def test_no_change_of_a_letter_goes_unnoticed(data: st.DataObject) -> None:
    gate = Gate()
    text = gate.own.mint(ALICE).text
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from("Aab0-_.").filter(lambda one: one != text[place]))
    with pytest.raises(BadToken):
        await gate.caller(text[:place] + letter + text[place + 1 :])


async def test_a_provider_cannot_make_tokens_of_the_gateway_nor_the_gateway_tokens_of_a_provider(bench: Bench) -> None:
    own = OwnTokens(KEYS, URL, 3600.0, PROVIDERS, bench.wall, ALL)
    both = BearerIdentity([bench.issuer, own], bench.wall, bench.count)

    async def refused(token: str) -> str:
        with pytest.raises(BadToken) as caught:
            await both.identify(bearing(token))
        return caught.value.reason.value

    assert await refused(bench.good.sign(claims())) == "bad_algorithm"
    assert await refused(signer().named("k1").sign(bench.claims())) == "bad_signature"
    same_kind = Gate(keys("RS256"))
    assert await same_kind.refused(bench.good.sign(claims())) == "unknown_key"
    assert await same_kind.refused(bench.good.named(keys("RS256")[0].kid).sign(claims())) == "bad_signature"
    # and whoever is asked about the other's token knows that it is not theirs
    with pytest.raises(BadToken, match="issuer is not known"):
        await bench.issuer.verify(parse(signer("RS256").sign(claims())))
    with pytest.raises(BadToken, match="issuer is not known"):
        await Gate(keys("RS256")).own.verify(parse(bench.token()))


def test_a_provider_with_the_url_of_the_gateway_is_a_mistake(bench: Bench) -> None:
    own = OwnTokens(KEYS, bench.settings.issuer, 3600.0, PROVIDERS, bench.wall, ALL)
    with pytest.raises(ValueError, match="two providers have the issuer"):
        BearerIdentity([OidcBearer(bench.settings, bench.keys, bench.wall), own], bench.wall, bench.count)


def test_ids_of_tokens_do_not_come_again() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000
    assert len(new_id()) >= 22


def test_a_token_is_not_printed() -> None:
    minted = Gate().own.mint(ALICE)
    assert minted.text not in repr(minted)


def test_people_log_in_at_directories_and_where_a_browser_may() -> None:
    tls = ServerTls("tls.crt", "tls.key")  # type: ignore[arg-type]
    corp = OidcIssuer("corp", "https://idp.test", ("gw",), login=Login("gateway"))
    machines = OidcIssuer("machines", "https://m2m.test", ("gw",))
    office = Ldap("office", ("ldaps://ldap.test",), LdapUsers())
    settings = Settings(Listen(tls), "policies", (), (corp, machines), (office,))  # type: ignore[arg-type]
    assert logins(settings) == PROVIDERS


@pytest.mark.parametrize("name", ["", "a\nb", "x\x00", "a\u0085b", "x\u2028y", "x\u2029y", "\ud83d", "a" * 513])
def test_a_name_with_a_line_end_or_half_a_character_is_none(name: str) -> None:
    """It stands in header fields, log lines and JSON."""
    assert not plain(name)
    with pytest.raises(NotMinted):
        Gate().own.mint(replace(ALICE, subject=name))

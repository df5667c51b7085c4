"""What is remembered of verified tokens, for how long; and that any text at all is either a caller or a 401."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Principal
from gateway.drive import Drive
from gateway.errors import Unidentified
from gateway.fetch import Fetch
from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwt import parse
from gateway.identity.tokens.identity import BearerIdentity
from tests.identity.conftest import EPOCH, Bench, Start, bearing, call_with, until
from tests.identity.provider import Provider
from tests.identity.signers import b64, ec_signer, part, rsa_signer


async def test_a_token_is_verified_once_and_then_remembered(bench: Bench) -> None:
    token = bench.token()
    first = await bench.identify(token)
    assert await bench.identify(token) is first
    assert bench.counts == {("corp", "ok"): 1, ("corp", "cached"): 1}


async def test_nothing_is_remembered_beyond_its_expiry_and_leeway(bench: Bench) -> None:
    token = bench.token(exp=EPOCH + 100)
    await bench.identify(token)
    bench.wall.at = EPOCH + 159.9
    await bench.identify(token)
    assert bench.counts["corp", "cached"] == 1
    bench.wall.at = EPOCH + 160
    assert await bench.refused(token) == "expired"
    assert bench.counts["corp", "expired"] == 1


async def test_a_remembered_token_vouches_for_no_other(bench: Bench) -> None:
    """The same claims under a broken signature, and the token under another spelling of the field."""
    token = bench.token()
    await bench.identify(token)
    assert await bench.refused(token[:-8] + "AAAAAAAA") in {"bad_signature", "malformed"}
    with pytest.raises(BadToken):
        await bench.identity.identify(call_with((b"authorization", f"Bearer {token} x".encode())))


async def test_what_is_remembered_is_bounded_and_the_oldest_goes_first(bench: Bench) -> None:
    bench.rebuild(remembered=3)
    await bench.keys.refresh()
    tokens = [bench.token(jti=n) for n in range(4)]
    for token in (*tokens, *tokens[1:], tokens[0]):
        await bench.identify(token)
    assert bench.counts == {("corp", "ok"): 5, ("corp", "cached"): 3}


async def test_callers_in_very_many_groups_do_not_fill_the_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.tokens.identity.NAMES_LIMIT", 250)
    tokens = [bench.token(jti=n, groups=[f"g{m}" for m in range(100)]) for n in range(3)]
    for token in (*tokens, tokens[2], tokens[1], tokens[0]):
        await bench.identify(token)
    assert bench.counts == {("corp", "ok"): 4, ("corp", "cached"): 2}


async def test_tokens_that_are_verified_anew_are_remembered_as_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten gives its room back."""
    monkeypatch.setattr("gateway.identity.tokens.identity.NAMES_LIMIT", 250)
    token = bench.token(groups=[f"g{n}" for n in range(100)])
    for turn in range(5):
        bench.provider.keys = [bench.good.jwk(), rsa_signer("k2").jwk(kid=f"k{turn}")]
        await bench.keys.refresh()
        await bench.identify(token)
        await bench.identify(token)
    assert bench.counts == {("corp", "ok"): 5, ("corp", "cached"): 5}


async def test_calls_that_verify_the_same_token_at_once_do_not_push_each_other_out(bench: Bench, start: Start) -> None:
    bench.rebuild(remembered=1)
    token = bench.token()
    waiting = [asyncio.create_task(bench.identify(token)) for _ in range(5)]
    await asyncio.sleep(0)
    await bench.keys.refresh()
    await asyncio.gather(*waiting)
    await bench.identify(token)
    assert bench.counts == {("corp", "ok"): 5, ("corp", "cached"): 1}


@pytest.mark.parametrize(
    ("claims", "provider", "result"),
    [
        ({}, "corp", Result.OK),
        ({"exp": 1}, "corp", Result.EXPIRED),
        ({"nbf": EPOCH + 999}, "corp", Result.NOT_YET_VALID),
        ({"aud": "x"}, "corp", Result.BAD_AUDIENCE),
        ({"sub": 1}, "corp", Result.BAD_CLAIMS),
        ({"cnf": {}}, "corp", Result.BAD_CLAIMS),
        ({"cnf": {"kid": "x"}}, "corp", Result.WRONG_KIND),
        ({"cnf": {"jkt": "0" * 43}}, "corp", Result.NO_PROOF),
        ({"iss": "https://evil.test"}, "unknown", Result.BAD_ISSUER),
        ({"iss": ...}, "unknown", Result.BAD_ISSUER),
    ],
)
async def test_each_credential_is_counted_once_under_a_closed_list(
    bench: Bench, claims: dict[str, Any], provider: str, result: Result
) -> None:
    """Nothing that a caller invents becomes a label: not the issuer that a token claims either."""
    if result is Result.OK:
        await bench.identify(bench.token(**claims))
    else:
        await bench.refused(bench.token(**claims))
    assert bench.counts == {(provider, result.value): 1}


async def test_operators_are_told_which_issuer_is_not_known_and_the_caller_is_not(bench: Bench) -> None:
    """Most often a final slash too many, or a tenant that nobody has configured."""
    with pytest.raises(BadToken) as caught:
        await bench.identity.identify(bearing(bench.token(iss="https://evil.test/")))
    assert caught.value.detail == "bad_issuer issuer=https://evil.test/"
    assert "evil" not in f"{caught.value.message} {caught.value.headers!r}"


async def test_two_issuers_are_told_apart_by_what_the_token_claims(bench: Bench, cold: Bench) -> None:
    """A token of one provider under the keys of the other is worth nothing."""
    cold.provider.keys = [ec_signer("e").jwk()]
    cold.rebuild(name="partner")
    await cold.keys.refresh()
    both = BearerIdentity([bench.issuer, cold.issuer], bench.wall, bench.count)
    bench.identity = both
    assert (await bench.identify(bench.token())).provider == "corp"
    assert (await bench.identify(cold.token(ec_signer("e")))).provider == "partner"
    with pytest.raises(BadToken, match="signature"):
        await both.identify(bearing(ec_signer("e").named("k1").sign(bench.claims())))
    with pytest.raises(ValueError, match="have the issuer"):
        BearerIdentity([bench.issuer, bench.issuer], bench.wall, bench.count)


async def test_the_path_of_a_call_can_be_stepped_by_hand_also_through_a_wait_for_keys(
    bench: Bench, start: Start
) -> None:
    """The pipeline is no task: nothing on the way may ask for one."""
    new = rsa_signer("k2")
    bench.provider.keys.append(new.jwk())
    seen: list[Principal | None] = []

    async def path(token: str) -> None:
        seen.append(await bench.identity.identify(bearing(token)))

    async def step_from_a_callback() -> Drive:
        drive = Drive(path(bench.token(new)))
        asyncio.get_running_loop().call_soon(drive.step)
        await until(lambda: drive.done or len(bench.keys._waiting) == 1)
        return drive

    waiting, leaving = [await step_from_a_callback(), Drive(path(bench.token(new, jti="x")))]
    leaving.step()
    with pytest.raises(RuntimeError, match="left"):
        leaving.stop(RuntimeError("the caller left"))
    start(bench.keys.run())
    await until(lambda: waiting.done)
    assert [one.subject for one in seen if one] == ["alice"]


async def test_a_token_leaves_no_trace_in_what_is_printed_or_remembered(bench: Bench) -> None:
    token = bench.token()
    await bench.identify(token)
    assert token not in repr(parse(token))
    assert "alice" not in repr(parse(token))
    remembered = repr([getattr(bench.identity, name) for name in dir(bench.identity)])
    assert token not in remembered
    assert token.split(".")[2] not in remembered


# Properties. The steps are taken by hand: with known keys nothing on the way waits.


@pytest.fixture(scope="module")
def known() -> Bench:
    """A bench whose keys are there, outside of any event loop."""

    async def make() -> Bench:
        async with Provider(rsa_signer("k1").jwk()) as provider, Fetch() as fetch:
            bench = Bench(provider, fetch)
            await bench.keys.refresh()
            return bench

    return asyncio.run(make())


def outcome(bench: Bench, value: bytes) -> Principal | type[Unidentified] | None:
    """Step the path once. Anything but these three outcomes comes out as an error of the test."""
    try:
        bench.identity.identify(call_with((b"authorization", value))).send(None)
    except StopIteration as done:
        found: Principal | None = done.value
        return found
    except Unidentified:
        return Unidentified
    raise AssertionError("it waits")


@given(raw=st.binary(max_size=300))
def test_random_bytes_are_never_a_caller_and_never_a_fault(known: Bench, raw: bytes) -> None:
    assert outcome(known, b"Bearer " + raw) is Unidentified
    assert outcome(known, raw) in {None, Unidentified}


parts = st.text(alphabet="ABab01-_=", max_size=12) | st.binary(max_size=40).map(b64)


@given(st.lists(parts, max_size=6))
def test_random_parts_are_never_a_caller_and_never_a_fault(known: Bench, pieces: list[str]) -> None:
    assert outcome(known, b"Bearer " + ".".join(pieces).encode()) is Unidentified


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
header_names = st.sampled_from(["alg", "typ", "crit", "b64", "cty", "jwk", "x5c", "zip", "enc"])
claim_names = st.sampled_from(
    ["aud", "exp", "nbf", "iat", "sub", "groups", "scope", "typ", "events", "cnf", "hasgroups", "_claim_names",
     "client_id", "token_use", "azp", "scp", "iss"]
)  # fmt: skip


odd_headers = st.dictionaries(header_names, json_values, max_size=2)
odd_claims = st.dictionaries(claim_names, json_values, max_size=3)


@given(header=odd_headers, claims=odd_claims)
def test_whatever_a_trusted_provider_signs_is_a_sound_principal_or_refused(
    known: Bench, header: dict[str, Any], claims: dict[str, Any]
) -> None:
    """Signed by the right key, with odd values in the places that are read: no fault, and no odd value gets through."""
    signer = known.good
    head = {"alg": "RS256", "kid": "k1"} | header
    found = outcome(known, b"Bearer " + signer.sign_raw(part(head), part(known.claims(**claims))).encode())
    if isinstance(found, Principal):
        assert found.subject
        assert {type(one) for one in (found.subject, *found.groups, *found.scopes)} == {str}
        assert "" not in found.groups | found.scopes
        assert type(found.client) in {str, type(None)}
        assert EPOCH - 60 < found.expires < 2**53
        assert head["alg"] == "RS256"
        assert "crit" not in header
        assert "b64" not in header
        assert not {"events", "cnf"} & claims.keys()
    else:
        assert found is Unidentified


offsets = st.integers(-200, 200)


@given(at=st.floats(min_value=EPOCH - 200, max_value=EPOCH + 200), exp=offsets, nbf=offsets)
def test_a_token_holds_from_nbf_to_exp_with_leeway_on_both_sides(known: Bench, at: float, exp: int, nbf: int) -> None:
    known.wall.at = at
    token = known.token(exp=EPOCH + exp, nbf=EPOCH + nbf, iat=..., jti=repr((at, exp, nbf)))
    holds = at < EPOCH + exp + 60 and at >= EPOCH + nbf - 60
    assert isinstance(outcome(known, f"Bearer {token}".encode()), Principal) is holds
    known.wall.at = EPOCH

"""Tokens that are worth something only with a proof: one for each call, or the certificate of the connection."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Call, Channel, ClientCertificate, Principal
from gateway.errors import IdentityUnavailable
from gateway.identity.refused import BadProof, BadToken
from gateway.identity.tokens.dpop import Proofs, Seen
from gateway.identity.tokens.identity import BearerIdentity
from gateway.identity.tokens.possession import Possession
from tests.identity.conftest import CONFIGURED, EPOCH, GATEWAY, Bench, challenge
from tests.identity.proofs import FORGED, GOOD, HOST, KEYS, PATH, Prover, thumb
from tests.identity.signers import b64, ec_signer

Field = tuple[bytes, bytes]


def call_of(*fields: Field, der: bytes | None = None, method: str = "POST", host: str = HOST, path: str = PATH) -> Call:
    certificate = None if der is None else ClientCertificate(der)
    given = ((b"host", host.encode()), *fields)
    return Call("1", Channel.HTTP, method, path, "beam=1", given, "127.0.0.1", 0.0, certificate)


def shown(token: str, *proofs: str, scheme: str = "DPoP", der: bytes | None = None, **more: str) -> Call:
    fields = [(b"authorization", f"{scheme} {token}".encode())]
    return call_of(*fields, *((b"dpop", proof.encode("latin-1", "replace")) for proof in proofs), der=der, **more)


@pytest.fixture
def prover(bench: Bench) -> Prover:
    """A client whose token is bound to its key."""
    return prover_of(bench)


def prover_of(bench: Bench, alg: str = "ES256", **claims: object) -> Prover:
    signer = KEYS[alg]
    return Prover(signer, bench.token(cnf={"jkt": thumb(signer)}, **claims), bench.wall.at)


async def who(bench: Bench, call: Call) -> Principal:
    principal = bench.identity.recall(call) or await bench.identity.identify(call)
    assert principal is not None
    return principal


async def refusal(bench: Bench, call: Call) -> BadToken:
    with pytest.raises(BadToken) as caught:
        await who(bench, call)
    assert caught.value.status == 401
    return caught.value


def test_there_are_enough_forged_proofs() -> None:
    assert len(FORGED) >= 40


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_proof_is_refused(bench: Bench, prover: Prover, name: str) -> None:
    """B080: also when the token itself was verified a moment ago."""
    for _ in range(2):
        refused = await refusal(bench, shown(prover.token, FORGED[name](prover)))
        told = challenge(refused.headers)
        assert isinstance(refused, BadProof)
        assert re.search(rb'^DPoP realm="nim-gateway", error="(invalid_dpop_proof|invalid_token)"', told)
        assert b'algs="RS256 ' in told
        assert refused.detail in {"bad_proof", "no_proof"}
        await who(bench, shown(prover.token, prover.proof()))
    assert bench.counts["corp", "ok"] + bench.counts["corp", "cached"] == 2


@pytest.mark.parametrize("name", GOOD)
async def test_a_good_proof_holds_however_it_is_put(bench: Bench, prover: Prover, name: str) -> None:
    assert (await who(bench, shown(prover.token, GOOD[name](prover)))).subject == "alice"


@pytest.mark.parametrize("alg", KEYS)
async def test_a_client_may_have_a_key_of_any_kind_that_providers_may(bench: Bench, alg: str) -> None:
    prover = prover_of(bench, alg)
    assert (await who(bench, shown(prover.token, prover.proof()))).subject == "alice"
    assert "signature" in (await refusal(bench, shown(prover.token, _spoilt(prover.proof())))).message


def _spoilt(proof: str) -> str:
    head, body, signature = proof.split(".")
    return f"{head}.{body}.{signature[:20]}{'A' if signature[20] != 'A' else 'B'}{signature[21:]}"


async def test_a_proof_is_used_once(bench: Bench, prover: Prover) -> None:
    """Whether it comes again as it was, for another token of the same key, or as the same head on the connection."""
    proof = prover.proof(jti="once")
    call = shown(prover.token, proof)
    await who(bench, call)
    assert "used before" in (await refusal(bench, call)).message
    assert "used before" in (await refusal(bench, call.again("2", 0.0))).message
    assert "used before" in (await refusal(bench, shown(prover.token, prover.proof(jti="once", iat=EPOCH + 1)))).message
    other = prover_of(bench, "EdDSA")
    assert (await who(bench, shown(other.token, other.proof(jti="once")))).subject == "alice"


async def test_a_proof_is_used_once_across_a_reload(bench: Bench, prover: Prover) -> None:
    seen = Seen(bench.steady)
    proof = prover.proof()
    for turn in range(2):
        possession = Possession(Proofs(seen, bench.wall, GATEWAY))
        bench.identity = BearerIdentity([bench.issuer], bench.wall, bench.count, possession=possession)
        if turn == 0:
            await who(bench, shown(prover.token, proof))
    assert "used before" in (await refusal(bench, shown(prover.token, proof))).message


async def test_what_was_used_is_remembered_for_as_long_as_it_holds_and_no_longer(bench: Bench) -> None:
    seen = Seen(bench.steady)
    assert seen.use("key", "a")
    bench.steady.at += 124
    assert not seen.use("key", "a")
    bench.steady.at += 1
    assert seen.use("key", "b")
    assert len(seen) == 1


async def test_a_proof_is_refused_for_later_rather_than_forgotten_early(bench: Bench, prover: Prover) -> None:
    possession = Possession(Proofs(Seen(bench.steady, limit=2), bench.wall, GATEWAY))
    bench.identity = BearerIdentity([bench.issuer], bench.wall, bench.count, possession=possession)
    proofs = [prover.proof() for _ in range(3)]
    for proof in proofs[:2]:
        await who(bench, shown(prover.token, proof))
    with pytest.raises(IdentityUnavailable) as caught:
        await who(bench, shown(prover.token, proofs[2]))
    assert caught.value.status == 503
    assert "used before" in (await refusal(bench, shown(prover.token, proofs[0]))).message
    assert bench.counts["corp", "unavailable"] == 1


async def test_a_forged_proof_takes_no_room(bench: Bench, prover: Prover) -> None:
    """Else a stranger with somebody's token could keep its owner out."""
    seen = Seen(bench.steady)
    possession = Possession(Proofs(seen, bench.wall, GATEWAY))
    bench.identity = BearerIdentity([bench.issuer], bench.wall, bench.count, possession=possession)
    for forge in FORGED.values():
        await refusal(bench, shown(prover.token, forge(prover)))
    assert len(seen) == 0


@pytest.mark.parametrize("proofs", [0, 2])
async def test_there_is_exactly_one_proof(bench: Bench, prover: Prover, proofs: int) -> None:
    """RFC 9449 section 4.3: not more than one DPoP field."""
    refused = await refusal(bench, shown(prover.token, *(prover.proof() for _ in range(proofs))))
    assert b'error="invalid_dpop_proof"' in challenge(refused.headers)
    assert refused.detail == ("bad_proof" if proofs else "no_proof")


@pytest.mark.parametrize("with_proof", [False, True])
async def test_a_token_bound_to_a_key_is_no_bearer_token(bench: Bench, prover: Prover, with_proof: bool) -> None:
    """RFC 9449 section 7.2: and both schemes are named in the answer."""
    proofs = [prover.proof()] if with_proof else []
    refused = await refusal(bench, shown(prover.token, *proofs, scheme="Bearer"))
    names = [value.split()[0] for name, value in refused.headers if name == b"www-authenticate"]
    assert names == [b"Bearer", b"DPoP"]
    assert refused.detail == "no_proof"


async def test_a_bearer_token_is_not_taken_as_if_it_were_bound(bench: Bench) -> None:
    token = bench.token()
    proof = Prover(KEYS["ES256"], token, EPOCH).proof()
    for _ in range(2):
        refused = await refusal(bench, shown(token, proof))
        assert refused.detail == "wrong_kind"
        assert challenge(refused.headers).startswith(b'DPoP realm="nim-gateway", error="invalid_token"')
    assert (await who(bench, shown(token, scheme="Bearer"))).subject == "alice"


async def test_a_token_that_does_not_hold_is_told_so_in_its_own_scheme(bench: Bench) -> None:
    late = prover_of(bench, exp=EPOCH - 61)
    refused = await refusal(bench, shown(late.token, late.proof()))
    assert refused.detail == "expired"
    assert challenge(refused.headers).startswith(b'DPoP realm="nim-gateway", error="invalid_token"')
    assert b"Bearer" not in challenge(refused.headers)


async def test_the_scheme_is_read_in_any_case(bench: Bench, prover: Prover) -> None:
    for scheme in ("dpop", "DPOP", "DPoP "):
        assert (await who(bench, shown(prover.token, prover.proof(), scheme=scheme))).subject == "alice"


async def test_a_proof_is_for_the_url_that_callers_know_the_gateway_by(bench: Bench, prover: Prover) -> None:
    """Where `public_url` is set, it counts whatever `Host` a proxy makes of it; beside it names of the certificate."""
    possession = Possession(Proofs(Seen(bench.steady), bench.wall, CONFIGURED))
    bench.identity = BearerIdentity([bench.issuer], bench.wall, bench.count, possession=possession)
    for host in ("elsewhere.test", "ai.example.com", "evil.example:8443"):
        await refusal(bench, shown(prover.token, prover.proof(htu=f"https://{host}{PATH}"), host=host))
    for host in (HOST, "10.0.0.1:8443"):
        named = prover.proof(htu=f"https://{host}{PATH}")
        assert (await who(bench, shown(prover.token, named, host=host))).subject == "alice"
    for host in (HOST, "ai.example.com", "elsewhere.test"):
        good = prover.proof(htu=f"https://ai.example.com/gw{PATH}")
        assert (await who(bench, shown(prover.token, good, host=host))).subject == "alice"


@pytest.mark.parametrize(
    "host",
    ["gw.test:8443", "GW.Test", "one.pool.test", "[2001:db8::1]", "[2001:DB8:0::1]:8443", "10.0.0.1"],
)
async def test_a_proof_names_the_place_as_the_caller_knows_it(bench: Bench, prover: Prover, host: str) -> None:
    proof = prover.proof(htu=f"https://{host}{PATH}")
    assert (await who(bench, shown(prover.token, proof, host=host))).subject == "alice"
    elsewhere = prover.proof(htu="https://10.0.0.1:444" + PATH)
    await refusal(bench, shown(prover.token, elsewhere, host=host))


@pytest.mark.parametrize(
    "host",
    [
        "evil.test", "evil.test:443", "gw.test.evil.test", "evilgw.test", "a.gw.test", "pool.test", ".pool.test",
        "a.b.pool.test", "*.pool.test", "10.0.0.2", "[2001:db8::2]", "[10.0.0.1]", "gw.test@evil.test", "gw.test:x",
        "gw.test:99999", "gw.test.", "[", "",
    ],
)  # fmt: skip
async def test_a_proof_for_another_server_does_not_hold_because_the_call_claims_to_be_for_that_one(
    bench: Bench, prover: Prover, host: str
) -> None:
    """RFC 9449 section 11.1: who takes a token and a proof meant for their own server chooses `Host` as they like."""
    refused = await refusal(bench, shown(prover.token, prover.proof(htu=f"https://{host}{PATH}"), host=host))
    assert refused.detail == "bad_proof"


@pytest.mark.parametrize("host", ["gw.test/x", "gw.test?", "gw.test#", "u@gw.test"])
async def test_an_odd_host_moves_no_call_elsewhere(bench: Bench, prover: Prover, host: str) -> None:
    for htu in (f"https://{host}{PATH}", f"https://{host}", f"https://{HOST}/x{PATH}", f"https://{HOST}/"):
        await refusal(bench, shown(prover.token, prover.proof(htu=htu), host=host))


async def test_a_url_without_a_path_names_the_root(bench: Bench, prover: Prover) -> None:
    for htu in (f"https://{HOST}", f"https://{HOST}/"):
        assert (await who(bench, shown(prover.token, prover.proof(htu=htu), path="/"))).subject == "alice"


async def test_a_call_without_a_host_matches_no_proof(bench: Bench, prover: Prover) -> None:
    for htu in (f"https://{PATH}", f"https:///{PATH}", "https://"):
        await refusal(bench, shown(prover.token, prover.proof(htu=htu), host=""))


# Certificates.

CERTIFICATE = b"any bytes will do: nobody reads them here"


def bound_to(bench: Bench, der: bytes, **more: object) -> str:
    return bench.token(cnf={"x5t#S256": ClientCertificate(der).thumbprint, **more})


async def test_a_token_bound_to_a_certificate_holds_on_connections_with_it_alone(bench: Bench) -> None:
    """B080, and again once it is remembered, by its head or its digest."""
    token = bound_to(bench, CERTIFICATE)
    call = shown(token, scheme="Bearer", der=CERTIFICATE)
    for _ in range(2):
        assert (await refusal(bench, shown(token, scheme="Bearer"))).detail == "no_proof"
        assert (await refusal(bench, shown(token, scheme="Bearer", der=b"another"))).detail == "bad_proof"
        assert (await who(bench, call)).subject == "alice"
    assert bench.counts == {("corp", "no_proof"): 2, ("corp", "bad_proof"): 2, ("corp", "cached"): 2}


async def test_a_token_bound_to_both_needs_both(bench: Bench) -> None:
    signer = KEYS["ES256"]
    token = bound_to(bench, CERTIFICATE, jkt=thumb(signer))
    prover = Prover(signer, token, EPOCH)
    assert (await refusal(bench, shown(token, prover.proof()))).detail == "no_proof"
    assert (await refusal(bench, shown(token, scheme="Bearer", der=CERTIFICATE))).detail == "no_proof"
    assert (await refusal(bench, shown(token, _spoilt(prover.proof()), der=CERTIFICATE))).detail == "bad_proof"
    assert (await who(bench, shown(token, prover.proof(), der=CERTIFICATE))).subject == "alice"


async def test_a_binding_that_is_not_known_is_refused_beside_one_that_holds(bench: Bench) -> None:
    for odd in ({"kid": "k"}, {"kid": "0" * 43}, {"x5t": "0" * 27}, {"jku": "https://evil.test"}, {"jkt": ""}):
        token = bound_to(bench, CERTIFICATE, **odd)
        assert (await refusal(bench, shown(token, scheme="Bearer", der=CERTIFICATE))).detail in {
            "wrong_kind",
            "bad_claims",
        }


async def test_a_certificate_in_a_field_is_none(bench: Bench) -> None:
    """B113."""
    token = bound_to(bench, CERTIFICATE)
    fields = [
        (b"authorization", f"Bearer {token}".encode()),
        (b"client-cert", b":" + b64(CERTIFICATE).encode() + b":"),
        (b"x-forwarded-client-cert", b"Hash=" + ClientCertificate(CERTIFICATE).thumbprint.encode()),
        (b"x-ssl-client-verify", b"SUCCESS"),
    ]
    assert (await refusal(bench, call_of(*fields))).detail == "no_proof"


# Properties.

bits = st.text(st.sampled_from('abAB01-_=. \t\x00\xe9,{}"'), max_size=30) | st.binary(max_size=30).map(b64)


@pytest.fixture(scope="module")
def proofs() -> Proofs:
    return Proofs(Seen(lambda: 0.0), lambda: EPOCH, GATEWAY)


@given(st.lists(bits, max_size=5))
def test_no_text_is_a_proof_nor_a_fault(proofs: Proofs, pieces: list[str]) -> None:
    call = shown("t", ".".join(pieces))
    with pytest.raises(BadProof):
        proofs.check(call, "t", "0" * 43)


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
headers = st.dictionaries(st.sampled_from(["typ", "alg", "jwk", "crit", "b64", "kid", "x"]), odd, max_size=2)
claims = st.dictionaries(st.sampled_from(["jti", "htm", "htu", "iat", "ath", "exp"]), odd, max_size=2)
members = st.dictionaries(
    st.sampled_from(["kty", "crv", "x", "y", "d", "use", "alg", "key_ops", "kid"]), odd, max_size=2
)


@given(header=headers, said=claims, jwk=members)
def test_what_a_client_signs_is_a_good_proof_or_refused(header: object, said: object, jwk: object) -> None:
    """Odd values in the places that are read, under a signature that holds: no fault, and none of them gets through."""
    assert isinstance(header, dict)
    assert isinstance(said, dict)
    assert isinstance(jwk, dict)
    prover = Prover(ec_signer("odd"), "t", EPOCH)
    head = prover.header()
    head["jwk"] |= jwk
    text = prover.signer.sign_raw(_dumped(head | header), _dumped(prover.claims() | said))
    try:
        Proofs(Seen(lambda: 0.0), lambda: EPOCH, GATEWAY).check(shown("t", text), "t", thumb(prover.signer))
    except BadProof:
        return
    assert not {"typ", "alg", "jwk", "crit", "b64", "htm", "htu", "ath"} & {*header, *said}
    assert not {"kty", "crv", "x", "y", "d", "key_ops"} & jwk.keys()
    assert isinstance(said.get("jti", "x"), str)


def _dumped(value: object) -> str:
    return b64(json.dumps(value).encode("utf-8", "surrogatepass"))


@given(late=st.floats(-200, 200))
def test_a_proof_holds_within_a_minute_of_its_time_on_both_sides(late: float) -> None:
    prover = Prover(ec_signer("odd"), "t", EPOCH)
    proofs = Proofs(Seen(lambda: 0.0), lambda: EPOCH + late, GATEWAY)
    try:
        proofs.check(shown("t", prover.proof()), "t", thumb(prover.signer))
    except BadProof:
        assert abs(late) > 60
    else:
        assert abs(late) <= 60

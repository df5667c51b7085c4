"""Key sets as providers publish them, with the strange ones among them: a strange key never spoils the others."""

from __future__ import annotations

import logging
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import JWKRegistry

from gateway.identity.signatures.jwk import decode_base64url, signing_key, signing_keys, thumbprint
from gateway.settings import ALGORITHMS
from tests.identity.conftest import Bench
from tests.identity.signers import Json, Signer, b64, ec_signer, ed_signer, number, rsa_signer

GOOD = rsa_signer("k1")


@cache
def weak(bits: int) -> Signer:
    """`cryptography` makes no key below 1024 bits, and an attacker needs none: the modulus is what counts."""
    return Signer("weak", "RS256", rsa.generate_private_key(65537, bits))


def private(signer: Signer) -> Json:
    numbers = signer.private.private_numbers()
    return signer.jwk() | {"d": number(numbers.d), "p": number(numbers.p), "q": number(numbers.q)}


@cache
def bitcoin() -> Signer:
    return Signer("k256", "ES256", ec.generate_private_key(ec.SECP256K1()))


BAD = rsa_signer("bad")
#: What is published beside the good key, by the reason that the log gives.
STRANGE: dict[str, tuple[object, str]] = {
    "for encryption": (BAD.jwk(use="enc", alg="RSA-OAEP"), "use is not sig"),
    "for encryption, signing alg": (BAD.jwk(use="enc"), "use is not sig"),
    "use odd": (BAD.jwk(use=["sig"]), "use is not sig"),
    "key_ops without verify": (BAD.jwk(use=..., key_ops=["sign"]), "key_ops"),
    "key_ops odd": (BAD.jwk(key_ops="verify"), "key_ops"),
    "post-quantum": ({"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA", "kid": "bad"}, "kty"),
    "secret": ({"kty": "oct", "k": "AAAA", "kid": "bad", "alg": "HS256"}, "kty"),
    "no kty": (BAD.jwk(kty=...), "kty"),
    "kty a list": (BAD.jwk(kty=["RSA"]), "kty"),
    "null": (None, "not an object"),
    "a string": ("key", "not an object"),
    "empty": ({}, "kty"),
    "curve of Bitcoin": (bitcoin().jwk(kid="bad"), "curve"),
    "RSA 1024": (weak(1024).jwk(kid="bad"), "bits"),
    "RSA 512": (BAD.jwk(n=b64(b"\xff" * 64)), "bits"),
    "RSA 16384": (BAD.jwk(n=b64(b"\xff" * 2048)), "bits"),
    "RSA with an even exponent": (BAD.jwk(e="Ag"), "numbers"),
    "RSA with a huge exponent": (BAD.jwk(e=BAD.jwk()["n"]), "numbers"),
    "RSA with exponent 1": (BAD.jwk(e="AQ"), "numbers"),
    "private": (private(BAD), "private key"),
    "x5c only": (BAD.jwk(n=..., e=..., x5c=["MIIB"]), "no n"),
    "n a number": (BAD.jwk(n=5), "no n"),
    "n not base64url": (BAD.jwk(n="A+/="), "numbers"),
    "alg of encryption": (BAD.jwk(alg="RSA-OAEP"), "alg"),
    "alg of another type": (BAD.jwk(alg="ES256"), "alg"),
    "alg HS256": (BAD.jwk(alg="HS256"), "alg"),
    "alg odd": (BAD.jwk(alg=["RS256"]), "alg"),
    "kid a number": (BAD.jwk(kid=5), "kid"),
    "point off the curve": (ec_signer("bad").jwk(y=ec_signer("bad").jwk()["x"]), "numbers"),
    "point too long": (ec_signer("bad").jwk(crv="P-256", x=b64(b"\1" * 40)), "too long"),
    "Ed448": ({"kty": "OKP", "crv": "Ed448", "x": b64(bytes(57)), "kid": "bad"}, "Ed25519"),
    "X25519": ({"kty": "OKP", "crv": "X25519", "x": b64(bytes(32)), "kid": "bad"}, "Ed25519"),
    "Ed25519 too short": (ed_signer("bad").jwk(x="AAAA"), "32 bytes"),
}


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_key_is_left_out_with_one_warning_and_spoils_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """B071."""
    strange, reason = STRANGE[name]
    bench.provider.keys = [strange, GOOD.jwk()]
    for _ in range(3):
        await bench.keys.refresh()
    assert (await bench.identify(bench.token())).subject == "alice"
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert reason in warnings[0]
    assert not bench.keys.candidates("bad", "RS256")


async def test_all_strange_keys_together_leave_the_good_one(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.provider.keys = [*(entry for entry, _ in STRANGE.values()), GOOD.jwk()]
    await bench.keys.refresh()
    assert (await bench.identify(bench.token())).subject == "alice"
    assert len(caplog.records) == len(STRANGE)


@pytest.mark.parametrize("signer", [weak(1024), bitcoin()])
async def test_a_signature_of_a_key_that_was_left_out_is_worth_nothing(bench: Bench, signer: Signer) -> None:
    bench.provider.keys = [signer.jwk(), GOOD.jwk()]
    await bench.keys.refresh()
    bench.keys.news()
    await bench.keys.refresh()
    assert await bench.refused(bench.token(signer)) == "unknown_key"


@pytest.mark.parametrize(
    "entry", [GOOD.jwk(use="enc"), private(GOOD), GOOD.jwk(key_ops=["sign"])], ids=["enc", "private", "ops"]
)
async def test_a_key_for_other_purposes_signs_no_token(bench: Bench, entry: Json) -> None:
    bench.provider.keys = [entry, rsa_signer("k2").jwk()]
    await bench.keys.refresh()
    bench.keys.news()
    await bench.keys.refresh()
    assert await bench.refused(bench.token()) == "unknown_key"


def _x5(signer: Signer, **more: object) -> Json:
    return signer.jwk(**({"x5c": ["MIIC"], "x5t": "abc", "x5t#S256": "def"} | more))


PUBLISHED: dict[str, list[object]] = {
    "Keycloak": [_x5(GOOD), _x5(rsa_signer("enc"), use="enc", alg="RSA-OAEP")],
    "Entra": [_x5(rsa_signer("other"), alg=..., issuer="https://login.test"), _x5(GOOD, alg=..., issuer="x")],
    "Google": [rsa_signer("g1").jwk(), GOOD.jwk()],
    "no kid": [GOOD.jwk(kid=...)],
    "no kid, no alg, no use": [GOOD.jwk(kid=..., alg=..., use=...)],
    "kid null": [GOOD.jwk(kid=None)],
    "same kid, second fits": [rsa_signer("x").named("k1").jwk(), GOOD.jwk()],
    "same kid, other type first": [ec_signer("x").named("k1").jwk(), GOOD.jwk()],
    "mixed": [
        ec_signer("e").jwk(), ed_signer("d").jwk(), {"kty": "AKP", "alg": "ML-DSA-65"}, {"kty": "oct"}, None, {},
        GOOD.jwk(),
    ],
    "key_ops instead of use": [GOOD.jwk(use=..., key_ops=["verify"])],
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
async def test_sets_as_providers_publish_them_serve_tokens_with_and_without_kid(bench: Bench, name: str) -> None:
    """B071: all keys of one kid are tried, and without a kid all that fit the algorithm."""
    bench.provider.keys = PUBLISHED[name]
    await bench.keys.refresh()
    assert (await bench.identify(bench.token())).subject == "alice"
    assert (await bench.identify(GOOD.sign(bench.claims(), kid=...))).subject == "alice"


async def test_an_ed25519_key_may_carry_its_newer_algorithm_name(bench: Bench) -> None:
    bench.provider.keys = [ed_signer("d").jwk(alg="Ed25519")]
    await bench.keys.refresh()
    assert (await bench.identify(bench.token(ed_signer("d")))).subject == "alice"


async def test_only_a_bounded_number_of_keys_is_tried(bench: Bench) -> None:
    bench.provider.keys = [ec_signer("x").jwk(kid=f"e{n}") for n in range(20)]
    await bench.keys.refresh()
    assert len(bench.keys.candidates(None, "ES256")) == 8
    bench.provider.keys = [GOOD.jwk(kid=f"r{n}") for n in range(1000)]
    await bench.keys.refresh()
    assert (await bench.identify(bench.token(GOOD.named("r0")))).subject == "alice"
    assert not [key for key in bench.keys.candidates("r999", "RS256") if key.kid == "r999"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
near_keys = st.fixed_dictionaries(
    {},
    optional={
        "kty": st.sampled_from(["RSA", "EC", "OKP", "oct"]) | json_values,
        "crv": st.sampled_from(["P-256", "P-521", "Ed25519"]) | json_values,
        "alg": st.sampled_from(ALGORITHMS) | json_values,
        "use": st.just("sig") | json_values,
        "key_ops": st.just(["verify"]) | json_values,
        **{name: st.binary(max_size=300).map(b64) | json_values for name in ("n", "e", "x", "y", "kid")},
    },
)


@given(st.lists(near_keys | json_values, max_size=5))
def test_no_entry_breaks_the_reading_of_a_set(entries: list[object]) -> None:
    """Whatever stands in it, the good key beside it is found, and each other is either a key or a line in the log."""
    keys, left_out = signing_keys({"keys": [*entries, GOOD.jwk()]}, ALGORITHMS)
    assert keys[-1].kid == "k1"
    assert len(keys) + len(left_out) == len(entries) + 1
    assert all(line.isascii() and "\n" not in line for line in left_out)


@given(json_values)
def test_what_is_no_set_is_said_to_be_none(document: object) -> None:
    if not (isinstance(document, dict) and isinstance(document.get("keys"), list)):
        with pytest.raises(ValueError, match="JSON Web Key Set"):
            signing_keys(document, ALGORITHMS)


@given(st.binary(min_size=1))
def test_base64url_comes_back_as_it_was(raw: bytes) -> None:
    assert decode_base64url(b64(raw)) == raw


@given(st.text(alphabet="AZaz09-_+/= \n", min_size=1))
def test_base64url_has_one_spelling_for_each_value(text: str) -> None:
    """RFC 7515 section 2: what is accepted is exactly what encoding would give."""
    try:
        raw = decode_base64url(text)
    except ValueError:
        return
    assert b64(raw) == text


def test_a_thumbprint_is_that_of_the_rfc() -> None:
    """RFC 7638 section 3.1, RFC 8037 appendix A.3."""
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj"
        "hMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQ"
        "vRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzK"
        "nqDKgw"
    )
    rsa_key = signing_key({"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"}, ALGORITHMS)
    assert thumbprint(rsa_key.public) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    ed_key = signing_key({"kty": "OKP", "crv": "Ed25519", "x": x}, ALGORITHMS)
    assert thumbprint(ed_key.public) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize("alg", ["ES256", "ES384", "ES512"])
def test_a_key_has_one_thumbprint_however_its_numbers_are_written(alg: str) -> None:
    """As another library has it; a point written without its leading zeros is the same point."""
    points = (ec_signer(f"{alg}-{turn}", alg).jwk(kid=..., use=..., alg=...) for turn in range(1000))
    entry = next(one for one in points if decode_base64url(one["x"])[0] == 0)
    short = entry | {"x": b64(decode_base64url(entry["x"]).lstrip(b"\0"))}
    assert JWKRegistry.import_key(entry).thumbprint() == thumbprint(signing_key(entry, ALGORITHMS).public)
    assert thumbprint(signing_key(short, ALGORITHMS).public) == thumbprint(signing_key(entry, ALGORITHMS).public)

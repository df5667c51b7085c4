"""Tokens that each have one thing wrong: none of them gets in. And those that should, do."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.identity.refused import BadToken
from gateway.identity.signatures.jwk import signing_keys
from gateway.identity.signatures.jwt import check_signature, parse
from tests.identity.conftest import Bench, Start, until
from tests.identity.forged import FORGED, GOOD, UNKNOWN_KEY
from tests.identity.signers import Json, ec_signer, ed_signer, rsa_signer


def test_the_collection_is_large_enough() -> None:
    assert len(FORGED) >= 100


@pytest.fixture
async def served(bench: Bench, start: Start) -> Bench:
    """The bench with its background fetching running, which has fetched once more."""
    start(bench.keys.run())
    await until(lambda: bench.fetches == 2)
    return bench


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_token_is_refused_at_once(served: Bench, name: str) -> None:
    """B064, B065, B066, B067, B080."""
    token = FORGED[name](served)
    await served.refused(token)
    assert not any(result in {"ok", "cached"} for _, result in served.counts)


async def test_an_encrypted_token_is_told_so(served: Bench) -> None:
    with pytest.raises(BadToken, match="encrypted"):
        await served.identify("a.b.c.d.e")


def test_a_signature_is_not_tried_with_a_key_of_another_algorithm_whoever_offers_it() -> None:
    """RFC 8725 section 3.1, held where the signature is checked and not only where keys are chosen."""
    signer = rsa_signer("k1")
    token = parse(signer.sign({"iss": "x"}))
    for alg, holds in (("RS256", True), ("RS384", False), ("PS256", False)):
        keys, _ = signing_keys({"keys": [signer.jwk(alg=alg)]}, ALGORITHMS)
        assert check_signature(token, keys) is holds


@pytest.mark.parametrize("name", FORGED)
async def test_only_a_token_that_newer_keys_could_prove_makes_the_gateway_fetch(served: Bench, name: str) -> None:
    """B065: what is malformed, or names a key that is known, is no reason to ask the provider."""
    await served.refused(FORGED[name](served))
    assert served.fetches == (3 if name in UNKNOWN_KEY else 2)


@pytest.mark.parametrize("name", GOOD)
async def test_a_good_token_holds(bench: Bench, name: str) -> None:
    """The other side of the forged ones: the checks let through what they should."""
    principal = await bench.identify(GOOD[name](bench))
    assert principal.subject == "alice"


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


def _signer(alg: str) -> Any:
    if alg.startswith("ES"):
        return ec_signer(alg, alg)
    return ed_signer(alg) if alg == "EdDSA" else rsa_signer("any").using(alg).named(alg)


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("declared", [True, False])
async def test_each_algorithm_verifies_its_own_signatures_and_no_other(bench: Bench, alg: str, declared: bool) -> None:
    signer = _signer(alg)
    jwk: Json = signer.jwk() if declared else signer.jwk(alg=...)
    bench.provider.keys = [jwk]
    await bench.keys.refresh()
    assert (await bench.identify(bench.token(signer))).subject == "alice"
    head, body, signature = bench.token(signer).split(".")
    middle = "A" if signature[20] != "A" else "B"
    assert await bench.refused(f"{head}.{body}.{signature[:20]}{middle}{signature[21:]}") == "bad_signature"


async def test_an_algorithm_the_issuer_may_not_use_is_refused_though_the_signature_is_good(bench: Bench) -> None:
    bench.provider.keys = [bench.good.jwk(alg=...)]
    bench.rebuild(algorithms=("ES256", "RS512"))
    await bench.keys.refresh()
    assert await bench.refused(bench.token()) == "bad_algorithm"
    assert (await bench.identify(bench.token(bench.good.using("RS512")))).subject == "alice"


async def test_a_key_is_not_used_with_an_algorithm_that_it_does_not_declare(bench: Bench) -> None:
    """B066: the signature as such is good, and both algorithms are among the issuer's."""
    assert await bench.refused(bench.token(bench.good.using("RS384"))) == "bad_signature"
    bench.provider.keys = [bench.good.jwk(alg=...)]
    await bench.keys.refresh()
    assert (await bench.identify(bench.token(bench.good.using("RS384")))).subject == "alice"

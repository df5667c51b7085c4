"""Bearer tokens: nobody is believed whom two other libraries would not believe, with the same name, in no other group.

An input is a header, a line end and claims, which the harness signs; or, behind `raw:`, what stands in Authorization;
or, behind `keys:`, what a provider publishes.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from fuzz.material import Untold, finished
from fuzz.references.messages import Refused
from fuzz.references.tokens import Verifier, public_key
from gateway.call import Principal
from gateway.fetch import Fetch, Fetched
from gateway.identity.provider.keys import KeySet
from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwk import KEYS_LIMIT, signing_keys
from gateway.identity.tokens.identity import BearerIdentity
from gateway.identity.tokens.oidc import OidcBearer
from gateway.settings import OidcIssuer
from tests.identity.conftest import EPOCH, call_with
from tests.identity.signers import Signer, b64

ISSUER = "https://idp.test"
RAW = b"raw:"
KEYS = b"keys:"

# Keys from fixed numbers, so that an input means the same in each run; they sign for nobody else.
SIGNERS = {
    "EdDSA": Signer("ed", "EdDSA", ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))),
    "ES256": Signer("ec", "ES256", ec.derive_private_key(4711, ec.SECP256R1())),
}
SETTINGS = OidcIssuer(name="corp", issuer=ISSUER, audience=("gw",), algorithms=("EdDSA", "ES256"))
VERIFIER = Verifier({alg: s.jwk() for alg, s in SIGNERS.items()}, ISSUER, "gw", int(EPOCH), int(SETTINGS.leeway))

#: Refusals that others have to agree with; for all other reasons we are stricter, as docs/identity.md says.
AGREED = {Result.BAD_SIGNATURE, Result.BAD_ISSUER, Result.EXPIRED, Result.NOT_YET_VALID}

#: What joserfc refuses and we take, by its words; a parameter or claim that nobody here reads may be anything.
WE_TAKE: tuple[tuple[str, str], ...] = (
    ("Claim 'jti' must be", "one that is no text names no token"),
    ("invalid_header", "key material in a header is not read"),
)


class Published(Fetch):
    """A provider that has these keys, without a network."""

    async def get(self, *_: Any, **__: Any) -> Fetched:
        document = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys", "keys": [s.jwk() for s in SIGNERS.values()]}
        return Fetched(200, json.dumps(document).encode(), ())


@cache
def _keys() -> KeySet:
    """Fetched, and in the cool-down after an early fetch, so that no token makes anybody wait."""
    keys = KeySet(SETTINGS, Published(), lambda: 1000.0)

    async def fetched() -> None:
        await keys.refresh()
        keys.news()
        await keys.refresh()

    asyncio.run(fetched())
    return keys


def written(data: bytes) -> bytes:
    """The value of the Authorization field."""
    if data.startswith(RAW):
        return data.removeprefix(RAW)
    header, _, claims = data.partition(b"\n")
    try:
        signer = SIGNERS[json.loads(header)["alg"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        signer = SIGNERS["EdDSA"]
    return b"Bearer " + signer.sign_raw(b64(header), b64(claims)).encode()


def check(data: bytes) -> None:
    """Raises `AssertionError` for a difference that is not allowed."""
    if data.startswith(KEYS):
        _check_keys(data.removeprefix(KEYS))
        return
    value = written(data)
    counted: list[tuple[str, str]] = []
    identity = BearerIdentity(
        [OidcBearer(SETTINGS, _keys(), lambda: EPOCH)], lambda: EPOCH, lambda *result: counted.append(result)
    )
    call = call_with((b"authorization", value))
    try:
        found = finished(identity.identify(call))
    except BadToken as refused:
        assert refused.status == 401
        assert len(counted) == 1
        _check_refused(refused.reason, value)
        return
    if found is None:
        assert not value.strip(b" \t").lower().startswith(b"bearer ")
        return
    _check_believed(found, value.split()[1].decode())
    assert finished(identity.identify(call)) is found  # remembered
    assert [result for _, result in counted] == ["ok", "cached"]


def _check_keys(text: bytes) -> None:
    """A key that is used is one to joserfc too, a public one, and the same."""
    try:
        document = json.loads(text)
        keys, left_out = signing_keys(document, SETTINGS.algorithms)
    except (ValueError, RecursionError):
        return
    assert len(keys) + len(left_out) >= len(document["keys"][:KEYS_LIMIT])
    for entry in document["keys"][:KEYS_LIMIT]:
        for key in signing_keys({"keys": [entry]}, SETTINGS.algorithms)[0]:
            assert key in keys
            assert key.algorithms <= set(SETTINGS.algorithms)
            assert public_key(entry) == key.public


def _check_believed(found: Principal, token: str) -> None:
    header = json.loads(part_of(token, 0), object_pairs_hook=_unique)
    json.loads(part_of(token, 1), object_pairs_hook=_unique)
    algorithm = header["alg"]
    try:
        told, claims = VERIFIER.by_joserfc(token, algorithm)
    except Refused as refused:
        if not any(words in str(refused) for words, _ in WE_TAKE):
            raise Untold(f"joserfc refuses what we take: {refused}") from refused
        return
    assert told == header
    if algorithm == "ES256":  # the only one of the two that python-jose has
        assert VERIFIER.by_python_jose(token, algorithm) == claims
    assert found.subject == claims["sub"]
    assert (found.issuer, found.provider) == (claims["iss"], "corp")
    assert found.expires == claims["exp"] > EPOCH - SETTINGS.leeway
    groups = claims.get("groups", [])
    listed = groups if isinstance(groups, list) else [groups]
    assert all(group in listed for group in found.groups)
    assert found.client in [None, *(claims.get(name) for name in ("client_id", "azp", "appid", "cid"))]
    assert json.loads(part_of(token, 1)) == claims


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Nobody may read another one of two values."""
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def _check_refused(reason: Result, value: bytes) -> None:
    """Where others have to agree, they do."""
    if reason not in AGREED:
        return
    token = value.split()[1].decode()
    header = json.loads(part_of(token, 0))
    algorithm = header["alg"]
    if algorithm not in SIGNERS or header.get("kid") not in {None, SIGNERS[algorithm].kid}:
        return  # the references are given the key that fits the algorithm
    if reason is Result.BAD_SIGNATURE:
        if VERIFIER.signed_by_joserfc(token, algorithm):
            raise Untold("only we find its signature bad")
        return
    try:
        VERIFIER.by_joserfc(token, algorithm)
    except Refused:
        return
    raise Untold(f"only we refuse it: {reason}")


def part_of(token: str, number: int) -> bytes:
    """A part of a token, decoded by hand: the shortest way that is not the gateway's."""
    text = token.split(".")[number].translate(str.maketrans("-_", "+/"))
    bits = "".join(f"{ALPHABET.index(letter):06b}" for letter in text)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

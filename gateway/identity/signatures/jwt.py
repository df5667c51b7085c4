"""JSON Web Tokens: their form and their signature (RFC 7515, RFC 7519, RFC 8725). The only importer of `jose`.

Knows: headers, algorithms, keys. Must not know: what claims mean, where keys come from, HTTP.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from jose import jws
from jose.backends.base import Key
from jose.backends.cryptography_backend import CryptographyECKey, CryptographyRSAKey
from jose.exceptions import JOSEError

from gateway.identity.credentials.bearer import TOKEN_LIMIT
from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwk import SigningKey, decode_base64url

#: What stands in a token (RFC 7519 section 4).
Claims = Mapping[str, object]

#: RFC 9068 section 2.1 types access tokens; before it, the general name or none was usual (RFC 7519 section 5.1).
TYPES = frozenset({"at+jwt", "application/at+jwt", "jwt"})


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is well formed. Nothing in it is proven: `claims` and `issuer` are what its sender wrote."""

    text: str = field(repr=False)
    algorithm: str
    kid: str | None
    issuer: str
    claims: Mapping[str, object] = field(repr=False)


class _PssKey(Key):
    """RSASSA-PSS, which `jose` lacks (RFC 7518 section 3.5: MGF1 with the same hash, salt as long as the hash)."""

    HASHES: Mapping[str, type[hashes.HashAlgorithm]] = {
        "PS256": hashes.SHA256,
        "PS384": hashes.SHA384,
        "PS512": hashes.SHA512,
    }

    def __init__(self, key: rsa.RSAPublicKey, algorithm: str) -> None:
        super().__init__(key, algorithm)
        self._key = key
        self._hash = self.HASHES[algorithm]()

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """True when `sig` is a signature of `msg`."""
        pss = padding.PSS(padding.MGF1(self._hash), self._hash.digest_size)
        try:
            self._key.verify(sig, msg, pss, self._hash)
        except InvalidSignature:
            return False
        return True


class _EdKey(Key):
    """EdDSA with Ed25519, which `jose` lacks (RFC 8037 section 3.1)."""

    def __init__(self, key: ed25519.Ed25519PublicKey, algorithm: str) -> None:
        super().__init__(key, algorithm)
        self._key = key

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """True when `sig` is a signature of `msg`."""
        try:
            self._key.verify(sig, msg)
        except InvalidSignature:
            return False
        return True


# Key type and algorithm both have to fit; no secret-key and no "none" row exists, so neither can be chosen.
_VERIFIERS: dict[str, tuple[type, Callable[..., Key]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512"), (rsa.RSAPublicKey, CryptographyRSAKey)),
    **dict.fromkeys(("PS256", "PS384", "PS512"), (rsa.RSAPublicKey, _PssKey)),
    **dict.fromkeys(("ES256", "ES384", "ES512"), (ec.EllipticCurvePublicKey, CryptographyECKey)),
    "EdDSA": (ed25519.Ed25519PublicKey, _EdKey),
}


PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

#: Levels of a header or of claims; providers use three or four.
DEEPEST = 32

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def parse(text: str) -> Token:
    """Read a compact JWS whose payload is a claims object. Raises `BadToken`, and nothing else, for all other text."""
    if len(text) > TOKEN_LIMIT:
        raise BadToken(Result.MALFORMED, f"a token has at most {TOKEN_LIMIT} bytes")
    dots = text.count(".")
    if dots == 4:
        raise BadToken(Result.MALFORMED, "encrypted tokens are not taken")
    if dots != 2:
        raise BadToken(Result.MALFORMED, "it is not a JSON Web Token")
    try:
        header, claims = split(text)
    except ValueError:
        raise BadToken(Result.MALFORMED, "it is not a well formed JSON Web Token") from None
    algorithm, kid = _read_header(header)
    issuer = claims.get("iss")
    if not isinstance(issuer, str):
        raise BadToken(Result.BAD_ISSUER, "it names no issuer")
    return Token(text, algorithm, kid, issuer, claims)


def split(text: str) -> tuple[dict[str, object], dict[str, object]]:
    """Header and claims of a compact JWS; its signature has the form of one. Raises `ValueError`."""
    header, claims, signature = text.split(".", 3)
    decode_base64url(signature)
    return json_object(decode_base64url(header)), json_object(decode_base64url(claims))


def check_signature(token: Token, keys: Sequence[SigningKey]) -> bool:
    """True when one of `keys` made the signature. A key is only tried with an algorithm that is its own."""
    return signed_by(token.text, token.algorithm, keys)


def signed_by(text: str, algorithm: str, keys: Sequence[SigningKey]) -> bool:
    """The same for any compact JWS, whose header has this algorithm."""
    fitting = [verifier for key in keys if (verifier := _verifier(key, algorithm)) is not None]
    if not fitting:
        return False
    try:
        jws.verify(text, cast("dict[str, object]", fitting), [algorithm])
    except JOSEError:
        return False
    return True


def sign(claims: Mapping[str, object], key: PrivateKey, algorithm: str, kid: str) -> str:
    """An access token (RFC 9068 section 2.1) of these claims, by a key that fits the algorithm."""
    header = {"alg": algorithm, "typ": "at+jwt", "kid": kid}
    message = f"{encode_base64url(orjson.dumps(header))}.{encode_base64url(orjson.dumps(claims))}"
    return f"{message}.{encode_base64url(_signature(key, algorithm, message.encode()))}"


def encode_base64url(raw: bytes) -> str:
    """Base64url without padding (RFC 7515 section 2)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _signature(key: PrivateKey, algorithm: str, message: bytes) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    kind = CryptographyECKey if isinstance(key, ec.EllipticCurvePrivateKey) else CryptographyRSAKey
    signer: Any = kind(key, algorithm)
    return bytes(signer.sign(message))


def _verifier(key: SigningKey, algorithm: str) -> Key | None:
    kind, make = _VERIFIERS.get(algorithm, (None, None))
    if kind is None or make is None or algorithm not in key.algorithms or not isinstance(key.public, kind):
        return None
    return make(key.public, algorithm)


def _read_header(header: Mapping[str, object]) -> tuple[str, str | None]:
    """Algorithm and key id. Key material in the header (`jwk`, `jku`, `x5u`, `x5c`) is never looked at."""
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if not isinstance(algorithm, str):
        raise BadToken(Result.MALFORMED, "its alg is not a string")
    if kid is not None and not isinstance(kid, str):
        raise BadToken(Result.MALFORMED, "its kid is not a string")
    if "crit" in header or "b64" in header:  # RFC 7515 section 4.1.11: we understand no extension
        raise BadToken(Result.MALFORMED, "its header demands an extension that is not known here")
    if "typ" in header and not (isinstance(kind, str) and kind.lower() in TYPES):
        raise BadToken(Result.WRONG_KIND, "its typ is not that of an access token")
    return algorithm, kid


def json_object(raw: bytes) -> dict[str, object]:
    """A JSON object in which no name stands twice, at most `DEEPEST` deep. Raises `ValueError`."""
    orjson.loads(raw)  # refuses NaN, numbers out of range, lone surrogates, bad UTF-8, strings without an end
    if _depth(raw) > DEEPEST:  # how deep is too deep for a parser differs from one version of Python to the next
        raise ValueError("nested too deep")
    found = json.loads(raw.decode(), object_pairs_hook=_unique)
    if not isinstance(found, dict):
        raise ValueError("not an object")  # noqa: TRY004  one kind of error for the caller
    return found


def _depth(raw: bytes) -> int:
    """How deep the brackets outside of strings are nested.

    Only for text that the parser has accepted: looking for the end of a string that has none takes long.
    """
    deepest = depth = 0
    for bracket in _STRING.sub(b"", raw).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found

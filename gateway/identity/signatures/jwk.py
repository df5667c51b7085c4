"""Public signing keys out of a JSON Web Key Set (RFC 7517, RFC 7518 section 6, RFC 8037).

Knows: which keys may verify which algorithm, and why others are left out.
Must not know: where a set comes from, tokens.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
Json = Mapping[str, object]

# Big providers publish about ten keys; the bound keeps a runaway document from costing memory and start-up time.
KEYS_LIMIT = 64
KID_LIMIT = 1024

RSA_BITS = range(2048, 8193)  # below: RFC 7518 section 3.3; above: each check of a signature would take too long
EXPONENT_BITS = 64  # as OpenSSL bounds it; a long exponent makes checking slow

RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
# RFC 7518 section 3.4: the algorithm fixes the curve.
CURVES: dict[str, tuple[str, type[ec.EllipticCurve], int]] = {
    "P-256": ("ES256", ec.SECP256R1, 32),
    "P-384": ("ES384", ec.SECP384R1, 48),
    "P-521": ("ES512", ec.SECP521R1, 66),
}
PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
ED25519_BYTES = 32
SYNONYMS = {"Ed25519": "EdDSA"}  # RFC 9864 gives EdDSA with this curve a name of its own

_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")


class _Unusable(Exception):  # noqa: N818  a reason, not an error: the key is left out
    """Why one key is left out."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One usable public key. `algorithms` are those it may verify: of its type, its own `alg`, and allowed here."""

    kid: str | None
    algorithms: frozenset[str]
    thumb: str
    public: PublicKey = field(repr=False, compare=False)


def signing_keys(document: object, allowed: Collection[str]) -> tuple[tuple[SigningKey, ...], tuple[str, ...]]:
    """The usable keys of a parsed JWKS, and a line for each that was left out. Raises `ValueError` if it is no JWKS."""
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("not a JSON Web Key Set")  # noqa: TRY004  one kind of error for the caller
    keys: list[SigningKey] = []
    left_out: list[str] = []
    for place, entry in enumerate(entries[:KEYS_LIMIT]):
        try:
            keys.append(_signing_key(entry, allowed))
        except _Unusable as reason:
            left_out.append(f"key {place}{_called(entry)}: {reason}")
    if len(entries) > KEYS_LIMIT:
        left_out.append(f"more than {KEYS_LIMIT} keys; the rest is not looked at")
    return tuple(keys), tuple(left_out)


def signing_key(entry: object, allowed: Collection[str]) -> SigningKey:
    """The key of one parsed JWK. Raises `ValueError` for one that cannot be used."""
    try:
        return _signing_key(entry, allowed)
    except _Unusable as reason:
        raise ValueError(str(reason)) from None


def thumbprint(public: PublicKey) -> str:
    """RFC 7638, RFC 8037 section 2: SHA-256 over the numbers of the key in their one spelling, in base64url."""
    text = json.dumps(_members(public), separators=(",", ":"), sort_keys=True)
    return _base64url(hashlib.sha256(text.encode()).digest())


def decode_base64url(text: str) -> bytes:
    """Base64url without padding, in its one canonical spelling (RFC 7515 section 2). Raises `ValueError`."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != text.encode():
        raise ValueError("not the canonical base64url")
    return raw


def _members(public: PublicKey) -> dict[str, str]:
    """The members of a JWK that make the key."""
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        e, n = (one.to_bytes((one.bit_length() + 7) // 8, "big") for one in (numbers.e, numbers.n))
        return {"kty": "RSA", "e": _base64url(e), "n": _base64url(n)}
    if isinstance(public, ec.EllipticCurvePublicKey):
        crv, size = next((crv, size) for crv, (_, kind, size) in CURVES.items() if isinstance(public.curve, kind))
        point = public.public_numbers()
        x, y = point.x.to_bytes(size, "big"), point.y.to_bytes(size, "big")
        return {"kty": "EC", "crv": crv, "x": _base64url(x), "y": _base64url(y)}
    return {"kty": "OKP", "crv": "Ed25519", "x": _base64url(public.public_bytes_raw())}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _called(entry: object) -> str:
    """The kid for the log, if there is one: the provider's text, so cut and escaped."""
    kid = entry.get("kid") if isinstance(entry, dict) else None
    return f" (kid {kid[:64]!a})" if isinstance(kid, str) else ""


def _signing_key(entry: object, allowed: Collection[str]) -> SigningKey:
    if not isinstance(entry, dict):
        raise _Unusable("not an object")
    kind = entry.get("kty")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise _Unusable("its kty is missing or not one of RSA, EC, OKP")
    _check_purpose(entry)
    try:
        fitting, public = read(entry)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _Unusable("its numbers make no key") from error
    algorithms = fitting & _declared(entry, fitting) & frozenset(allowed)
    if not algorithms:
        raise _Unusable("its alg is not one of this issuer's algorithms")
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return SigningKey(_kid(entry), algorithms, hashlib.sha256(der).hexdigest(), public)


def _check_purpose(entry: Json) -> None:
    """RFC 7517 sections 4.2 and 4.3, and no private member: who can read the set could sign with such a key."""
    if not PRIVATE_MEMBERS.isdisjoint(entry):
        raise _Unusable("it is a private key, published for everybody to sign with: the provider must replace it")
    if "use" in entry and entry["use"] != "sig":
        raise _Unusable("its use is not sig")
    if "key_ops" in entry:
        operations = entry["key_ops"]
        if not isinstance(operations, list) or "verify" not in operations:
            raise _Unusable("its key_ops leave verify out")


def _declared(entry: Json, fitting: frozenset[str]) -> frozenset[str]:
    """What the key's own `alg` leaves of the algorithms that fit its type; all of them when it names none."""
    if "alg" not in entry:
        return fitting
    alg = entry["alg"]
    return frozenset({SYNONYMS.get(alg, alg)}) if isinstance(alg, str) else frozenset()


def _kid(entry: Json) -> str | None:
    kid = entry.get("kid")
    if kid is not None and (not isinstance(kid, str) or len(kid) > KID_LIMIT):
        raise _Unusable("its kid is not a string of sensible length")
    return kid


def _octets(entry: Json, name: str) -> bytes:
    value = entry.get(name)
    if not isinstance(value, str):
        raise _Unusable(f"it has no {name}")
    return decode_base64url(value)


def _rsa(entry: Json) -> tuple[frozenset[str], PublicKey]:
    modulus = int.from_bytes(_octets(entry, "n"), "big")
    exponent = int.from_bytes(_octets(entry, "e"), "big")
    if modulus.bit_length() not in RSA_BITS:
        raise _Unusable(f"its RSA modulus has not {RSA_BITS.start} to {RSA_BITS.stop - 1} bits")
    if exponent.bit_length() > EXPONENT_BITS or exponent % 2 == 0 or modulus % 2 == 0:
        raise _Unusable("its RSA numbers are unsound")
    return RSA_ALGORITHMS, rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _ec(entry: Json) -> tuple[frozenset[str], PublicKey]:
    curve = entry.get("crv")
    if not isinstance(curve, str) or curve not in CURVES:
        raise _Unusable("its curve is not P-256, P-384 or P-521")
    algorithm, kind, size = CURVES[curve]
    x, y = _octets(entry, "x"), _octets(entry, "y")
    if max(len(x), len(y)) > size:
        raise _Unusable("its coordinates are too long")
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), kind())
    return frozenset({algorithm}), numbers.public_key()


def _okp(entry: Json) -> tuple[frozenset[str], PublicKey]:
    if entry.get("crv") != "Ed25519":
        raise _Unusable("its curve is not Ed25519")
    x = _octets(entry, "x")
    if len(x) != ED25519_BYTES:
        raise _Unusable("its point has not 32 bytes")
    return frozenset({"EdDSA"}), ed25519.Ed25519PublicKey.from_public_bytes(x)


_READERS: dict[str, Callable[[Json], tuple[frozenset[str], PublicKey]]] = {"RSA": _rsa, "EC": _ec, "OKP": _okp}

"""Keys made for a test, and the tokens and JWKs they make. Independent of the code under test: `cryptography` only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

Json = dict[str, Any]
HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
CURVES: dict[str, tuple[ec.EllipticCurve, str]] = {
    "ES256": (ec.SECP256R1(), "P-256"),
    "ES384": (ec.SECP384R1(), "P-384"),
    "ES512": (ec.SECP521R1(), "P-521"),
}


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def part(value: object) -> str:
    return b64(json.dumps(value).encode())


@dataclass(frozen=True)
class Signer:
    """A private key under a name; `alg` is what it signs with."""

    kid: str | None
    alg: str
    private: Any

    def named(self, kid: str | None) -> Signer:
        return replace(self, kid=kid)

    def using(self, alg: str) -> Signer:
        return replace(self, alg=alg)

    def signature(self, message: bytes) -> bytes:
        if self.alg == "EdDSA":
            return bytes(self.private.sign(message))
        digest = HASHES[self.alg[2:]]
        if self.alg.startswith("RS"):
            return bytes(self.private.sign(message, padding.PKCS1v15(), digest))
        if self.alg.startswith("PS"):
            pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
            return bytes(self.private.sign(message, pss, digest))
        size = (self.private.key_size + 7) // 8
        r, s = decode_dss_signature(self.private.sign(message, ec.ECDSA(digest)))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")

    def sign(self, claims: object, **header: object) -> str:
        """A token. `header` adds to or replaces what stands there; a value of `...` leaves a name out."""
        full: Json = {"alg": self.alg, "typ": "JWT", "kid": self.kid} | header
        return self.sign_raw(part({k: v for k, v in full.items() if v is not ...}), part(claims))

    def sign_raw(self, header: str, payload: str) -> str:
        """A token of two parts that are base64url already."""
        message = f"{header}.{payload}"
        return f"{message}.{b64(self.signature(message.encode()))}"

    def jwk(self, **more: object) -> Json:
        """The public JWK, with `use` and `alg`; `more` as in `sign`."""
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            numbers = public.public_numbers()
            own: Json = {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
        elif isinstance(public, ec.EllipticCurvePublicKey):
            size = (public.key_size + 7) // 8
            point = public.public_numbers()
            crv = next((name for curve, name in CURVES.values() if curve.name == public.curve.name), "secp256k1")
            x, y = (b64(one.to_bytes(size, "big")) for one in (point.x, point.y))
            own = {"kty": "EC", "crv": crv, "x": x, "y": y}
        else:
            own = {"kty": "OKP", "crv": "Ed25519", "x": b64(public.public_bytes_raw())}
        full = own | {"kid": self.kid, "use": "sig", "alg": self.alg} | more
        return {k: v for k, v in full.items() if v is not ... and not (k == "kid" and v is None)}


@cache
def rsa_signer(kid: str, bits: int = 2048) -> Signer:
    return Signer(kid, "RS256", rsa.generate_private_key(65537, bits))


@cache
def ec_signer(kid: str, alg: str = "ES256") -> Signer:
    return Signer(kid, alg, ec.generate_private_key(CURVES[alg][0]))


@cache
def ed_signer(kid: str) -> Signer:
    return Signer(kid, "EdDSA", ed25519.Ed25519PrivateKey.generate())


def hmac_token(secret: bytes, claims: object, **header: object) -> str:
    """What an attacker makes who knows only public things."""
    message = f"{part({'alg': 'HS256', 'typ': 'JWT'} | header)}.{part(claims)}"
    return f"{message}.{b64(hmac.new(secret, message.encode(), hashlib.sha256).digest())}"


class Mint:
    """Good tokens of one issuer, from which a test changes what it is about. Times are those of `now`, UNIX seconds."""

    def __init__(self, iss: str, good: Signer, now: float) -> None:
        self.iss = iss
        self.good = good
        self.now = now

    def claims(self, **more: object) -> Json:
        """What a good token says; a value of `...` leaves a name out."""
        full: Json = {
            "iss": self.iss, "aud": "gw", "sub": "alice", "groups": ["ds"], "iat": self.now, "exp": self.now + 3600,
        }  # fmt: skip
        return {k: v for k, v in (full | more).items() if v is not ...}

    def token(self, signer: Signer | None = None, /, **more: object) -> str:
        return (signer or self.good).sign(self.claims(**more))

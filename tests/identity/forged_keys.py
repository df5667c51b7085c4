"""Tokens that each have one thing wrong in their signature or in the key that made it, and the set they claim to fit.

The set is one that a careless provider could publish: good keys of three types among keys that must prove nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from tests.identity.forged import Forge
from tests.identity.signers import Mint, Signer, b64, ec_signer, ed_signer, hmac_token, number, part, rsa_signer

RSA, EC, ED = rsa_signer("k1"), ec_signer("e1"), ed_signer("d1")

# FIPS 186-5 and RFC 8032: field prime and order of P-256, order of Ed25519.
P256 = 2**256 - 2**224 + 2**192 + 2**96 - 1
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ED_ORDER = 2**252 + 27742317777372353535851937790883648493


class TinyRsa:
    """512 bits out of two primes that everybody knows. No library makes so small a key, so it signs by hand."""

    modulus = P256 * P256_ORDER
    exponent = 7

    def sign(self, message: bytes, *_: object) -> bytes:
        """RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 9.2)."""
        info = bytes.fromhex("3031300d060960864801650304020105000420") + sha256(message).digest()
        padded = b"\0\1" + b"\xff" * (64 - 3 - len(info)) + b"\0" + info
        secret = pow(self.exponent, -1, (P256 - 1) * (P256_ORDER - 1))
        return pow(int.from_bytes(padded, "big"), secret, self.modulus).to_bytes(64, "big")


def changed(signer: Signer, change: Callable[[bytes], bytes]) -> Forge:
    """A good token whose signature is changed as bytes."""

    def forge(mint: Mint) -> str:
        message = mint.token(signer).rpartition(".")[0]
        return f"{message}.{b64(change(signer.signature(message.encode())))}"

    return forge


def spelt(place: int, change: Callable[[str], str], signer: Signer = RSA) -> Forge:
    """A good token of which one of the three parts is written in another way."""

    def forge(mint: Mint) -> str:
        parts = mint.token(signer).split(".")
        parts[place] = change(parts[place])
        return ".".join(parts)

    return forge


def resigned(header: Callable[[str], str], payload: Callable[[str], str]) -> Forge:
    """Parts that are spelt in another way, under a good signature of exactly that spelling."""

    def forge(mint: Mint) -> str:
        first, second, _ = mint.token().split(".")
        return RSA.sign_raw(header(first), payload(second))

    return forge


def claimed(signer: Signer, **header: object) -> Forge:
    """Good claims, signed by `signer`."""
    return lambda mint: signer.sign(mint.claims(), **header)


def flipped(signature: bytes, bit: int) -> bytes:
    raw = bytearray(signature)
    raw[bit // 8] ^= 1 << (bit % 8)
    return bytes(raw)


def with_flipped(name: str, signer: Signer, bits: Iterable[int]) -> dict[str, Forge]:
    """Good tokens of which one bit of the signature is the other one."""
    return {f"{name}, bit {bit} flipped": changed(signer, partial(flipped, bit=bit)) for bit in bits}


def pair(r: int, s: int, size: int = 32) -> bytes:
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def halves(change: Callable[[int, int], bytes]) -> Callable[[bytes], bytes]:
    return lambda raw: change(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))


def with_salt(length: int) -> Forge:
    """PS256 with a salt of another length than the hash (RFC 7518 section 3.5)."""
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), length)

    def forge(mint: Mint) -> str:
        message = f"{part({'alg': 'PS256', 'kid': 'p1'})}.{part(mint.claims())}"
        return f"{message}.{b64(PSS.private.sign(message.encode(), pss, hashes.SHA256()))}"

    return forge


def with_sha1(mint: Mint) -> str:
    message = f"{part({'alg': 'RS256', 'kid': 'k1'})}.{part(mint.claims())}"
    return f"{message}.{b64(RSA.private.sign(message.encode(), padding.PKCS1v15(), hashes.SHA1()))}"  # noqa: S303


def standard_alphabet(text: str) -> str:
    """With `+` and `/`, after padding was taken away."""
    return text.replace("-", "+").replace("_", "/") + "+"


def secret_members(signer: Signer) -> dict[str, Any]:
    numbers = signer.private.private_numbers()
    return {"d": number(numbers.d), "p": number(numbers.p), "q": number(numbers.q)}


def stray(kid: str) -> Signer:
    """A key of its own, published in a way that leaves it nothing to sign."""
    return rsa_signer(kid).named(kid)


PSS = stray("p1").using("PS256")
TINY = Signer("tiny", "RS256", TinyRsa())
WEAK = Signer("weak", "RS256", rsa.generate_private_key(65537, 1024))  # noqa: S505  it is the point
KOBLITZ = Signer("koblitz", "ES256", ec.generate_private_key(ec.SECP256K1()))
MIDDLE = ec_signer("middle", "ES384")
SHARED = b"a secret that is published"

#: What must not sign, each with how it is published.
STRAYS: dict[str, tuple[Signer, dict[str, Any]]] = {
    "use enc": (stray("s1"), stray("s1").jwk(use="enc")),
    "use enc and an alg of encryption": (stray("s2"), stray("s2").jwk(use="enc", alg="RSA-OAEP")),
    "alg of encryption": (stray("s3"), stray("s3").jwk(use=..., alg="RSA-OAEP-256")),
    "key_ops sign": (stray("s4"), stray("s4").jwk(use=..., key_ops=["sign"])),
    "key_ops encrypt": (stray("s5"), stray("s5").jwk(use=..., key_ops=["encrypt", "wrapKey"])),
    "key_ops empty": (stray("s6"), stray("s6").jwk(key_ops=[])),
    "alg of another signature": (stray("s7"), stray("s7").jwk(alg="RS512")),
    "alg of another family": (stray("s8"), stray("s8").jwk(alg="ES256")),
    "alg none": (stray("s9"), stray("s9").jwk(alg="none")),
    "alg null": (stray("s10"), stray("s10").jwk(alg=None)),
    "private": (stray("s11"), stray("s11").jwk() | secret_members(stray("s11"))),
    "kty of another type": (stray("s12"), stray("s12").jwk(kty="EC")),
    "x5c only": (stray("s13"), stray("s13").jwk(n=..., e=..., x5c=["MIIB"])),
    "RSA of 512 bits": (
        TINY, {"kty": "RSA", "kid": "tiny", "use": "sig", "alg": "RS256", "n": number(TinyRsa.modulus), "e": "Bw"}
    ),
    "RSA of 1024 bits": (WEAK, WEAK.jwk()),
    "curve of Bitcoin": (KOBLITZ, KOBLITZ.jwk()),
}  # fmt: skip
SET: list[object] = [
    RSA.jwk(), EC.jwk(), ED.jwk(), PSS.jwk(), MIDDLE.jwk(), *(jwk for _, jwk in STRAYS.values()),
    {"kty": "oct", "kid": "shared", "use": "sig", "alg": "HS256", "k": b64(SHARED)},
]  # fmt: skip

#: By the kind of key whose good token stands beside them.
KEYS: dict[str, Forge] = {
    **{f"signed by a key with {name}": claimed(signer) for name, (signer, _) in STRAYS.items()},
    "HS256 with a secret that is published": lambda mint: hmac_token(SHARED, mint.claims(), kid="shared"),
    "ES256K by the curve of Bitcoin": claimed(KOBLITZ, alg="ES256K"),
    "ES256 by a key of P-384": claimed(MIDDLE.using("ES256")),
    "ES384 by a key of P-256": claimed(EC.using("ES384")),
    "RS256 by a key for PS256": claimed(PSS.using("RS256")),
    "PS256 by a key for RS256": claimed(RSA.using("PS256")),
    "EdDSA under the kid of the EC key": claimed(ED.named("e1")),
    "ES256 under the kid of the Ed25519 key": claimed(EC.named("d1")),
    "kid in another case": claimed(RSA.named("K1")),
    "kid with a space": claimed(RSA.named("k1 ")),
    "kid a list in text": claimed(RSA.named('["k1"]')),
    "kid empty, another key": claimed(rsa_signer("x").named("")),
    "alg with a space": claimed(RSA, alg="RS256 "),
    "alg a number": claimed(RSA, alg=256),
    "alg true": claimed(RSA, alg=True),
    "alg SHA256": claimed(RSA, alg="SHA256"),
}
OF_RSA: dict[str, Forge] = {
    **with_flipped("RSA", RSA, (0, 7, 1024, 2047)),
    "RSA, a byte short": changed(RSA, lambda raw: raw[:-1]),
    "RSA, first byte cut": changed(RSA, lambda raw: raw[1:]),
    "RSA, a zero before": changed(RSA, lambda raw: b"\0" + raw),
    "RSA, a zero behind": changed(RSA, lambda raw: raw + b"\0"),
    "RSA, reversed": changed(RSA, lambda raw: raw[::-1]),
    "RSA, one": changed(RSA, lambda _: (1).to_bytes(256, "big")),
    "RSA, the modulus less one": changed(
        RSA, lambda _: (RSA.private.public_key().public_numbers().n - 1).to_bytes(256, "big")
    ),
    "RSA, all ones": changed(RSA, lambda _: b"\xff" * 256),
    "RSA, in hexadecimal": changed(RSA, lambda raw: raw.hex().encode()),
    "RSA with SHA-1": with_sha1,
    "PSS without salt": with_salt(0),
    "PSS with a longer salt": with_salt(64),
}
OF_EC: dict[str, Forge] = {
    **with_flipped("EC", EC, (0, 255, 256, 511)),
    "EC, r zero": changed(EC, halves(lambda _, s: pair(0, s))),
    "EC, s zero": changed(EC, halves(lambda r, _: pair(r, 0))),
    "EC, both zero": changed(EC, lambda _: bytes(64)),
    "EC, r the order": changed(EC, halves(lambda _, s: pair(P256_ORDER, s))),
    "EC, s the order": changed(EC, halves(lambda r, _: pair(r, P256_ORDER))),
    "EC, both the order": changed(EC, lambda _: pair(P256_ORDER, P256_ORDER)),
    "EC, both one": changed(EC, lambda _: pair(1, 1)),
    "EC, swapped": changed(EC, lambda raw: raw[32:] + raw[:32]),
    "EC, in DER": changed(EC, halves(encode_dss_signature)),
    "EC, halves of 33 bytes": changed(EC, halves(lambda r, s: pair(r, s, 33))),
    "EC, a byte short": changed(EC, lambda raw: raw[:-1]),
    "EC, a byte long": changed(EC, lambda raw: raw + b"\0"),
    "EC, only r": changed(EC, lambda raw: raw[:32]),
    "EC, empty": changed(EC, lambda _: b""),
    "EC, another key": claimed(ec_signer("x").named("e1")),
}
OF_ED: dict[str, Forge] = {
    **with_flipped("Ed25519", ED, (0, 255, 256)),
    "Ed25519, zeros": changed(ED, lambda _: bytes(64)),
    "Ed25519, S more than the order": changed(
        ED, lambda raw: raw[:32] + (int.from_bytes(raw[32:], "little") + ED_ORDER).to_bytes(32, "little")
    ),
    "Ed25519, swapped": changed(ED, lambda raw: raw[32:] + raw[:32]),
    "Ed25519, a byte short": changed(ED, lambda raw: raw[:-1]),
    "Ed25519, a byte long": changed(ED, lambda raw: raw + b"\0"),
    "Ed25519, another key": claimed(ed_signer("x").named("d1")),
}
SPELLINGS: dict[str, Forge] = {
    **{f"part {place} padded": spelt(place, lambda text: text + "=" * (-len(text) % 4 or 1)) for place in (0, 1, 2)},
    **{f"part {place} in the standard alphabet": spelt(place, standard_alphabet) for place in (0, 1, 2)},
    **{f"part {place} with a space": spelt(place, lambda text: text[:9] + " " + text[9:]) for place in (0, 1, 2)},
    **{f"part {place} with a tab": spelt(place, lambda text: text[:9] + "\t" + text[9:]) for place in (0, 1, 2)},
    **{f"part {place} with a percent escape": spelt(place, lambda text: text[:-1] + f"%{ord(text[-1]):02X}")
       for place in (0, 1, 2)},
    **{f"part {place} empty": spelt(place, lambda _: "") for place in (0, 1)},
    "signature of the EC key with spare bits": spelt(2, lambda text: text[:-1] + chr(ord(text[-1]) + 1), EC),
    "header padded, and signed so": resigned(lambda text: text + "=", lambda text: text),
    "payload padded, and signed so": resigned(lambda text: text, lambda text: text + "="),
    "header in plain JSON": resigned(lambda text: base64.urlsafe_b64decode(text + "==").decode(), lambda text: text),
    "header encoded twice": resigned(lambda text: b64(text.encode()), lambda text: text),
    "payload encoded twice": resigned(lambda text: text, lambda text: b64(text.encode())),
    "payload of one letter more": resigned(lambda text: text, lambda text: text + "A" * (5 - len(text) % 4)),
    "a dot before": lambda mint: "." + mint.token(),
    "a dot behind": lambda mint: mint.token() + ".",
    "parts in another order": lambda mint: ".".join(mint.token().split(".")[i] for i in (1, 0, 2)),
    "joined by commas": lambda mint: mint.token().replace(".", ","),
    "in JSON form": lambda mint: '{"payload":"' + mint.token().replace(".", '","protected":"', 1) + '"}',
}  # fmt: skip

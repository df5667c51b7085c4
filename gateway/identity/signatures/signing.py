"""The keys that the gateway signs its own tokens with: a file of private keys, and what others see of them.

Knows: PEM, modes of files, thumbprints (RFC 7638). Must not know: tokens, what they say, who may have one.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.identity.signatures.jwk import SigningKey, signing_keys
from gateway.identity.signatures.jwt import PrivateKey, encode_base64url
from gateway.settings import ALGORITHMS

# A rotation needs two keys. Each is tried for tokens without a kid, and the file is read at once.
KEYS_LIMIT: Final = 8
FILE_LIMIT: Final = 64 * 1024

# Signing happens between other callers' bytes: 4096 bits take 5 ms, twice as many take 30.
RSA_BITS: Final = range(2048, 4097)

#: What signs with a curve (RFC 7518 section 3.4); the curves of `jwk.CURVES` without the one that nobody asks for.
EC_ALGORITHMS: Final = {"secp256r1": "ES256", "secp384r1": "ES384"}
EC_NAMES: Final = {"secp256r1": "P-256", "secp384r1": "P-384"}

#: RFC 7638 section 3.2 and RFC 8037 section 2: the members that make the key.
_REQUIRED: Final = frozenset({"kty", "crv", "x", "y", "n", "e"})

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)
_BEGIN: Final = b"-----BEGIN "
_PARAMETERS: Final = b"EC PARAMETERS"  # OpenSSL puts the name of the curve before an EC key


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A pair of keys of the gateway. `jwk` is the public one as it is published, `verifying` as tokens are checked."""

    kid: str
    algorithm: str
    jwk: Mapping[str, object] = field(repr=False)
    verifying: SigningKey = field(repr=False)
    private: PrivateKey = field(repr=False, compare=False)


def read(path: Path) -> tuple[OwnKey, ...]:
    """The keys of a PEM file, at least one; the first signs. Raises `ValueError`, which names the file."""
    try:
        return own_keys(_private_text(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None


def own_keys(text: bytes) -> tuple[OwnKey, ...]:
    """The keys of PEM text, in its order. Raises `ValueError`, which never repeats any of it."""
    found = list(_BLOCK.finditer(text))
    if len(found) != text.count(_BEGIN):
        raise ValueError("holds a key that is cut off")
    blocks = [match for match in found if match[1] != _PARAMETERS]
    if not blocks:
        raise ValueError("holds no private key in PEM form")
    if len(blocks) > KEYS_LIMIT:
        raise ValueError(f"holds more than {KEYS_LIMIT} keys")
    keys = tuple(_own_key(_private_key(match)) for match in blocks)
    if len({key.kid for key in keys}) != len(keys):
        raise ValueError("holds the same key twice")
    return keys


def key_set(keys: Sequence[OwnKey]) -> dict[str, object]:
    """What is published of the keys (RFC 7517 section 5)."""
    return {"keys": [dict(key.jwk) for key in keys]}


def thumbprint(jwk: Mapping[str, object]) -> str:
    """RFC 7638: the same for the same key, whoever computes it."""
    members = {name: value for name, value in jwk.items() if name in _REQUIRED}
    return encode_base64url(hashlib.sha256(orjson.dumps(members, option=orjson.OPT_SORT_KEYS)).digest())


def _private_text(path: Path) -> bytes:
    """The file, if only its owner may write and only its owner and group may read it. Raises `ValueError`, `OSError`.

    Kubernetes lets the group of a pod read its secrets (`fsGroup`).
    """
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & (stat.S_IRWXO | stat.S_IWGRP):
            raise ValueError(f"has mode {mode:04o}: whoever reads it can make tokens; set 0600, or 0640")
        text = file.read(FILE_LIMIT + 1)
    if len(text) > FILE_LIMIT:
        raise ValueError(f"is larger than {FILE_LIMIT // 1024} KiB")
    return text


def _private_key(block: re.Match[bytes]) -> PrivateKey:
    if not block[1].endswith(b"PRIVATE KEY"):
        raise ValueError(f"holds a {block[1].decode().lower()}; only private keys may stand in it")
    try:
        key = load_pem_private_key(block[0], None)
    except TypeError:  # what the library says of a key with a password
        raise ValueError("holds a key with a password; store it without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("holds a private key that cannot be read") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise ValueError("holds a key that is not one of EC, Ed25519, RSA")  # noqa: TRY004  one kind of error
    return key


def _own_key(private: PrivateKey) -> OwnKey:
    algorithm, numbers = _public(private)
    kid = thumbprint(numbers)
    jwk = {**numbers, "kid": kid, "use": "sig", "alg": algorithm}
    usable, _ = signing_keys({"keys": [jwk]}, ALGORITHMS)  # with the checks that keys of providers pass
    if not usable:
        raise ValueError("holds a key whose numbers no token may be checked with")
    return OwnKey(kid, algorithm, jwk, usable[0], private)


def _public(private: PrivateKey) -> tuple[str, dict[str, object]]:
    """The algorithm of a key, and the members of its public JWK (RFC 7518 section 6, RFC 8037 section 2)."""
    if isinstance(private, ed25519.Ed25519PrivateKey):
        x = encode_base64url(private.public_key().public_bytes_raw())
        return "EdDSA", {"kty": "OKP", "crv": "Ed25519", "x": x}
    if isinstance(private, rsa.RSAPrivateKey):
        if private.key_size not in RSA_BITS:
            raise ValueError(f"holds an RSA key that has not {RSA_BITS.start} to {RSA_BITS.stop - 1} bits")
        n, e = private.public_key().public_numbers().n, private.public_key().public_numbers().e
        return "RS256", {"kty": "RSA", "n": _number(n), "e": _number(e)}
    algorithm = EC_ALGORITHMS.get(private.curve.name)
    if algorithm is None:
        raise ValueError("holds an EC key whose curve is not P-256 or P-384")
    point, size = private.public_key().public_numbers(), (private.key_size + 7) // 8
    x, y = (encode_base64url(one.to_bytes(size, "big")) for one in (point.x, point.y))
    return algorithm, {"kty": "EC", "crv": EC_NAMES[private.curve.name], "x": x, "y": y}


def _number(value: int) -> str:
    return encode_base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def secret_of(key: PrivateKeyTypes) -> bytes:
    """A secret that everybody with this private key has."""
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

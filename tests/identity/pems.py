"""Private keys as operators keep them: PEM text, and files of a mode."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

#: How keys are made, by the algorithm that they sign with.
MAKERS: dict[str, Any] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
}


@cache
def private(algorithm: str, number: int = 0) -> Any:
    """The same key for the same `number`."""
    return MAKERS[algorithm]()


def pem(key: Any, form: PrivateFormat = PrivateFormat.PKCS8, password: bytes = b"") -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return bytes(key.private_bytes(Encoding.PEM, form, encryption))


def public_pem(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def key_file(path: Path, *keys: Any, mode: int = 0o600) -> Path:
    """A file of these keys, at once and whole, as a tool for secrets leaves it."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    beside.touch(mode=0o600)
    beside.write_bytes(b"".join(pem(key) for key in keys))
    beside.chmod(mode)
    beside.replace(path)
    return path

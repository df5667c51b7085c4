"""Keys, certificate and token of one run: made afresh, kept in the run's folder, gone with it.

Knows: X.509, JWT. Must not know: servers, measurements.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import time
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

AUDIENCE = "nim-gateway"
KEY_ID = "bench-1"
LIFETIME = 3600  # seconds; a run takes minutes


def base64url(raw: bytes) -> str:
    """RFC 7515 §2: URL-safe, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def write_certificate(folder: Path) -> None:
    """`tls.crt`, `tls.key` and both in `tls.pem`: self-signed P-256 for localhost and 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "tls.crt").write_bytes(public)
    (folder / "tls.key").write_bytes(private)
    (folder / "tls.pem").write_bytes(public + private)


class Signer:
    """An RS256 key, its public forms, and the tokens it signs."""

    __slots__ = ("_key", "issuer")

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def __repr__(self) -> str:
        return f"<Signer {self.issuer}>"

    def public_pem(self) -> bytes:
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def jwks(self) -> dict[str, Any]:
        """RFC 7517: the set with the one key."""
        numbers = self._key.public_key().public_numbers()
        modulus = base64url(numbers.n.to_bytes(256, "big"))
        exponent = base64url(numbers.e.to_bytes(3, "big"))
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": modulus, "e": exponent}]}

    def token(self) -> str:
        """An access token of RFC 9068 as a provider would issue it, about 900 characters."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "0b6c9f1e-2f7e-4f0e-9a51-5a7f4bb0c7d1",
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": "f2a8d3a6-7c0b-4f34-8f4e-0d7a1a1f5b11",
            "client_id": "notebook",
            "scope": "openid profile infer",
            "preferred_username": "alice",
            "groups": ["data-science", "everybody"],
        }
        head = {"alg": "RS256", "typ": "at+jwt", "kid": KEY_ID}
        signed = ".".join(base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims))
        return f"{signed}.{base64url(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

"""Client certificates, by an authority made for the tests.

Knows: X.509. Must not know: the gateway.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENTS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])


@dataclass(frozen=True, slots=True)
class Certificate:
    """Of a client, with its key, as files and as bytes."""

    certificate: Path
    key: Path
    der: bytes = field(repr=False)

    def show(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Connections with these TLS settings show it from now on."""
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """Vouches for clients. `file` is its certificate."""

    def __init__(self, folder: Path, name: str = "people") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")])
        self._made = 0
        self._prefix = name
        root = self._builder(self._name, self._key, timedelta(days=-1), timedelta(days=30))
        root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.file = folder / f"{name}-ca.pem"
        self.file.write_bytes(root.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(
        self,
        *names: x509.GeneralName,
        common: tuple[str, ...] = (),
        since: timedelta = timedelta(days=-1),
        until: timedelta = timedelta(days=1),
        usage: x509.ExtendedKeyUsage = CLIENTS,
    ) -> Certificate:
        """A certificate with these alternative names and common names, that holds from `since` to `until` from now."""
        self._made += 1
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one) for one in common])
        builder = self._builder(subject, key, since, until).add_extension(usage, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not common)
        made = builder.sign(self._key, hashes.SHA256())
        stem = self._folder / f"{self._prefix}-{self._made}"
        files = stem.with_suffix(".pem"), stem.with_suffix(".key")
        files[0].write_bytes(made.public_bytes(Encoding.PEM))
        files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return Certificate(*files, made.public_bytes(Encoding.DER))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, since: timedelta, until: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC).replace(microsecond=0)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + since)
            .not_valid_after(now + until)
        )

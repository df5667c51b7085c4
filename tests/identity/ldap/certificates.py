"""Certificates of servers that nobody should believe, and one that everybody may."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
ELSEWHERE = x509.DNSName("ldap.elsewhere.test")


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority with its certificate in `file`; it signs whatever the test asks for."""

    file: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    def server(
        self,
        name: x509.GeneralName | None = HERE,
        *,
        common_name: str = "server",
        days: int = 2,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> ssl.SSLContext:
        """Settings of a server with a certificate for `name` that ends in so many days, or ended that long ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(_named(common_name), self.name, key.public_key(), self.key, days, name)
        return _context(self.file.parent, certificate, key, version)


def authority(folder: Path) -> Authority:
    """A new one, in a file in `folder`."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("test authority")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "authority.crt"
    certificate = _certificate(name, name, key.public_key(), key, 10, None, is_authority=True)
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(file, key, name)


def self_signed(folder: Path) -> ssl.SSLContext:
    """Settings of a server whose certificate nobody has vouched for."""
    return authority(folder / "unknown").server()


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
    name: x509.GeneralName | None,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(_usage(is_authority=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if name is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _context(
    folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, version: ssl.TLSVersion
) -> ssl.SSLContext:
    both = folder / f"server-{certificate.serial_number}.pem"
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    both.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    if version < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = version
    return context


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

"""Certificates for development: an authority that may only vouch for this machine, and a server certificate by it; and
a key for the gateway's own tokens.

Knows: X.509, the files. Must not know: who listens with them. The authority's private key is never written, so
that a browser or system that was told to trust it trusts one certificate and nothing anybody could make later.
"""

from __future__ import annotations

import datetime
import errno
import ipaddress
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=90)
#: A certificate that ends sooner is made anew, so that nobody's working week ends with it.
RENEW_BEFORE = datetime.timedelta(days=7)
#: Clocks of containers and virtual machines lag behind now and then.
CLOCK_SKEW = datetime.timedelta(hours=1)

AUTHORITY = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nim-gateway development authority")])
NAMES: tuple[x509.GeneralName, ...] = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)
#: What the authority may vouch for at all (RFC 5280 section 4.2.1.10).
PERMITTED: tuple[x509.GeneralName, ...] = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_network("127.0.0.0/8")),
    x509.IPAddress(ipaddress.ip_network("::1/128")),
)

Now = Callable[[], datetime.datetime]


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the three PEM files are; `key` is readable by its owner only."""

    ca: Path
    certificate: Path
    key: Path


def utc_now() -> datetime.datetime:
    """The time, with its zone."""
    return datetime.datetime.now(datetime.UTC)


def make(folder: Path, now: Now = utc_now) -> Paths:
    """Make `ca.crt`, `tls.crt` and `tls.key` in `folder`, unless a trio that fits and lasts is there already.

    Raises FileExistsError when a certificate of somebody else's authority stands there, and OSError when the folder
    cannot be written.
    """
    paths = Paths(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
    moment = now()
    if lasts(paths, moment):
        return paths
    if _foreign(paths.certificate):
        raise FileExistsError(errno.EEXIST, "holds a certificate that is not a development one", str(paths.certificate))
    folder.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, moment)
    server = _server(server_key.public_key(), authority_key, moment)
    _write(paths.key, _pem(server_key), 0o600)
    _write(paths.certificate, server.public_bytes(serialization.Encoding.PEM), 0o644)
    _write(paths.ca, authority.public_bytes(serialization.Encoding.PEM), 0o644)
    return paths


def make_token_key(folder: Path) -> Path:
    """Make `token-signing.key` in `folder`, unless something of that name is there: tokens would hold no more.

    Raises OSError when the folder cannot be written.
    """
    path = folder / "token-signing.key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, _pem(ec.generate_private_key(ec.SECP256R1())), 0o600)
    return path


def lasts(paths: Paths, moment: datetime.datetime) -> bool:
    """Whether the three files are there, belong together and hold for more than a week from `moment`."""
    try:
        authority = x509.load_pem_x509_certificate(paths.ca.read_bytes())
        server = x509.load_pem_x509_certificate(paths.certificate.read_bytes())
        server.verify_directly_issued_by(authority)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths.certificate, paths.key, "")
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    if paths.key.stat().st_mode & 0o077:
        return False
    ends = min(authority.not_valid_after_utc, server.not_valid_after_utc)
    return ends - moment > RENEW_BEFORE and server.not_valid_before_utc <= moment


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _foreign(certificate: Path) -> bool:
    """Whether overwriting would cost somebody the certificate (and key) of a real authority."""
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).issuer != AUTHORITY
    except (OSError, ValueError):
        return False


def _authority(key: ec.EllipticCurvePrivateKey, moment: datetime.datetime) -> x509.Certificate:
    return (
        _builder(AUTHORITY, AUTHORITY, key.public_key(), moment)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.NameConstraints(permitted_subtrees=list(PERMITTED), excluded_subtrees=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server(
    key: ec.EllipticCurvePublicKey, authority_key: ec.EllipticCurvePrivateKey, moment: datetime.datetime
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        _builder(name, AUTHORITY, key, moment)
        .add_extension(x509.SubjectAlternativeName(NAMES), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(issuer_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, moment: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - CLOCK_SKEW)
        .not_valid_after(moment + LIFETIME)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Whole or not at all, and never readable by others on the way."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        beside.chmod(mode)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise

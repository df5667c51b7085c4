"""TLS for both sides: contexts from files, and a live listener that takes a new certificate.

Knows: certificates, keys, protocol versions, ciphers; imports `ssl` and `cryptography` for their files.
Must not know: who listens, who connects, when files change.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509

from gateway.settings import ClientTls, ServerTls

ALPN: Final = ["http/1.1"]
# For TLS 1.2 only: forward secrecy and authenticated encryption (RFC 9325 §4.2). TLS 1.3 has no others.
CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
LARGEST: Final = 1024 * 1024  # bytes; a bundle of all public authorities has a quarter of it


class TlsError(Exception):
    """A certificate, key or list of authorities that cannot be used; `file` is the one at fault."""

    def __init__(self, file: Path, message: str) -> None:
        super().__init__(message)
        self.file = file


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """What a listener needs. Raises `TlsError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    certificates(tls.certificate)
    _text(tls.key)
    try:
        # Without the password function OpenSSL would ask on the terminal.
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")
    except ssl.SSLError as error:
        raise TlsError(tls.key, _why(error)) from None
    except (OSError, ValueError) as error:
        raise TlsError(tls.key, f"cannot be read: {error}") from None
    if tls.client_ca is not None:
        context.load_verify_locations(cafile=_authorities(tls.client_ca))
        context.verify_mode = ssl.CERT_REQUIRED if tls.client_certificate == "required" else ssl.CERT_OPTIONAL
    return context


def peer_certificate(connection: ssl.SSLObject | None) -> bytes | None:
    """The other side's certificate in DER form, if it was asked for one, showed one and it was verified."""
    if connection is None or connection.context.verify_mode is ssl.CERT_NONE:
        return None
    return connection.getpeercert(binary_form=True)


def client_context(tls: ClientTls | None, protocols: Sequence[str] = ALPN) -> ssl.SSLContext:
    """What a connection to a backend or provider needs; the certificate is always checked. Raises `TlsError`.

    `protocols`: what is spoken within (RFC 7301), nothing for what has no name there.
    """
    ca = tls.ca if tls is not None else None
    context = ssl.create_default_context(cafile=None if ca is None else _authorities(ca))
    # Set since Python 3.13; many companies' authorities lack what it asks for, and no upgrade of Python may lock out.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _harden(context, protocols)
    return context


def expiry(path: Path) -> float:
    """UNIX time in seconds when the first certificate of the file ends. Raises `TlsError`."""
    return certificates(path)[0].not_valid_after_utc.timestamp()


def host_names(path: Path) -> tuple[str, ...]:
    """Whom the first certificate of the file is for: DNS names first, then addresses. Raises `TlsError`."""
    try:
        names = certificates(path)[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    except ValueError:
        raise TlsError(path, "holds a certificate whose names cannot be read") from None
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *(str(address) for address in addresses))


def certificates(path: Path) -> list[x509.Certificate]:
    """The certificates of a PEM file, at least one. Raises `TlsError`."""
    text = _text(path)
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        raise TlsError(path, "holds no certificate in PEM form") from None


def _authorities(file: Path) -> Path:
    """The file, if every certificate in it can be trusted with. Raises `TlsError`."""
    certificates(file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
    except (ssl.SSLError, OSError):
        raise TlsError(file, "holds no usable certificate authority") from None
    return file


def _harden(context: ssl.SSLContext, protocols: Sequence[str] = ALPN) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(protocols)
    # RFC 9325 §3.3 and §3.5: compression leaks, renegotiation costs the server more than the client.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _text(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise TlsError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > LARGEST:
        raise TlsError(path, f"is larger than {LARGEST // 1024} KiB")
    return text


def _why(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "is not the key of the certificate"
    return "holds no key in PEM form that can be used without a password"

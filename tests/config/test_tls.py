"""TLS is modern on both sides, certificates are checked, and a listener takes a new one without stopping."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from gateway.config.load import load
from gateway.config.mistakes import Mistakes
from gateway.settings import ClientTls, ServerTls
from gateway.tls import TlsError, client_context, expiry, server_context
from tests.config.conftest import MINIMAL, Pair, make_pair


def files(folder: Path, pair: Pair) -> ServerTls:
    tls = ServerTls(folder / "tls.crt", folder / "tls.key")
    tls.certificate.write_bytes(pair.certificate)
    tls.key.write_bytes(pair.key)
    return tls


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str | None = "localhost") -> ssl.SSLObject:
    """The client's side of a connection between the two, made in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    for _ in range(10):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return ours


def trusting(folder: Path, pair: Pair) -> ssl.SSLContext:
    ca = folder / "ca.crt"
    ca.write_bytes(pair.certificate)
    return client_context(ClientTls(ca))


def served(connection: ssl.SSLObject) -> bytes:
    certificate = connection.getpeercert(binary_form=True)
    assert certificate is not None
    return ssl.DER_cert_to_PEM_cert(certificate).encode()


def test_both_sides_agree_on_tls_1_3_and_http_1_1(tmp_path: Path, pair: Pair) -> None:
    connection = handshake(server_context(files(tmp_path, pair)), trusting(tmp_path, pair))
    assert connection.version() == "TLSv1.3"
    assert connection.selected_alpn_protocol() == "http/1.1"
    assert connection.compression() is None


def test_tls_1_2_is_the_least_and_has_forward_secrecy(tmp_path: Path, pair: Pair) -> None:
    server, client = server_context(files(tmp_path, pair)), trusting(tmp_path, pair)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    cipher = handshake(server, client).cipher()
    assert cipher is not None
    assert cipher[0].startswith("ECDHE-")
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        client.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        handshake(server, client)


def test_a_backend_is_trusted_by_its_authority_and_name_only(tmp_path: Path, pair: Pair) -> None:
    server = server_context(files(tmp_path, pair))
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        handshake(server, trusting(tmp_path, make_pair()))
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        handshake(server, client_context(None))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server, trusting(tmp_path, pair), "example.com")


@pytest.mark.parametrize(
    ("certificate", "key", "guilty", "words"),
    [
        (None, b"", "tls.crt", "cannot be read: No such file"),
        (b"", None, "tls.crt", "no certificate in PEM form"),
        (b"hello", b"", "tls.crt", "no certificate in PEM form"),
        (b"x" * 1024 * 1025, b"", "tls.crt", "larger than 1024 KiB"),
        ("good", None, "tls.key", "cannot be read: No such file"),
        ("good", b"", "tls.key", "no key in PEM form"),
        ("good", b"hello", "tls.key", "no key in PEM form"),
        ("good", "other", "tls.key", "not the key of the certificate"),
        ("good", "locked", "tls.key", "without a password"),
        ("half", "good", "tls.crt", "no certificate in PEM form"),
    ],
)
def test_files_that_cannot_serve_are_refused_by_name(
    tmp_path: Path, pair: Pair, certificate: bytes | str | None, key: bytes | str | None, guilty: str, words: str
) -> None:
    contents = {
        ("tls.crt", "good"): pair.certificate,
        ("tls.key", "good"): pair.key,
        ("tls.crt", "half"): pair.certificate[: len(pair.certificate) // 2],
        ("tls.key", "other"): make_pair().key,
        ("tls.key", "locked"): make_pair(password=b"hunter2").key,
    }
    for name, content in (("tls.crt", certificate), ("tls.key", key)):
        if content is not None:
            (tmp_path / name).write_bytes(contents[name, content] if isinstance(content, str) else content)
    with pytest.raises(TlsError, match=words) as caught:
        server_context(ServerTls(tmp_path / "tls.crt", tmp_path / "tls.key"))
    assert caught.value.file == tmp_path / guilty


def test_authorities_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match="cannot be read"):
        client_context(ClientTls(tmp_path / "ca.crt"))
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(TlsError, match="no certificate"):
        client_context(ClientTls(tmp_path / "ca.crt"))


def test_expiry_is_that_of_the_first_certificate(tmp_path: Path) -> None:
    first, second = make_pair(3), make_pair(9)
    (tmp_path / "chain.crt").write_bytes(first.certificate + second.certificate)
    assert expiry(tmp_path / "chain.crt") == first.ends.timestamp()


def test_a_listener_with_an_expired_certificate_is_a_mistake(root: Path) -> None:
    files(root, make_pair(-1))
    (root / "gateway.yaml").write_text(MINIMAL)
    with pytest.raises(Mistakes, match=r"gateway.yaml:2:9: tls.crt has expired"):
        load(root / "gateway.yaml", root, environment={})

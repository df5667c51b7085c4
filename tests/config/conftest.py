"""Certificates and complete configurations for the tests of the configuration."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from gateway.config.load import Loaded, load
from gateway.config.mistakes import Mistakes

MINIMAL = """\
listen:
  tls: {certificate: tls.crt, key: tls.key}
identity:
  oidc:
    - name: corp
      issuer: https://idp.example.com
      audience: [nim-gateway]
policies: policies
pools:
  - name: llama
    protocols: [openai]
    models: [{name: llama}]
    backends: [{url: http://10.0.0.11:8000}]
"""

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate for localhost that is its own authority, and its key, as PEM."""

    certificate: bytes
    key: bytes
    ends: datetime.datetime


def make_pair(days: int = 1, *, kind: str = "ec", password: bytes | None = None) -> Pair:
    """A pair that ends in `days`, or ended that long ago."""
    key: Key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"localhost {kind} {days}")])
    ends = now + datetime.timedelta(days=days)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    hide = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, hide)
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), pem, ends)


def taken(path: Path, **environment: str) -> Loaded:
    return load(path, path.parent, environment=environment)


def refused(path: Path, **environment: str) -> list[str]:
    """What is said, as `line:column: message`."""
    with pytest.raises(Mistakes) as caught:
        taken(path, **environment)
    lines = [str(mistake) for mistake in caught.value.mistakes]
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


@pytest.fixture(scope="session")
def pair() -> Pair:
    return make_pair()


@pytest.fixture
def root(tmp_path: Path, pair: Pair) -> Path:
    """A folder with everything that `MINIMAL` names."""
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    (tmp_path / "tls.key").chmod(0o600)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "rules.yaml").write_text("version: 1\n")
    return tmp_path


@pytest.fixture
def write(root: Path) -> Callable[[str], Path]:
    """Put a configuration into the folder; the path of the file."""

    def put(text: str) -> Path:
        path = root / "gateway.yaml"
        path.write_text(text)
        return path

    return put

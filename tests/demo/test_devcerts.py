"""Development certificates: what a client that trusts the authority sees, and when they are made anew."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from gateway import devcerts
from gateway.devcerts import LIFETIME, RENEW_BEFORE, Paths
from gateway.identity.signatures import signing

SCRIPT = Path(__file__).resolve().parents[2] / "certs" / "make_dev_certs.py"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return devcerts.make(tmp_path / "made")


async def handshake(paths: Paths, name: str) -> None:
    """Connect with only the authority trusted and `name` expected. Raises ssl.SSLError."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(paths.certificate, paths.key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=serving)
    async with server:
        port = server.sockets[0].getsockname()[1]
        trust = ssl.create_default_context(cafile=paths.ca)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
async def test_a_client_that_trusts_the_authority_accepts_the_names_of_this_machine(paths: Paths, name: str) -> None:
    await handshake(paths, name)


@pytest.mark.parametrize("name", ["example.com", "127.0.0.2", "a.localhost"])
async def test_no_other_name_is_accepted(paths: Paths, name: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(paths, name)


def test_the_authority_may_vouch_for_this_machine_only_and_its_key_is_nowhere(paths: Paths) -> None:
    authority = x509.load_pem_x509_certificate(paths.ca.read_bytes())
    constraints = authority.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    permitted = {str(name.value) for name in constraints.value.permitted_subtrees or ()}
    assert permitted == {"localhost", "127.0.0.0/8", "::1/128"}
    assert {file.name for file in paths.ca.parent.iterdir()} == {"ca.crt", "tls.crt", "tls.key"}


def test_a_key_for_tokens_is_made_once_and_taken_by_the_gateway(tmp_path: Path) -> None:
    key = devcerts.make_token_key(tmp_path / "made")
    before = key.read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [one.algorithm for one in signing.read(key)] == ["ES256"]
    assert devcerts.make_token_key(tmp_path / "made").read_bytes() == before


def test_the_key_is_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        paths = devcerts.make(tmp_path)
    finally:
        os.umask(before)
    assert paths.key.stat().st_mode & 0o777 == 0o600


def contents(paths: Paths) -> list[bytes]:
    return [file.read_bytes() for file in (paths.ca, paths.certificate, paths.key)]


def test_what_lasts_is_kept_and_what_ends_soon_is_made_anew(paths: Paths) -> None:
    first = contents(paths)
    made = x509.load_pem_x509_certificate(paths.certificate.read_bytes())
    ends = made.not_valid_after_utc
    assert abs(ends - datetime.datetime.now(datetime.UTC) - LIFETIME) < datetime.timedelta(minutes=5)
    second = datetime.timedelta(seconds=1)
    devcerts.make(paths.ca.parent, now=lambda: ends - RENEW_BEFORE - second)
    assert contents(paths) == first
    devcerts.make(paths.ca.parent, now=lambda: ends - RENEW_BEFORE)
    assert not set(contents(paths)) & set(first)


def test_a_clock_before_the_certificate_begins_makes_a_new_one(paths: Paths) -> None:
    first = contents(paths)
    begins = x509.load_pem_x509_certificate(paths.certificate.read_bytes()).not_valid_before_utc
    devcerts.make(paths.ca.parent, now=lambda: begins - datetime.timedelta(days=1))
    assert contents(paths) != first


def spoil(file: Path, other: Path, content: bytes | str | None) -> None:
    """Delete `file`, or put `content` or (for a word) what `other` holds into it."""
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content if isinstance(content, bytes) else other.read_bytes())


@pytest.mark.parametrize("broken", ["ca", "certificate", "key"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN NONSENSE-----\n", "other"])
async def test_a_trio_that_does_not_fit_is_made_anew(
    paths: Paths, tmp_path: Path, broken: str, content: bytes | str | None
) -> None:
    spoil(getattr(paths, broken), getattr(devcerts.make(tmp_path / "other"), broken), content)
    devcerts.make(paths.ca.parent)
    await handshake(paths, "localhost")


def test_a_key_that_others_may_read_is_replaced(paths: Paths) -> None:
    before = paths.key.read_bytes()
    paths.key.chmod(0o644)
    devcerts.make(paths.ca.parent)
    assert paths.key.read_bytes() != before
    assert paths.key.stat().st_mode & 0o777 == 0o600


def test_a_certificate_of_a_real_authority_is_never_overwritten(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        real = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Some Company CA")])
        patch.setattr(devcerts, "AUTHORITY", real)
        theirs = devcerts.make(tmp_path / "theirs")
    theirs.ca.unlink()
    before = [theirs.certificate.read_bytes(), theirs.key.read_bytes()]
    with pytest.raises(FileExistsError, match=r"not a development one.*tls\.crt"):
        devcerts.make(theirs.ca.parent)
    assert [theirs.certificate.read_bytes(), theirs.key.read_bytes()] == before


def test_the_script_makes_them_where_it_is_told_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "x"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path / "x" / "tls.key") in done.stdout
    (tmp_path / "file").touch()
    failed = subprocess.run([sys.executable, SCRIPT, tmp_path / "file"], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1

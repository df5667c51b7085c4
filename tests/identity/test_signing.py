"""The file of the gateway's own keys: which ones are taken, what is published of them, what is wrong with others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.signatures.jwk import PRIVATE_MEMBERS, signing_keys
from gateway.identity.signatures.signing import FILE_LIMIT, KEYS_LIMIT, key_set, own_keys, read, thumbprint
from gateway.settings import ALGORITHMS
from tests.identity.pems import MAKERS, key_file, pem, private, public_pem

GOOD = pem(private("ES256"))


@pytest.mark.parametrize("algorithm", MAKERS)
def test_a_key_of_each_kind_signs_as_its_kind_does_and_is_published_for_everybody_to_check(algorithm: str) -> None:
    (key,) = own_keys(pem(private(algorithm)))
    published = json.loads(json.dumps(key_set([key])))
    (seen,), left_out = signing_keys(published, ALGORITHMS)

    assert (key.algorithm, seen.kid, left_out) == (algorithm, key.kid, ())
    assert seen.algorithms == {algorithm}
    assert seen == key.verifying


@pytest.mark.parametrize("algorithm", MAKERS)
def test_nothing_private_is_published_or_printed(algorithm: str) -> None:
    keys = own_keys(pem(private(algorithm)))
    assert PRIVATE_MEMBERS.isdisjoint(key_set(keys)["keys"][0])  # type: ignore[index]
    assert "PrivateKey" not in repr(keys)


def test_the_first_key_is_the_first_of_the_file() -> None:
    several = [private("RS256"), private("ES256"), private("EdDSA")]
    assert [key.algorithm for key in own_keys(b"".join(map(pem, several)))] == ["RS256", "ES256", "EdDSA"]


def test_a_key_is_called_by_its_thumbprint() -> None:
    """The example of RFC 7638 section 3.1, with what does not belong to the key beside it."""
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj"
        "hMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvR"
        "L5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDK"
        "gw"
    )
    jwk = {"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"}
    assert thumbprint(jwk) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def test_the_forms_that_tools_write_are_read(tmp_path: Path) -> None:
    """What OpenSSL writes of old and of late, also with the name of the curve before the key."""
    made = subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey"], check=True, capture_output=True
    ).stdout
    assert b"EC PARAMETERS" in made
    texts = [made, pem(private("RS256"), PrivateFormat.TraditionalOpenSSL), pem(private("EdDSA"))]
    keys = own_keys(b"# the key of this year\n" + b"\n\n".join(texts))
    assert [key.algorithm for key in keys] == ["ES256", "RS256", "EdDSA"]


REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "no private key"),
    "not PEM": (b"secret", "no private key"),
    "a public key": (public_pem(private("ES256")), "only private keys"),
    "a public key behind a good one": (GOOD + public_pem(private("ES256")), "only private keys"),
    "a password": (pem(private("ES256"), password=b"secret"), "with a password"),
    "an old password": (pem(private("RS256"), PrivateFormat.TraditionalOpenSSL, b"secret"), "with a password"),
    "P-521": (pem(ec.generate_private_key(ec.SECP521R1())), "P-256 or P-384"),
    "the curve of Bitcoin": (pem(ec.generate_private_key(ec.SECP256K1())), "P-256 or P-384"),
    "RSA 1024": (pem(rsa.generate_private_key(65537, 1024)), "2048 to 4096 bits"),  # noqa: S505  that is the point
    "X25519": (pem(x25519.X25519PrivateKey.generate()), "not one of"),
    "DSA": (pem(dsa.generate_private_key(2048)), "not one of"),
    "twice": (GOOD + GOOD, "twice"),
    "cut off": (GOOD[:-10], "cut off"),
    "cut off behind a good one": (pem(private("EdDSA")) + GOOD[:-10], "cut off"),
    "damaged": (GOOD.replace(b"\nM", b"\nA", 1), "cannot be read"),
    "too many": (b"".join(pem(private("EdDSA", number)) for number in range(KEYS_LIMIT + 1)), "more than"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_set_of_signing_keys_is_refused_with_the_file_and_the_reason(name: str, tmp_path: Path) -> None:
    text, reason = REFUSED[name]
    path = tmp_path / "tokens.key"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match=reason) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path} ")
    assert not any(line in str(caught.value) for line in text.decode().splitlines() if len(line) > 10)


@pytest.mark.parametrize(("mode", "taken"), [
    (0o600, True), (0o400, True), (0o640, True), (0o440, True),
    (0o644, False), (0o604, False), (0o660, False), (0o620, False), (0o602, False), (0o601, False), (0o777, False),
])  # fmt: skip
def test_a_key_that_others_could_read_or_its_group_replace_is_not_used(mode: int, taken: bool, tmp_path: Path) -> None:
    path = key_file(tmp_path / "tokens.key", private("ES256"), mode=mode)
    if taken:
        assert len(read(path)) == 1
        return
    with pytest.raises(ValueError, match=f"tokens.key has mode {mode:04o}"):
        read(path)


def test_the_mode_of_what_a_link_leads_to_counts(tmp_path: Path) -> None:
    """Kubernetes mounts a secret as links to files of another folder."""
    (tmp_path / "data").mkdir()
    target = key_file(tmp_path / "data" / "tokens.key", private("ES256"), mode=0o440)
    link = tmp_path / "tokens.key"
    link.symlink_to(target)
    assert len(read(link)) == 1
    target.chmod(0o444)
    with pytest.raises(ValueError, match="mode 0444"):
        read(link)


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone\.key cannot be read: No such file"):
        read(tmp_path / "gone.key")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_a_file_that_is_far_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "tokens.key"
    path.touch(mode=0o600)
    path.write_bytes(b" " * (FILE_LIMIT + 1))
    with pytest.raises(ValueError, match="larger than 64 KiB"):
        read(path)


@given(st.binary(max_size=300), st.integers(0, len(GOOD)), st.integers(0, 40))
def test_whatever_stands_in_the_file_is_keys_or_a_reason(noise: bytes, place: int, cut: int) -> None:
    for text in (noise, GOOD[:place] + noise + GOOD[place + cut :]):
        try:
            assert own_keys(text)
        except ValueError as error:
            assert str(error).startswith(("holds ", "is "))  # noqa: PT017  what follows the name of the file

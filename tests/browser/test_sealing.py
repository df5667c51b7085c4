"""What a browser keeps for the gateway can be read and made by nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.signatures.signing import secret_of
from gateway.portal.sealing import Seal

NOW = 1_900_000_000.0
OLD, NEW, OTHER = b"o" * 32, b"n" * 32, b"x" * 32


def seal(*secrets: bytes, purpose: str = "test", now: Callable[[], float] = lambda: NOW) -> Seal:
    return Seal(lambda: secrets, purpose, now)


@given(st.binary(max_size=300))
def test_what_was_sealed_is_had_again_and_cannot_be_read(content: bytes) -> None:
    text = seal(OLD).close(content)
    assert seal(OLD).open(text, 60) == content
    assert len(content) < 8 or content not in text.encode()
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=")


@given(st.binary(max_size=100), st.data())
def test_a_value_that_was_meddled_with_is_never_read_as_another_one(content: bytes, data: st.DataObject) -> None:
    text = seal(OLD).close(content)
    place = data.draw(st.integers(0, len(text) - 1))
    put = data.draw(st.text(max_size=3))
    changed = text[:place] + put + text[place + data.draw(st.integers(0, 3)) :]
    assert seal(OLD).open(changed, 60) in {None, content}  # base64 has spellings that say the same


@pytest.mark.parametrize("place", range(0, 100, 3))
def test_no_single_changed_byte_is_taken(place: int) -> None:
    text = seal(OLD).close(b"0123456789" * 4)
    other = "A" if text[place] != "A" else "B"
    assert seal(OLD).open(text[:place] + other + text[place + 1 :], 60) is None


@given(st.text(max_size=200))
def test_no_other_text_is_taken(text: str) -> None:
    assert seal(OLD).open(text, 60) is None


def test_another_purpose_or_secret_opens_nothing() -> None:
    text = seal(OLD).close(b"content")
    assert seal(OLD, purpose="other").open(text, 60) is None
    assert seal(OTHER).open(text, 60) is None


def test_a_new_secret_before_the_old_one_opens_what_the_old_one_sealed_and_seals_by_itself() -> None:
    assert seal(NEW, OLD).open(seal(OLD).close(b"content"), 60) == b"content"
    assert seal(NEW).open(seal(NEW, OLD).close(b"content"), 60) == b"content"
    assert seal(OLD).open(seal(NEW, OLD).close(b"content"), 60) is None


def test_secrets_are_those_of_the_moment() -> None:
    secrets = [OLD]
    living = Seal(lambda: tuple(secrets), "test", lambda: NOW)
    text = living.close(b"content")
    secrets[:] = [OTHER]
    assert living.open(text, 60) is None


@pytest.mark.parametrize("private", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())])
def test_who_reads_the_same_private_key_has_the_same_secret(private: rsa.RSAPrivateKey) -> None:
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    again = load_pem_private_key(pem, None)
    assert seal(secret_of(again)).open(seal(secret_of(private)).close(b"content"), 60) == b"content"


def test_a_value_is_as_good_as_its_age_allows() -> None:
    text = seal(OLD).close(b"content")
    assert seal(OLD, now=lambda: NOW + 60).open(text, 60) == b"content"
    assert seal(OLD, now=lambda: NOW + 62).open(text, 60) is None

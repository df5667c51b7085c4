"""What the gateway writes to a provider as an OAuth client, read as a provider would; and which answers count."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, parse_qsl, unquote_plus

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from gateway.fetch import Fetched
from gateway.identity.provider.oauth import Client, OddAnswer, Request, introspected, introspection
from gateway.settings import OAuthClient

AT = "https://idp.test/introspect"
NOW = 1_900_000_000


def pem(key: object, password: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    raw: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)  # type: ignore[attr-defined]
    return raw


def field_of(request: Request, name: bytes) -> str | None:
    return next((value.decode() for key, value in request.fields if key == name), None)


def test_a_token_is_asked_about_with_the_secret_of_the_client() -> None:
    asked = introspection(Client(OAuthClient("gateway", client_secret="s3")), AT, "abc.def~1")
    assert asked.url == AT
    assert parse_qs(asked.body.decode()) == {"token": ["abc.def~1"], "token_type_hint": ["access_token"]}
    assert field_of(asked, b"content-type") == "application/x-www-form-urlencoded"
    assert field_of(asked, b"authorization") == "Basic " + base64.b64encode(b"gateway:s3").decode()
    assert "abc" not in repr(asked)


@given(name=st.text(min_size=1), secret=st.text(min_size=1))
def test_any_name_and_secret_arrive_as_they_are(name: str, secret: str) -> None:
    """RFC 6749 section 2.3.1: both are form-encoded before they are joined with a colon."""
    asked = introspection(Client(OAuthClient(name, client_secret=secret)), AT, "t")
    told = field_of(asked, b"authorization") or ""
    pair = base64.b64decode(told.removeprefix("Basic ")).decode().split(":")
    assert [unquote_plus(one) for one in pair] == [name, secret]


@pytest.mark.parametrize(
    ("key", "algorithm", "read"),
    [
        (rsa.generate_private_key(65537, 2048), "RS256", RSAKey),
        (ec.generate_private_key(ec.SECP256R1()), "ES256", ECKey),
        (ec.generate_private_key(ec.SECP384R1()), "ES384", ECKey),
        (ec.generate_private_key(ec.SECP521R1()), "ES512", ECKey),
    ],
)
def test_a_client_with_a_key_signs_a_new_short_lived_statement_each_time(
    key: object, algorithm: str, read: type[RSAKey | ECKey]
) -> None:
    client = Client(OAuthClient("gateway"), pem(key), lambda: NOW)
    seen = set()
    for _ in range(2):
        asked = introspection(client, AT, "t")
        form = dict(parse_qsl(asked.body.decode()))
        assert form["token"] == "t"
        assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assert field_of(asked, b"authorization") is None
        told = jwt.decode(form["client_assertion"], read.import_key(pem(key)), algorithms=[algorithm]).claims
        assert {name: told[name] for name in ("iss", "sub", "aud")} == {"iss": "gateway", "sub": "gateway", "aud": AT}
        assert (told["iat"], told["exp"]) == (NOW, NOW + 60)
        seen.add(told["jti"])
    assert len(seen) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(ec.generate_private_key(ec.SECP256R1()), b"pw"),
        pem(ec.generate_private_key(ec.SECP256K1())),
        pem(rsa.generate_private_key(65537, 1024)),  # noqa: S505  it is the point
        pem(dsa.generate_private_key(2048)),
        pem(ed25519.Ed25519PrivateKey.generate()),
    ],
    ids=["nothing", "no key", "encrypted", "another curve", "too short", "DSA", "Ed25519"],
)
def test_a_key_that_cannot_sign_is_refused_at_start(content: bytes) -> None:
    with pytest.raises(ValueError, match="private key of OAuth client gateway cannot be used: it is n"):
        Client(OAuthClient("gateway"), content)


def test_a_client_without_secret_and_key_says_its_name() -> None:
    asked = introspection(Client(OAuthClient("gateway")), AT, "t")
    assert parse_qs(asked.body.decode())["client_id"] == ["gateway"]


def answer(status: int, body: object) -> Fetched:
    return Fetched(status, body if isinstance(body, bytes) else json.dumps(body).encode(), ())


def test_only_true_and_false_say_whether_a_token_is_active() -> None:
    assert introspected(answer(200, {"active": True, "sub": "alice"})) == {"active": True, "sub": "alice"}
    assert introspected(answer(200, {"active": False})) is None
    odd: object
    for odd in ("true", 1, None, [True], {}, 0, "false"):
        with pytest.raises(OddAnswer, match="does not say"):
            introspected(answer(200, {"active": odd}))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""), (200, b"<html>"), (200, b"[]"), (200, b"true"), (200, b'{"active":true'), (200, {}), (200, b"null"),
        (204, b""), (302, b""), (400, {"error": "invalid_request"}), (404, {"active": False}), (429, b""),
        (500, {"active": True}), (503, b"<html>"), (201, {"active": True}), (200, {"Active": True}),
        (200, b'{"active":false,"active":true}'), (200, b'{"active":true,"sub":"alice","sub":"bob"}'),
        (200, b'{"active":true,"cnf":{"jkt":"a","jkt":"b"}}'), (200, b'{"active":true,"\\u0061ctive":false}'),
        (200, b'{"active":true,"x":' + b"[" * 40 + b"]" * 40 + b"}"),
    ],
)  # fmt: skip
def test_an_odd_answer_is_never_a_verdict(status: int, body: object) -> None:
    with pytest.raises(OddAnswer) as caught:
        introspected(answer(status, body))
    assert not caught.value.ours


@pytest.mark.parametrize(
    ("status", "body"), [(401, b""), (403, b"no"), (401, {"active": True}), (400, {"error": "invalid_client"})]
)
def test_it_is_told_when_the_provider_does_not_take_the_gateway(status: int, body: object) -> None:
    with pytest.raises(OddAnswer, match="does not accept this client") as caught:
        introspected(answer(status, body))
    assert caught.value.ours


def test_an_error_is_told_by_its_code_and_not_by_what_else_was_sent() -> None:
    for code, told in (("unsupported_token_type", "status 400 (unsupported_token_type)"), ("a b\nc", "status 400")):
        with pytest.raises(OddAnswer) as caught:
            introspected(answer(400, {"error": code, "error_description": "secret"}))
        assert str(caught.value) == told


@given(status=st.integers(200, 599), body=st.binary(max_size=60))
def test_any_answer_at_all_is_a_verdict_or_odd(status: int, body: bytes) -> None:
    try:
        introspected(answer(status, body))
    except OddAnswer:
        return
    assert status == 200

"""Tokens that each have one thing wrong, by name, each made for the issuer it claims."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.identity.signers import (
    Mint,
    b64,
    ec_signer,
    ed_signer,
    hmac_token,
    part,
    rsa_signer,
)

Forge = Callable[[Mint], str]


def saying(**claims: object) -> Forge:
    """The provider's own key, one claim changed."""
    return lambda mint: mint.good.sign(mint.claims(**claims))


def timed(**offsets: float) -> Forge:
    """The provider's own key, some times changed to so many seconds after the moment of signing."""
    return lambda mint: mint.token(**{name: mint.now + offset for name, offset in offsets.items()})


def headed(**header: object) -> Forge:
    """The provider's own key, one header parameter changed."""
    return lambda mint: mint.good.sign(mint.claims(), **header)


def payload(text: str | bytes) -> Forge:
    """The provider's own key over exactly this payload."""
    raw = text.encode() if isinstance(text, str) else text
    return lambda mint: mint.good.sign_raw(part({"alg": "RS256", "kid": "k1"}), b64(raw))


def raw_header(text: str | bytes) -> Forge:
    """The provider's own key under exactly this header."""
    raw = text.encode() if isinstance(text, str) else text
    return lambda mint: mint.good.sign_raw(b64(raw), part(mint.claims()))


def written(**raw: str) -> Forge:
    """The provider's own key, one claim written in JSON that `json.dumps` would not write."""

    def forge(mint: Mint) -> str:
        rest = json.dumps({k: v for k, v in mint.claims().items() if k not in raw})[1:]
        return payload("{" + "".join(f'"{k}": {v}, ' for k, v in raw.items()) + rest)(mint)

    return forge


def edited(change: Callable[[list[str]], Any]) -> Forge:
    """A good token whose three parts are changed after it was signed."""

    def forge(mint: Mint) -> str:
        parts = mint.token().split(".")
        return ".".join(change(parts) or parts)

    return forge


def _next_letter(parts: list[str]) -> list[str]:
    """The last letter of 256 bytes carries four bits that mean nothing; this changes only those."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = letters[letters.index(parts[2][-1]) + 1]
    return [parts[0], parts[1], parts[2][:-1] + last]


def secret(make: Callable[[Mint], bytes], **header: object) -> Forge:
    return lambda mint: hmac_token(make(mint), mint.claims(), **({"kid": "k1"} | header))


def unsigned(alg: str) -> Forge:
    return lambda mint: f"{part({'alg': alg, 'kid': 'k1'})}.{part(mint.claims())}."


def _public(mint: Mint, encoding: Encoding, form: PublicFormat = PublicFormat.SubjectPublicKeyInfo) -> bytes:
    return bytes(mint.good.private.public_key().public_bytes(encoding, form))


CLAIMS: dict[str, Forge] = {
    "no aud": saying(aud=...),
    "aud empty list": saying(aud=[]),
    "aud empty": saying(aud=""),
    "aud other case": saying(aud="GW"),
    "aud of another": saying(aud="account"),
    "aud null": saying(aud=None),
    "aud number": saying(aud=123),
    "aud object": saying(aud={"gw": 1}),
    "aud list with odd entries": saying(aud=["gw", 1]),
    "aud nested list": saying(aud=[["gw"]]),
    "aud substring": saying(aud="gw-admin"),
    "aud with a space": saying(aud="gw "),
    "no exp": saying(exp=...),
    "exp null": saying(exp=None),
    "exp string": lambda mint: mint.token(exp=str(int(mint.now) + 3600)),
    "exp true": saying(exp=True),
    "exp list": lambda mint: mint.token(exp=[mint.now + 60]),
    "exp NaN": written(exp="NaN"),
    "exp Infinity": written(exp="Infinity"),
    "exp 1e400": written(exp="1e400"),
    "exp 1e300": written(exp="1e300"),
    "exp with 300 digits": written(exp="9" * 300),
    "exp negative": saying(exp=-1),
    "exp zero": saying(exp=0),
    "exp past the leeway": timed(exp=-60),
    "nbf in ten minutes": timed(nbf=600),
    "nbf string": saying(nbf="0"),
    "nbf null": saying(nbf=None),
    "iat in ten minutes": timed(iat=600),
    "iat true": saying(iat=True),
    "no iss": saying(iss=...),
    "iss null": saying(iss=None),
    "iss list": lambda mint: mint.token(iss=[mint.iss]),
    "iss with a slash": lambda mint: mint.token(iss=mint.iss + "/"),
    "iss in capitals": lambda mint: mint.token(iss=mint.iss.upper()),
    "iss of another": saying(iss="https://evil.test"),
    "no sub": saying(sub=...),
    "sub empty": saying(sub=""),
    "sub null": saying(sub=None),
    "sub number": saying(sub=7),
    "sub list": saying(sub=["alice"]),
    "sub with a line break": saying(sub="alice\r\nx-admin: 1"),
    "sub with a lone surrogate": written(sub='"\\ud800"'),
    "sub of 10 kB": saying(sub="a" * 10_000),
    "sub twice": written(sub='"root", "sub": "alice"'),
    "aud twice": written(aud='"other", "aud": "gw"'),
    "a name twice deep inside": written(x='{"a": {"b": 1, "b": 2}}'),
    "logout token": saying(events={"http://schemas.openid.net/event/backchannel-logout": {}}),
    "bound to a DPoP key": saying(cnf={"jkt": "0" * 43}),
    "bound to a certificate": saying(cnf={"x5t#S256": "0" * 43}),
    "bound to both": saying(cnf={"x5t#S256": "0" * 43, "jkt": "0" * 43}),
    "bound to what is no thumbprint": saying(cnf={"jkt": "x"}),
    "bound to a certificate and more": saying(cnf={"x5t#S256": "0" * 43, "kid": "x"}),
    "bound to a key by its name": saying(cnf={"kid": "0" * 43}),
    "bound to a key in full": saying(cnf={"jwk": {"kty": "OKP", "crv": "Ed25519", "x": "0" * 43}}),
    "bound to another hash": saying(cnf={"x5t": "0" * 27}),
    "bound to nothing": saying(cnf={}),
    "bound to null": saying(cnf=None),
    "bound to a list": saying(cnf=["jkt"]),
    "bound to a list of thumbprints": saying(cnf={"jkt": ["0" * 43]}),
    "Keycloak ID token": saying(typ="ID"),
    "Keycloak refresh token": saying(typ="Refresh"),
    "Keycloak offline token": saying(typ="Offline"),
    "typ claim odd": saying(typ=["Bearer"]),
    "Cognito ID token": saying(token_use="id"),
    "ID token of another application": saying(aud="spa", nonce="n", at_hash="x"),
}
HEADERS: dict[str, Forge] = {
    "crit": headed(crit=["x"], x=1),
    "crit empty": headed(crit=[]),
    "crit null": headed(crit=None),
    "b64 false": headed(b64=False, crit=["b64"]),
    "b64 alone": headed(b64=True),
    "typ of a DPoP proof": headed(typ="dpop+jwt"),
    "typ of a logout token": headed(typ="logout+jwt"),
    "typ null": headed(typ=None),
    "typ list": headed(typ=["JWT"]),
    "typ number": headed(typ=1),
    "kid number": headed(kid=1),
    "kid list": headed(kid=["k1"]),
    "kid object": headed(kid={"a": 1}),
    "kid unknown": headed(kid="k9"),
    "kid a path": headed(kid="../../etc/passwd"),
    "kid an injection": headed(kid="' or 1=1"),
    "kid of 9 kB": headed(kid="k" * 9_000),
    "alg list": headed(alg=["RS256"]),
    "alg null": headed(alg=None),
    "alg missing": headed(alg=...),
    "alg empty": headed(alg=""),
    "alg lower case": headed(alg="rs256"),
    "alg of another family": headed(alg="ES256"),
    "alg stronger than signed": headed(alg="RS512"),
    "alg PS256 over a PKCS1 signature": headed(alg="PS256"),
    "alg EdDSA over an RSA key": headed(alg="EdDSA"),
    "alg of encryption": headed(alg="RSA-OAEP"),
    "alg dir": headed(alg="dir"),
    "alg twice": raw_header('{"alg":"none","alg":"RS256","kid":"k1"}'),
    "header list": raw_header("[]"),
    "header string": raw_header('"x"'),
    "header empty object": raw_header("{}"),
    "header not JSON": raw_header("{alg:RS256}"),
    "header of escaped quotes without an end": raw_header('"' + '\\"' * 5900),
    "header nested 6,000 deep": raw_header("[" * 6000 + "]" * 6000),
    "header nested 40 deep": raw_header('{"alg":"RS256","x":' + "[" * 40 + "]" * 40 + "}"),
    "header nested 990 deep": raw_header('{"alg":"RS256","x":' + "[" * 990 + "]" * 990 + "}"),
    "header not UTF-8": raw_header(b'{"alg":"RS256","x":"\xff"}'),
    "header UTF-16": raw_header('{"alg":"RS256"}'.encode("utf-16")),
    "header with a byte order mark": raw_header('\ufeff{"alg":"RS256","kid":"k1"}'),
}
PAYLOADS: dict[str, Forge] = {
    "payload list": payload("[]"),
    "payload not JSON": payload("hello"),
    "payload null": payload("null"),
    "payload a token": lambda mint: payload(mint.token())(mint),
    "payload of escaped quotes without an end": payload('{"iss":"' + '\\"' * 5900),
    "payload nested 6,000 deep": payload("[" * 6000 + "]" * 6000),
    "payload nested 40 deep": written(x="[" * 40 + "]" * 40),
    "payload nested 990 deep": written(x="[" * 990 + "]" * 990),
}
SIGNATURES: dict[str, Forge] = {
    "no signature": edited(lambda p: [p[0], p[1], ""]),
    "signature cut off": edited(lambda p: [p[0], p[1]]),
    "signature halved": edited(lambda p: [p[0], p[1], p[2][: len(p[2]) // 2]]),
    "signature of zeros": edited(lambda p: [p[0], p[1], b64(bytes(256))]),
    "signature spelt otherwise": edited(_next_letter),
    "signature padded": edited(lambda p: [p[0], p[1], p[2] + "=="]),
    "signature twice": edited(lambda p: [*p, p[2]]),
    "claims exchanged": lambda mint: edited(lambda p: [p[0], part(mint.claims(sub="root")), p[2]])(mint),
    "header exchanged": edited(lambda p: [part({"alg": "RS256"}), p[1], p[2]]),
    "encrypted form": edited(lambda p: [*p, "", ""]),
    "another key under the same kid": lambda mint: rsa_signer("x").named("k1").sign(mint.claims()),
    "another key without a kid": lambda mint: rsa_signer("x").named(None).sign(mint.claims(), kid=...),
    "EC key under the kid of the RSA key": lambda mint: ec_signer("x").named("k1").sign(mint.claims()),
    "Ed25519 key under the kid of the RSA key": lambda mint: ed_signer("x").named("k1").sign(mint.claims()),
    "own key in jwk": lambda mint: rsa_signer("x").sign(mint.claims(), jwk=rsa_signer("x").jwk()),
    "own key in jwk under the known kid": lambda mint: (
        rsa_signer("x").named("k1").sign(mint.claims(), jwk=rsa_signer("x").jwk())
    ),
    "own key behind jku": lambda mint: rsa_signer("x").sign(mint.claims(), jku="https://evil.test/k"),
    "own key behind x5u": lambda mint: rsa_signer("x").sign(mint.claims(), x5u="https://evil.test/c"),
    "own key in x5c": lambda mint: rsa_signer("x").sign(mint.claims(), x5c=["MIIB"]),
    "HS256 with the PEM": secret(lambda mint: _public(mint, Encoding.PEM)),
    "HS256 with the PEM, no line break": secret(lambda mint: _public(mint, Encoding.PEM).strip()),
    "HS256 with the DER": secret(lambda mint: _public(mint, Encoding.DER)),
    "HS256 with the PKCS1 DER": secret(lambda mint: _public(mint, Encoding.DER, PublicFormat.PKCS1)),
    "HS256 with the JWK": secret(lambda mint: json.dumps(mint.good.jwk()).encode()),
    "HS256 with the modulus": secret(lambda mint: mint.good.jwk()["n"].encode()),
    "HS256 with nothing": secret(lambda _: b""),
    "HS256 called RS256": secret(lambda mint: _public(mint, Encoding.DER), alg="RS256"),
    **{f"alg {name!r}": unsigned(name) for name in ("none", "None", "nOnE", "NONE")},
    "alg none with a signature": lambda mint: mint.good.sign(mint.claims(), alg="none"),
}
SHAPES: dict[str, Forge] = {
    "nothing": lambda _: "",
    "two dots": lambda _: "..",
    "two parts": lambda _: "a.b",
    "four parts": lambda _: "a.b.c.d",
    "five parts": lambda _: "a.b.c.d.e",
    "16 KiB of dots": lambda _: "." * 16_384,
    "17 kB": saying(padding="x" * 12_700),
    "opaque": lambda _: "ya29.fake",
    "opaque word": lambda _: "sk-1234567890",
    "a zero byte": lambda _: "a\0b",
    "a letter of Latin-1": lambda _: "\xe9.\xe9.\xe9",
    "in quotes": lambda mint: f'"{mint.token()}"',
    "with a comma": lambda mint: f"{mint.token()},{mint.token()}",
    "with another behind": lambda mint: f"{mint.token()} {mint.token()}",
    "with another scheme behind": lambda mint: f"{mint.token()}, Bearer {mint.token()}",
}
FORGED = CLAIMS | HEADERS | PAYLOADS | SIGNATURES | SHAPES

#: Those that could be signed by a key newer than what is known, so that one fetch is due.
UNKNOWN_KEY = {
    "kid unknown", "kid a path", "kid an injection", "kid of 9 kB", "header exchanged", "another key without a kid",
    "own key in jwk", "own key behind jku", "own key behind x5u", "own key in x5c",
}  # fmt: skip

#: The other side: tokens that look odd and are good.
GOOD: dict[str, Forge] = {
    "plain": saying(),
    "exp with a fraction": timed(exp=0.5),
    "expired within the leeway": timed(exp=-30),
    "not yet valid within the leeway": timed(nbf=30, iat=30),
    "no iat": saying(iat=...),
    "one audience in a list": saying(aud=["gw"]),
    "one audience of several": saying(aud=["x", "gw"]),
    "typ at+jwt": headed(typ="at+jwt"),
    "typ application/at+jwt": headed(typ="application/AT+jwt"),
    "typ jwt": headed(typ="jwt"),
    "no typ": headed(typ=...),
    "no kid": headed(kid=...),
    "header names more": headed(x5t="abc", jku="https://evil.test/keys", nonce="n"),
    "Keycloak's typ claim": saying(typ="Bearer"),
    "an ID token made for this gateway": saying(at_hash="x", nonce="n"),
    "15 kB": saying(padding="x" * 11_000),
}

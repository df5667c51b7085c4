"""Proofs of possession (RFC 9449), made as a client makes them, and those that each have one thing wrong.

Knows: what a proof says. Must not know: how the gateway reads one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import count

from cryptography.hazmat.primitives.asymmetric import rsa

from tests.identity.signers import CURVES, Json, Signer, b64, ec_signer, ed_signer, hmac_token, part, rsa_signer

HOST = "gw.test"
#: Names in the gateway's certificate.
NAMES = (HOST, "*.pool.test", "2001:db8::1", "10.0.0.1")
PATH = "/v1/chat/completions"
URL = f"https://{HOST}{PATH}"

_PUBLIC = ("kty", "crv", "x", "y", "n", "e")
_serial = count()


def public(signer: Signer) -> Json:
    """The members of a JWK that make the key, and no other."""
    return {name: value for name, value in signer.jwk().items() if name in _PUBLIC}


def thumb(signer: Signer) -> str:
    """RFC 7638."""
    text = json.dumps(public(signer), separators=(",", ":"), sort_keys=True)
    return b64(hashlib.sha256(text.encode()).digest())


class Prover:
    """A client with a key, which knows its token. `now` are the UNIX seconds of its clock, `url` what it calls."""

    def __init__(self, signer: Signer, token: str, now: float, url: str = URL) -> None:
        self.signer = signer
        self.token = token
        self.now = now
        self.url = url

    def claims(self, **more: object) -> Json:
        """What a good proof says; a value of `...` leaves a name out."""
        ath = b64(hashlib.sha256(self.token.encode()).digest())
        full: Json = {"jti": f"proof-{next(_serial)}", "htm": "POST", "htu": self.url, "iat": self.now, "ath": ath}
        return {k: v for k, v in (full | more).items() if v is not ...}

    def header(self, **more: object) -> Json:
        full: Json = {"typ": "dpop+jwt", "alg": self.signer.alg, "jwk": public(self.signer)} | more
        return {k: v for k, v in full.items() if v is not ...}

    def proof(self, **more: object) -> str:
        return self.signer.sign_raw(part(self.header()), part(self.claims(**more)))

    def headed(self, **more: object) -> str:
        return self.signer.sign_raw(part(self.header(**more)), part(self.claims()))


Forge = Callable[[Prover], str]


def saying(**claims: object) -> Forge:
    """The client's own key, one claim changed."""
    return lambda prover: prover.proof(**claims)


def headed(**header: object) -> Forge:
    """The client's own key, one header parameter changed."""
    return lambda prover: prover.headed(**header)


def timed(offset: float) -> Forge:
    return lambda prover: prover.proof(iat=prover.now + offset)


def written(name: str, text: str) -> Forge:
    """The client's own key, one claim written in JSON that `json.dumps` would not write."""

    def forge(prover: Prover) -> str:
        rest = json.dumps(prover.claims(**{name: ...}))[1:]
        return prover.signer.sign_raw(part(prover.header()), b64(f'{{"{name}": {text}, {rest}'.encode()))

    return forge


def of_another(kind: str) -> Forge:
    """Well made, with a key that the token is not bound to."""
    return lambda prover: Prover(ec_signer(f"another {kind}"), prover.token, prover.now, prover.url).proof()


def _private(prover: Prover) -> str:
    number = prover.signer.private.private_numbers().private_value
    return prover.headed(jwk=public(prover.signer) | {"d": b64(number.to_bytes(32, "big"))})


def _signed_by_another(prover: Prover) -> str:
    """The key of the victim in the header, the signature of somebody else."""
    return ec_signer("thief").sign_raw(part(prover.header()), part(prover.claims()))


def _of_another_token(prover: Prover) -> str:
    return Prover(prover.signer, prover.token + "x", prover.now, prover.url).proof()


def _by_secret(prover: Prover) -> str:
    return hmac_token(b"x", prover.claims(), **prover.header(alg="HS256"))


def _jwk(**members: object) -> Forge:
    return lambda prover: prover.headed(
        jwk={k: v for k, v in (public(prover.signer) | members).items() if v is not ...}
    )


def _weak(prover: Prover) -> str:
    weak = Signer("weak", "RS256", rsa.generate_private_key(65537, 1024))  # noqa: S505  it is the point
    return Prover(weak, prover.token, prover.now, prover.url).proof()


def _cut(prover: Prover) -> str:
    return prover.proof().rsplit(".", 1)[0]


def _bent(prover: Prover) -> str:
    head, body, signature = prover.proof().split(".")
    return f"{head}.{body}.{'B' if signature[0] != 'B' else 'C'}{signature[1:]}"


FORGED: dict[str, Forge] = {
    "nothing": lambda _: "",
    "no token at all": lambda _: "x",
    "two dots": lambda _: "..",
    "the access token itself": lambda prover: prover.token,
    "without a signature": _cut,
    "with an empty signature": lambda prover: _cut(prover) + ".",
    "a bent signature": _bent,
    "signed by another key": _signed_by_another,
    "two proofs": lambda prover: f"{prover.proof()}, {prover.proof()}",
    "9 kB": lambda prover: prover.proof(x="x" * 7000),
    "unsigned": headed(alg="none"),
    "signed by a secret": _by_secret,
    "an algorithm that is a list": headed(alg=["ES256"]),
    "no algorithm": headed(alg=...),
    "an algorithm of another curve": headed(alg="ES384"),
    "an algorithm of another family": headed(alg="RS256"),
    "no typ": headed(typ=...),
    "typ of a token": headed(typ="JWT"),
    "typ of an access token": headed(typ="at+jwt"),
    "typ that is a list": headed(typ=["dpop+jwt"]),
    "crit": headed(crit=["x"], x=1),
    "b64": headed(b64=False, crit=["b64"]),
    "no jwk": headed(jwk=...),
    "jwk null": headed(jwk=None),
    "jwk a list": lambda prover: prover.headed(jwk=[public(prover.signer)]),
    "jwk as text": lambda prover: prover.headed(jwk=json.dumps(public(prover.signer))),
    "jku in place of jwk": headed(jwk=..., jku="https://evil.test/keys"),
    "kid in place of jwk": headed(jwk=..., kid="k1"),
    "a private jwk": _private,
    "a symmetric jwk": headed(jwk={"kty": "oct", "k": "AAAA"}),
    "a weak jwk": _weak,
    "jwk for encryption": _jwk(use="enc"),
    "jwk that cannot verify": _jwk(key_ops=["sign"]),
    "jwk without y": _jwk(y=...),
    "jwk with a point off the curve": _jwk(y=b64(bytes(32))),
    "jwk of another curve": _jwk(crv="P-384"),
    "another key": of_another("one"),
    "no jti": saying(jti=...),
    "jti empty": saying(jti=""),
    "jti a number": saying(jti=7),
    "jti null": saying(jti=None),
    "no htm": saying(htm=...),
    "htm of another method": saying(htm="GET"),
    "htm in lower case": saying(htm="post"),
    "htm a list": saying(htm=["POST"]),
    "no htu": saying(htu=...),
    "htu a list": saying(htu=[URL]),
    "htu of another host": saying(htu=URL.replace(HOST, "evil.test")),
    "htu with our host as its user": saying(htu=f"https://{HOST}@evil.test{PATH}"),
    "htu with a user": saying(htu=f"https://evil@{HOST}{PATH}"),
    "htu with our host as its subdomain": saying(htu=f"https://{HOST}.evil.test{PATH}"),
    "htu of another path": saying(htu=f"https://{HOST}/v1/completions"),
    "htu of a longer path": saying(htu=f"{URL}/"),
    "htu of no path": saying(htu=f"https://{HOST}"),
    "htu in another case": saying(htu=URL.replace("chat", "Chat")),
    "htu in plain HTTP": saying(htu=URL.replace("https", "http")),
    "htu of another port": saying(htu=f"https://{HOST}:8443{PATH}"),
    "htu of no port": saying(htu=f"https://{HOST}:x{PATH}"),
    "htu without a scheme": saying(htu=f"//{HOST}{PATH}"),
    "htu only a path": saying(htu=PATH),
    "htu with a space": saying(htu=f"{URL} "),
    "htu with a line break": saying(htu=f"https://{HOST}/v1/chat\n/completions"),
    "htu with a backslash": saying(htu=f"https:\\\\{HOST}{PATH}"),
    "htu with an encoded slash": saying(htu=f"https://{HOST}/v1/chat%2Fcompletions"),
    "no iat": saying(iat=...),
    "iat as text": lambda prover: prover.proof(iat=str(prover.now)),
    "iat true": saying(iat=True),
    "iat null": saying(iat=None),
    "iat an hour ago": timed(-3600),
    "iat just too old": timed(-60.01),
    "iat just too new": timed(60.01),
    "iat in milliseconds": lambda prover: prover.proof(iat=prover.now * 1000),
    "iat NaN": written("iat", "NaN"),
    "iat endless": written("iat", "1e400"),
    "no ath": saying(ath=...),
    "ath empty": saying(ath=""),
    "ath null": saying(ath=None),
    "ath of another token": _of_another_token,
    "ath of nothing": saying(ath=b64(hashlib.sha256(b"").digest())),
    "ath in hex": lambda prover: prover.proof(ath=hashlib.sha256(prover.token.encode()).hexdigest()),
    "htu twice": written("htu", f'"https://evil.test{PATH}", "htu": "{URL}"'),
    "claims that are a list": lambda prover: prover.signer.sign_raw(part(prover.header()), part([])),
    "a header that is a list": lambda prover: prover.signer.sign_raw(part([]), part(prover.claims())),
    "nested 40 deep": written("x", "[" * 40 + "]" * 40),
}  # fmt: skip

GOOD: dict[str, Forge] = {
    "plain": saying(),
    "typ in another case": headed(typ="DPoP+JWT"),
    "typ in full": headed(typ="application/dpop+jwt"),
    "more in its header": headed(kid="k", jku="https://evil.test/keys", x=1),
    "more claims": saying(nonce="n", exp=0, aud="x"),
    "jwk with its use": _jwk(use="sig", alg="ES256", kid="k"),
    "htu with the port of https": saying(htu=f"https://{HOST}:443{PATH}"),
    "htu with capitals in the host": saying(htu=URL.replace(HOST, "GW.Test").replace("https", "HTTPS")),
    "htu escaped where nothing is to be": saying(htu=URL.replace("chat", "c%68at")),
    "htu with a query, which counts for nothing": saying(htu=f"{URL}?a=b#c"),
    "iat almost too old": timed(-59.9),
    "iat almost too new": timed(59.9),
    "iat whole": lambda prover: prover.proof(iat=int(prover.now)),
}

#: Keys that clients may have, one for each algorithm.
KEYS: dict[str, Signer] = {
    **{alg: ec_signer(f"client {alg}", alg) for alg in CURVES},
    **{alg: rsa_signer("client").using(alg) for alg in ("RS256", "RS512", "PS256", "PS384")},
    "EdDSA": ed_signer("client"),
}

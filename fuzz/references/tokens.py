"""Signed tokens as `joserfc` and python-jose read them: header and claims, or a reason.

Knows: the two keys that the harness signs with. Must not know: the gateway.
"""

from __future__ import annotations

import warnings
from typing import Any

from jose import jwt as python_jose
from jose.exceptions import JOSEError
from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, JWKRegistry, OKPKey
from joserfc.jws import JWSRegistry

from fuzz.references.messages import Refused

Json = dict[str, Any]

#: What makes a key; a `d` makes it private.
NUMBERS = ("kty", "crv", "x", "y", "d")


def public_key(jwk: Json) -> object:
    """The key of `cryptography` that the numbers of a JWK make. Raises `Refused` for one that is private, or none."""
    try:
        key = JWKRegistry.import_key({name: jwk[name] for name in NUMBERS if name in jwk})
    except (JoseError, ValueError, TypeError, KeyError) as refused:
        raise Refused(f"{type(refused).__name__}: {refused}") from refused
    if key.is_private:
        raise Refused("a private key")
    return key.get_op_key("verify")


class Verifier:
    """Believes tokens of one issuer for one audience, at a time that stands still."""

    def __init__(self, keys: dict[str, Json], issuer: str, audience: str, now: int, leeway: int) -> None:
        """`keys`: a public JWK for each algorithm."""
        self._jwks = keys
        self._keys = {alg: (OKPKey if jwk["kty"] == "OKP" else ECKey).import_key(jwk) for alg, jwk in keys.items()}
        # RFC 7515 section 4: parameters that are not understood are ignored.
        self._forms = {alg: JWSRegistry(algorithms=[alg], strict_check_header=False) for alg in keys}
        self._issuer, self._audience = issuer, audience
        self._claims = jwt.JWTClaimsRegistry(
            now,
            leeway,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        )

    def by_joserfc(self, token: str, algorithm: str) -> tuple[Json, Json]:
        """Signature and claims. Raises `Refused`."""
        try:
            found = self._decoded(token, algorithm)
            self._claims.validate(found.claims)
        except (JoseError, ValueError, TypeError, KeyError) as refused:
            raise Refused(f"{type(refused).__name__}: {refused}") from refused
        return dict(found.header), dict(found.claims)

    def signed_by_joserfc(self, token: str, algorithm: str) -> bool:
        """Whether the signature holds, whatever the claims say."""
        try:
            self._decoded(token, algorithm)
        except (JoseError, ValueError, TypeError, KeyError):
            return False
        return True

    def _decoded(self, token: str, algorithm: str) -> jwt.Token:
        with warnings.catch_warnings():  # EdDSA has a newer name since RFC 9864, and keeps its meaning
            warnings.simplefilter("ignore", SecurityWarning)
            return jwt.decode(token, self._keys[algorithm], registry=self._forms[algorithm])

    def by_python_jose(self, token: str, algorithm: str) -> Json:
        """Signature and audience; its clock is the real one, so times are left out. Raises `Refused`."""
        times = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "at_hash")}
        try:
            claims: Json = python_jose.decode(
                token, self._jwks[algorithm], [algorithm], options=times, audience=self._audience, issuer=self._issuer
            )  # fmt: skip
        except JOSEError as refused:
            raise Refused(f"{type(refused).__name__}: {refused}") from refused
        return claims

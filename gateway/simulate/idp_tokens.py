"""The signing side of a simulated identity provider: keys, their rotation, access tokens.

Knows: joserfc, JWT access tokens (RFC 9068). Must not know: accounts, HTTP.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joserfc import jwk, jwt
from joserfc.errors import JoseError

ALGORITHMS = ("RS256", "ES256")
RSA_BITS = 2048
#: Former keys that stay published, so that tokens signed just before a rotation hold. Older ones are forgotten.
FORMER_KEYS = 2

Key = jwk.RSAKey | jwk.ECKey


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a token is about, and which client asked for it."""

    name: str
    client: str
    groups: tuple[str, ...]
    scope: str


class Signer:
    """Signs tokens with the newest keys, one per algorithm. `clock` gives UNIX time in seconds."""

    def __init__(self, issuer: str, clock: Callable[[], float], algorithms: tuple[str, ...] = ALGORITHMS) -> None:
        self.issuer = issuer
        self._algorithms = algorithms
        self._clock = clock
        self._generation = 0
        self._current = self._fresh()
        self._former: list[Key] = []

    def rotate(self, *, drop: bool) -> None:
        """New keys from now on. The former stay published, unless `drop`: then tokens signed with them are void."""
        former = [] if drop else [*self._current.values(), *self._former]
        self._former = former[: FORMER_KEYS * len(self._algorithms)]
        self._current = self._fresh()

    def published(self) -> dict[str, Any]:
        """The public keys (RFC 7517), newest first."""
        return {"keys": [key.as_dict(private=False) for key in self._keys()]}

    def sign(self, subject: Subject, audience: str, algorithm: str, lifetime: int) -> str:
        """An access token that holds for `lifetime` seconds (negative: has ended already)."""
        key = self._current[algorithm]
        now = int(self._clock())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": subject.name,
            "aud": audience,
            "exp": now + lifetime,
            "iat": now,
            "jti": secrets.token_urlsafe(16),
            "client_id": subject.client,
            "scope": subject.scope,
            "groups": list(subject.groups),
        }
        return jwt.encode({"alg": algorithm, "typ": "at+jwt", "kid": key.kid}, claims, key, algorithms=[algorithm])

    def claims_of(self, token: str) -> dict[str, Any] | None:
        """What an own, living token says; None for any other."""
        try:
            claims = jwt.decode(token, jwk.KeySet(list(self._keys())), algorithms=list(self._algorithms)).claims
        except (JoseError, ValueError):
            return None
        return claims if claims["iss"] == self.issuer and claims["exp"] > self._clock() else None

    def _keys(self) -> list[Key]:
        return [*self._current.values(), *self._former]

    def _fresh(self) -> dict[str, Key]:
        self._generation += 1
        return {algorithm: self._key(algorithm) for algorithm in self._algorithms}

    def _key(self, algorithm: str) -> Key:
        kid = f"{algorithm}-{self._generation}-{secrets.token_hex(4)}"
        if algorithm == "ES256":
            return jwk.ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": algorithm})
        return jwk.RSAKey.generate_key(RSA_BITS, {"kid": kid, "use": "sig", "alg": algorithm})

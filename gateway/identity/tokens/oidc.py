"""One OpenID provider: from a well-formed token to the principal it proves.

Knows: which checks a token passes. Must not know: HTTP, other providers, which claims become what.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.errors import IdentityUnavailable
from gateway.identity.contracts import Standing
from gateway.identity.provider.keys import RETRY_SECONDS, KeySet
from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwt import Token, check_signature
from gateway.identity.tokens.claims import ACCESS, Kind, check_claims
from gateway.identity.tokens.confirmation import confirmation
from gateway.identity.tokens.mapping import ClaimMapping
from gateway.identity.tokens.vouching import Vouched
from gateway.settings import OidcIssuer


class OidcBearer:
    """Verifies the tokens of `settings.issuer`, of one kind. `now` gives UNIX seconds."""

    def __init__(self, settings: OidcIssuer, keys: KeySet, now: Callable[[], float], kind: Kind = ACCESS) -> None:
        self.name = settings.name
        self.issuer = settings.issuer
        self.keys = keys
        self._settings = settings
        self._now = now
        self._mapping = ClaimMapping(settings)
        self._kind = kind

    async def verify(self, token: Token) -> Vouched:
        """Who the token proves its sender to be. Waits only for signing keys, and at most as long as one fetch takes.

        Holds until it expires, leeway included, or its keys would no longer be believed.

        Raises `BadToken`, or `IdentityUnavailable` while the keys that would tell cannot be had.
        """
        if token.algorithm not in self._settings.algorithms:
            raise BadToken(Result.BAD_ALGORITHM, "its algorithm is not accepted here")
        # Claims first: they cost less, and a token that could never hold must not make anybody fetch keys.
        expires = check_claims(token.claims, self._settings, self._now(), self._kind)
        subject, bound = self._mapping.subject(token.claims), confirmation(token.claims)
        await self._check_signature(token)
        until = min(expires + self._settings.leeway, self._now() + self.keys.seconds_left())
        return Vouched(self._mapping.principal(token.claims, subject, expires), until, self.keys.basis, bound)

    def standing(self) -> Standing:
        """That of the keys: nothing else is asked for."""
        return self.keys.standing()

    async def _check_signature(self, token: Token) -> None:
        keys = self.keys
        if self._signed(token):
            return
        # Twice: a fetch that was under way already may have begun before the key was published.
        for _ in range(2):
            if (keys.knows(token.kid) and keys.ready) or (news := keys.news()) is None:
                break
            await news
            if self._signed(token):
                return
        if not keys.ready or (keys.failing and not keys.knows(token.kid)):
            raise IdentityUnavailable(retry_after=RETRY_SECONDS, detail=f"no signing keys from {self.name}")
        if keys.knows(token.kid):
            raise BadToken(Result.BAD_SIGNATURE, "its signature does not hold")
        raise BadToken(Result.UNKNOWN_KEY, "no key of its issuer fits its signature")

    def _signed(self, token: Token) -> bool:
        return check_signature(token, self.keys.candidates(token.kid, token.algorithm))

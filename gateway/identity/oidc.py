"""One OpenID provider: from a well-formed token to the principal it proves.

Knows: which checks a token passes, which claims become what. Must not know: HTTP, other providers, policies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from gateway.call import Principal
from gateway.errors import IdentityUnavailable
from gateway.identity.claims import check_claims
from gateway.identity.groups import GroupNames, plain
from gateway.identity.jwt import Token, check_signature
from gateway.identity.keys import RETRY_SECONDS, KeySet
from gateway.identity.refused import BadToken, Result
from gateway.identity.vouching import Vouched
from gateway.settings import OidcIssuer

#: Which claims may name the OAuth client: RFC 9068, OpenID Connect, Entra v1, Okta.
CLIENT_CLAIMS = ("client_id", "azp", "appid", "cid")

_log = logging.getLogger(__name__)


class OidcBearer:
    """Verifies the tokens of `settings.issuer`. `now` gives UNIX seconds."""

    def __init__(self, settings: OidcIssuer, keys: KeySet, now: Callable[[], float]) -> None:
        self.name = settings.name
        self.issuer = settings.issuer
        self.keys = keys
        self._settings = settings
        self._now = now
        self._named = GroupNames(settings.group_prefix, settings.group_map, settings.groups_allowed)
        self._odd_groups: set[str] = set()

    async def verify(self, token: Token) -> Vouched:
        """Who the token proves its sender to be. Waits only for signing keys, and at most as long as one fetch takes.

        Holds until it expires, leeway included, or its keys would no longer be believed.

        Raises `BadToken`, or `IdentityUnavailable` while the keys that would tell cannot be had.
        """
        if token.algorithm not in self._settings.algorithms:
            raise BadToken(Result.BAD_ALGORITHM, "its algorithm is not accepted here")
        # Claims first: they cost less, and a token that could never hold must not make anybody fetch keys.
        expires = check_claims(token.claims, self._settings, self._now())
        subject = self._subject(token.claims)
        await self._check_signature(token)
        until = min(expires + self._settings.leeway, self._now() + self.keys.seconds_left())
        return Vouched(self._principal(token.claims, subject, expires), until, self.keys.basis)

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

    def _subject(self, claims: Mapping[str, object]) -> str:
        subject = _at(claims, self._settings.claims.subject)
        if not isinstance(claims.get("sub", ""), str) or not isinstance(subject, str) or not plain(subject):
            raise BadToken(Result.BAD_CLAIMS, "its subject is missing or not a plain name")
        return subject

    def _principal(self, claims: Mapping[str, object], subject: str, expires: float) -> Principal:
        return Principal(
            subject=subject,
            issuer=self.issuer,
            provider=self.name,
            groups=frozenset(self._groups(claims)),
            client=next(
                (one for name in CLIENT_CLAIMS if isinstance(one := claims.get(name), str) and plain(one)), None
            ),
            scopes=frozenset(self._scopes(claims)),
            expires=expires,
            groups_known=not _leaves_groups_out(claims, self._settings.claims.groups[0]),
        )

    def _groups(self, claims: Mapping[str, object]) -> Iterator[str]:
        """The groups this provider may give, under the names they have here."""
        given = _at(claims, self._settings.claims.groups)
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, str) and plain(one):
                yield from self._named(one)
            elif one is not None:
                self._warn_odd_group(type(one).__name__)

    def _scopes(self, claims: Mapping[str, object]) -> list[str]:
        """RFC 8693 section 4.2: one string, split at spaces. Some providers send a list, or call the claim `scp`."""
        path = self._settings.claims.scopes
        given = _at(claims, path)
        if given is None and path == ("scope",):
            given = claims.get("scp")
        listed = given.split() if isinstance(given, str) else given
        return [one for one in listed if isinstance(one, str) and plain(one)] if isinstance(listed, list) else []

    def _warn_odd_group(self, kind: str) -> None:
        """Once for each type of value; a provider that sends it will send it with every token."""
        if kind not in self._odd_groups:
            self._odd_groups.add(kind)
            _log.warning("identity.groups.ignored issuer=%s type=%s", self.name, kind)


def _at(claims: Mapping[str, object], path: tuple[str, ...]) -> object:
    """The value at a path of names, or None."""
    value: object = claims
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _leaves_groups_out(claims: Mapping[str, object], claim: str) -> bool:
    """Groups overage: the token names a place to ask for the groups (never asked, it is the token's word), or hints."""
    elsewhere = claims.get("_claim_names", {})
    if not isinstance(elsewhere, Mapping) or claim in elsewhere:
        return True
    return claim == "groups" and claims.get("hasgroups", False) is not False

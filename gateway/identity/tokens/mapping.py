"""From the claims of a believed token to the principal they make.

Knows: which claims become what, under which names groups are known here. Must not know: how the claims were believed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from gateway.call import Principal
from gateway.identity.names import GroupNames, plain
from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwt import Claims
from gateway.settings import OidcIssuer

#: Which claims may name the OAuth client: RFC 9068, OpenID Connect, Entra v1, Okta.
CLIENT_CLAIMS = ("client_id", "azp", "appid", "cid")

_log = logging.getLogger(__name__)


class ClaimMapping:
    """Reads the claims of one provider's tokens. Warns once of each kind of group that is no text."""

    def __init__(self, settings: OidcIssuer) -> None:
        self._settings = settings
        self._named = GroupNames(settings.group_prefix, settings.group_map, settings.groups_allowed)
        self._odd_groups: set[str] = set()

    def subject(self, claims: Claims) -> str:
        """Whom the token is about. Raises `BadToken` where that is missing or not fit for a log line."""
        subject = _at(claims, self._settings.claims.subject)
        if not isinstance(claims.get("sub", ""), str) or not isinstance(subject, str) or not plain(subject):
            raise BadToken(Result.BAD_CLAIMS, "its subject is missing or not a plain name")
        return subject

    def principal(self, claims: Claims, subject: str, expires: float) -> Principal:
        """The caller; `expires` in UNIX seconds."""
        return Principal(
            subject=subject,
            issuer=self._settings.issuer,
            provider=self._settings.name,
            groups=frozenset(self._groups(claims)),
            client=_first_plain(claims, CLIENT_CLAIMS),
            scopes=frozenset(self._scopes(claims)),
            expires=expires,
            groups_known=not _leaves_groups_out(claims, self._settings.claims.groups[0]),
            credential=_first_plain(claims, ("jti",)),
        )

    def _groups(self, claims: Claims) -> Iterator[str]:
        """The groups this provider may give, under the names they have here."""
        given = _at(claims, self._settings.claims.groups)
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, str) and plain(one):
                yield from self._named(one)
            elif one is not None:
                self._warn_odd_group(type(one).__name__)

    def _scopes(self, claims: Claims) -> list[str]:
        """RFC 8693 section 4.2: one string, split at spaces. Some providers send a list, or call the claim `scp`."""
        path = self._settings.claims.scopes
        given = _at(claims, path)
        if given is None and path == ("scope",):
            given = claims.get("scp")
        listed = given.split(" ") if isinstance(given, str) else given
        return [one for one in listed if isinstance(one, str) and plain(one)] if isinstance(listed, list) else []

    def _warn_odd_group(self, kind: str) -> None:
        """Once for each type of value; a provider that sends it will send it with every token."""
        if kind not in self._odd_groups:
            self._odd_groups.add(kind)
            _log.warning("identity.groups.ignored issuer=%s type=%s", self._settings.name, kind)


def _at(claims: Claims, path: tuple[str, ...]) -> object:
    """The value at a path of names, or None."""
    value: object = claims
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _first_plain(claims: Claims, names: Iterable[str]) -> str | None:
    return next((one for name in names if isinstance(one := claims.get(name), str) and plain(one)), None)


def _leaves_groups_out(claims: Claims, claim: str) -> bool:
    """Groups overage: the token names a place to ask for the groups (never asked, it is the token's word), or hints."""
    elsewhere = claims.get("_claim_names", {})
    if not isinstance(elsewhere, Mapping) or claim in elsewhere:
        return True
    return claim == "groups" and claims.get("hasgroups", False) is not False

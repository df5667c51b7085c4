"""The gateway's own tokens: made for somebody who just logged in, and taken back from them as a credential.

Knows: what stands in such a token (RFC 9068), who may have one. Must not know: HTTP, passwords, where keys come from.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.call import Principal
from gateway.identity.basis import Basis
from gateway.identity.credentials.bearer import TOKEN_LIMIT
from gateway.identity.names import plain
from gateway.identity.narrowed import Narrowing
from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwt import Claims, Token, check_signature, sign
from gateway.identity.signatures.signing import OwnKey, key_set, secret_of
from gateway.identity.tokens.claims import check_claims
from gateway.identity.tokens.vouching import Vouched
from gateway.settings import OidcIssuer, Settings

#: What these tokens are called in metrics while they have not shown who vouched for their holder.
NAME: Final = "tokens"

# Seconds. The gateways that share a key keep their clocks as close as this; a token must not outlast its login by much.
LEEWAY: Final = 5.0

# 128 bits, so that nobody guesses the name of another's token for the file of revocations.
_ID_BYTES: Final = 16

_LOG_IN_AGAIN: Final = "Your login has ended: log in again."
_NO_LOGIN: Final = "A token is given for a login alone: not for another token, a key or a certificate."
_ODD_NAME: Final = "Your name here has characters that no token can hold: ask your administrator."
_TOO_LARGE: Final = "You are in too many groups for a token: ask your administrator to limit those that count here."


@dataclass(frozen=True, slots=True)
class Minted:
    """A token that the gateway signed; `lifetime` in seconds, `id` is its `jti`."""

    text: str = field(repr=False)
    lifetime: float
    id: str


class NotMinted(Exception):  # noqa: N818  named for what happened, like the refusals
    """This caller gets no token of the gateway. The text says why, to the caller."""


def new_id() -> str:
    """A name for a token that no other has."""
    return secrets.token_urlsafe(_ID_BYTES)


def logins(settings: Settings) -> dict[str, str]:
    """Where people can log in, as `Principal.issuer` says it, with the provider's name: directories, and those with a
    browser login."""
    directories = {f"ldap:{directory.name}": directory.name for directory in settings.ldap}
    return directories | {issuer.issuer: issuer.name for issuer in settings.oidc if issuer.login is not None}


class OwnTokens:
    """Makes and verifies tokens. `url` is the gateway's own, issuer and audience at once; `now` gives UNIX seconds.

    `lifetime` is in seconds. `providers`: see `logins`; who was vouched for by another is not believed. `narrowed`
    leaves those groups that count today, of those that were given at the login.
    """

    name = NAME

    def __init__(
        self,
        keys: Sequence[OwnKey],
        url: str,
        lifetime: float,
        providers: Mapping[str, str],
        now: Callable[[], float],
        narrowed: Narrowing,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self.issuer = url
        #: What else follows from the private keys, newest first: cookies are sealed with it.
        self.secrets = tuple(secret_of(key.private) for key in keys)
        self._keys = tuple(keys)
        self._lifetime = lifetime
        self._providers = dict(providers)
        self._now = now
        self._narrowed = narrowed
        self._new_id = new_id
        self._basis = Basis()  # the file of keys, which another generation reads anew
        algorithms = tuple({key.algorithm for key in keys})
        self._settings = OidcIssuer(NAME, url, (url,), algorithms=algorithms, leeway=LEEWAY)

    def key_set(self) -> dict[str, object]:
        """The public keys (RFC 7517)."""
        return key_set(self._keys)

    def mint(self, principal: Principal) -> Minted:
        """A token for somebody who just logged in, no longer than their login holds. Raises `NotMinted`.

        Never for who came with a token or a key, which have names: a token would be renewed without end, and what a key
        may do would outlive it.
        """
        if self._providers.get(principal.issuer) != principal.provider or principal.credential is not None:
            raise NotMinted(_NO_LOGIN)
        if not plain(principal.subject):
            raise NotMinted(_ODD_NAME)
        principal = self._narrowed(principal)
        now = math.floor(self._now())
        expires = math.floor(min(now + max(1.0, self._lifetime), principal.expires))
        if expires <= now:
            raise NotMinted(_LOG_IN_AGAIN)
        claims = {
            "iss": self.issuer,
            "aud": self.issuer,
            "sub": principal.subject,
            "iat": now,
            "exp": expires,
            "jti": self._new_id(),
            "idp": principal.issuer,
            "groups": sorted(principal.groups),
            **_more(principal),
        }
        text = sign(claims, self._keys[0].private, self._keys[0].algorithm, self._keys[0].kid)
        if len(text) > TOKEN_LIMIT:
            raise NotMinted(_TOO_LARGE)
        return Minted(text, expires - now, str(claims["jti"]))

    async def verify(self, token: Token) -> Vouched:
        """Who the token was made for, as they were known when they logged in, but for groups that count no more.

        Raises `BadToken`.
        """
        if token.algorithm not in self._settings.algorithms:
            raise BadToken(Result.BAD_ALGORITHM, "its algorithm is not accepted here")
        expires = check_claims(token.claims, self._settings, self._now())
        if "cnf" in token.claims:  # RFC 7800: ours are bound to nothing, and what one is bound to is never left out
            raise BadToken(Result.WRONG_KIND, "it is bound to a key that is not asked for here")
        keys = [key.verifying for key in self._keys if key.kid == token.kid]
        if not keys:
            raise BadToken(Result.UNKNOWN_KEY, "it was signed with a key that is not in use any more")
        if not check_signature(token, keys):
            raise BadToken(Result.BAD_SIGNATURE, "its signature does not hold")
        return Vouched(self._narrowed(self._principal(token.claims, expires)), expires + LEEWAY, self._basis)

    def _principal(self, claims: Claims, expires: float) -> Principal:
        issuer = claims.get("idp")
        provider = self._providers.get(issuer) if isinstance(issuer, str) else None
        if not isinstance(issuer, str) or provider is None:
            raise BadToken(Result.BAD_CLAIMS, "whoever vouched for its holder is not asked here any more")
        return Principal(
            subject=_text(claims, "sub"),
            issuer=issuer,
            provider=provider,
            groups=frozenset(_texts(claims, "groups")),
            client=_text(claims, "client_id") if "client_id" in claims else None,
            scopes=frozenset(_scopes(claims)),
            expires=expires,
            groups_known=claims.get("groups_known", True) is True,
            credential=_text(claims, "jti"),
        )


def _more(principal: Principal) -> dict[str, object]:
    """What not everybody has."""
    found: dict[str, object] = {}
    if principal.client is not None:
        found["client_id"] = principal.client
    if principal.scopes:
        found["scope"] = " ".join(sorted(principal.scopes))
    if not principal.groups_known:
        found["groups_known"] = False
    return found


def _text(claims: Claims, name: str) -> str:
    """We signed it, so it is there and fit for a log line; if not, something else signs with this key too."""
    value = claims.get(name)
    if not isinstance(value, str) or not plain(value):
        raise BadToken(Result.BAD_CLAIMS, f"its {name} is missing or not a plain name")
    return value


def _scopes(claims: Claims) -> list[str]:
    """RFC 8693 section 4.2: spaces separate them, and nothing else does."""
    value = claims.get("scope", "")
    listed = value.split(" ") if isinstance(value, str) and value else []
    if not isinstance(value, str) or not all(map(plain, listed)):
        raise BadToken(Result.BAD_CLAIMS, "its scope is not a list of plain names")
    return listed


def _texts(claims: Claims, name: str) -> list[str]:
    value = claims.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadToken(Result.BAD_CLAIMS, f"its {name} are missing")
    return value

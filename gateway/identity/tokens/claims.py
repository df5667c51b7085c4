"""What the claims of an access token must say before anything else in them is read (RFC 7519, RFC 8725, RFC 9068), and
what a provider must say of a token (RFC 7662).

Knows: audience, times, kinds of token. Must not know: signatures, groups, HTTP.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwt import Claims
from gateway.settings import OidcIssuer

# A NumericDate is a JSON number (RFC 7519 section 2); beyond 2**53 a double no longer tells seconds apart.
TIME_LIMIT = 2.0**53


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of token: its words in a `typ` claim (in lower case) and in `token_use`, where it has these at all."""

    called: str
    types: frozenset[str]
    uses: frozenset[str]


#: What calls are made with. Keycloak says Bearer (others: ID, Refresh, Offline, Logout); Cognito, Hydra: `token_use`.
ACCESS: Final = Kind(
    "an access token",
    frozenset({"bearer", "access", "access_token", "at+jwt", "jwt"}),
    frozenset({"access", "access_token"}),
)
#: What tells that somebody logged in, and is worth nothing for a call.
ID: Final = Kind("an ID token", frozenset({"id", "id_token", "jwt"}), frozenset({"id", "id_token"}))

#: The `token_type` of access tokens (RFC 6749 section 7.1, RFC 9449 section 6.2).
TOKEN_TYPES: Final = frozenset({"bearer", "dpop", "access_token"})


def check_claims(claims: Claims, settings: OidcIssuer, now: float, kind: Kind = ACCESS) -> float:
    """The time of expiry, in UNIX seconds like `now`. Raises `BadToken` for the first thing that is not right."""
    if claims.get("iss") != settings.issuer:
        raise BadToken(Result.BAD_ISSUER, "its issuer is not known here")
    _check_audience(claims.get("aud"), settings.audience)
    _check_kind(claims, kind)
    _check_required(claims, settings)
    if (expires := _check_times(claims, settings.leeway, now)) is None:
        raise BadToken(Result.BAD_CLAIMS, "it has no time of expiry")
    return expires


def check_answer(claims: Claims, settings: OidcIssuer, now: float) -> float | None:
    """The time of expiry that a provider tells of an active token, if it tells one. Raises `BadToken` as above.

    RFC 7662 section 2.2 leaves out what it likes; but a token that is for nobody in particular is not for us.
    """
    if claims.get("iss", settings.issuer) != settings.issuer:
        raise BadToken(Result.BAD_ISSUER, "its issuer is not the one that was asked")
    _check_audience(claims.get("aud"), settings.audience)
    _check_kind(claims, ACCESS)
    kind = claims.get("token_type", "bearer")
    if not isinstance(kind, str) or kind.lower() not in TOKEN_TYPES:
        raise BadToken(Result.WRONG_KIND, "its token_type is not that of an access token")
    _check_required(claims, settings)
    return _check_times(claims, settings.leeway, now)


def _check_audience(given: object, wanted: Collection[str]) -> None:
    """RFC 7519 section 4.1.3: one string, or several in a list; one of them has to be ours, compared exactly."""
    listed = given if isinstance(given, list) else [given]
    if not all(isinstance(one, str) for one in listed) or not set(wanted).intersection(listed):
        raise BadToken(Result.BAD_AUDIENCE, "its audience is not this gateway")


def _check_kind(claims: Claims, wanted: Kind) -> None:
    """Refuse what says of itself that it is of another kind."""
    if "events" in claims:  # security event and logout tokens: RFC 8417, OpenID Connect Back-Channel Logout 1.0
        raise BadToken(Result.WRONG_KIND, f"a token about events is not {wanted.called}")
    kind = claims.get("typ", "jwt")
    if not isinstance(kind, str) or kind.lower() not in wanted.types:
        raise BadToken(Result.WRONG_KIND, f"its typ claim is not that of {wanted.called}")
    use = claims.get("token_use")
    if "token_use" in claims and (not isinstance(use, str) or use not in wanted.uses):
        raise BadToken(Result.WRONG_KIND, f"its token_use is not that of {wanted.called}")


def _check_required(claims: Claims, settings: OidcIssuer) -> None:
    """What the configuration asks for. A mail address names somebody only if the provider has verified it."""
    if any(claims.get(name) != value for name, value in settings.require):
        raise BadToken(Result.BAD_CLAIMS, "a claim that is required here is missing or has another value")
    verified = claims.get("email_verified")
    if settings.claims.subject == ("email",) and verified is not True and verified != "true":
        raise BadToken(Result.BAD_CLAIMS, "its mail address is not verified")


def _check_times(claims: Claims, leeway: float, now: float) -> float | None:
    """The time of expiry, if there is one."""
    expires = _time(claims, "exp")
    if expires is not None and expires + leeway <= now:
        raise BadToken(Result.EXPIRED, "it has expired")
    for name in ("nbf", "iat"):
        since = _time(claims, name)
        if since is not None and since - leeway > now:
            raise BadToken(Result.NOT_YET_VALID, f"its {name} is in the future")
    return expires


def _time(claims: Claims, name: str) -> float | None:
    """A NumericDate, or None when the claim is not there at all."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -TIME_LIMIT < value < TIME_LIMIT:
        raise BadToken(Result.BAD_CLAIMS, f"its {name} is not a time in seconds")
    return float(value)

"""Logging a browser in with an OpenID provider: the authorization code flow with PKCE (OpenID Connect Core 1.0 section
3.1, RFC 7636, RFC 9700).

Knows: the order of its steps, what the ID token has to say. Must not know: cookies, pages, forms of OAuth messages.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from secrets import token_urlsafe
from typing import Final

from gateway.call import Principal
from gateway.errors import IdentityUnavailable
from gateway.fetch import Fetch, FetchFailed
from gateway.identity.browser.callback import code_in, known
from gateway.identity.contracts import Begun
from gateway.identity.groupsource import GroupSource, with_groups
from gateway.identity.provider.discovery import DOCUMENT_LIMIT, Discovery, Unusable
from gateway.identity.provider.keys import RETRY_SECONDS, KeySet
from gateway.identity.provider.oauth import Client, Declined, OddAnswer, authorization, redeemed, redemption
from gateway.identity.refused import BadLogin, BadToken, NotLoggedIn, Result
from gateway.identity.signatures.jwt import Claims, Token, json_object, parse
from gateway.identity.tokens.claims import ID
from gateway.identity.tokens.oidc import OidcBearer
from gateway.settings import Login, OidcIssuer

# Seconds for one question to the provider; a login asks three (itself, the token, the person), its keys and perhaps a
# directory. The page has to be there before our own relay gives it up.
PATIENCE: Final = 5.0
LONGEST: Final = 20.0
# Anybody may begin a login, so the provider is not asked about itself each time: not sooner after it answered, nor
# after it failed to.
FRESH: Final = 600.0
COOLING: Final = 2.0
# Answers of browsers that are looked at at the same time; each costs the provider two questions.
UNDERWAY_LIMIT: Final = 32

_ODD: Final = "The provider's answer does not hold here: {}. Tell your administrator."

_USED: Final = "This login was used already, or took too long. Begin again."

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Around:
    """What a login needs of the running gateway. `count` gets the provider's name and a `Result` for each login that
    came to an end; `groups` knows the groups where the settings leave them to a directory; `now` gives UNIX seconds,
    `steady` those of a monotonic clock."""

    fetch: Fetch
    count: Callable[[str, str], None]
    tls: ssl.SSLContext | None = None
    groups: GroupSource | None = None
    now: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic


class CodeFlow:
    """Implements `providers.BrowserLogin` for `settings`, whose `login` is `login`."""

    def __init__(self, settings: OidcIssuer, login: Login, client: Client, keys: KeySet, around: Around) -> None:
        self.name = settings.name
        self._settings = settings
        self._scopes = login.scopes
        self._client = client
        self._around = around
        self._discovery = Discovery(settings, around.fetch, around.tls, PATIENCE)
        self._id_tokens = OidcBearer(replace(settings, audience=(client.id,)), keys, around.now, ID)
        self._about: Mapping[str, object] = {}
        self._asked = float("-inf")
        self._asking = asyncio.Lock()
        self._underway = 0

    async def begin(self, back: str) -> tuple[str, Begun]:
        """See `providers.BrowserLogin`."""
        begun = Begun(token_urlsafe(32), token_urlsafe(32), token_urlsafe(48), back)
        try:
            async with self._asked_in_time():
                endpoint = self._discovery.address_in(await self._provider(), "authorization_endpoint")
        except IdentityUnavailable:
            self._around.count(self.name, Result.UNAVAILABLE.value)
            raise
        return authorization(self._client, endpoint, self._scopes, begun), begun

    async def finish(self, begun: Begun, answer: Mapping[str, str]) -> Principal:
        """See `providers.BrowserLogin`."""
        try:
            principal = await self._finish(begun, answer)
        except (BadToken, BadLogin) as error:
            self._refused(error.reason, error.reason.value)
            raise NotLoggedIn(error.reason, _said(error), error.detail) from None
        except NotLoggedIn as error:
            self._refused(error.reason, error.detail)
            raise
        except IdentityUnavailable:
            self._around.count(self.name, Result.UNAVAILABLE.value)
            raise
        self._around.count(self.name, Result.OK.value)
        return principal

    async def _finish(self, begun: Begun, answer: Mapping[str, str]) -> Principal:
        if self._underway >= UNDERWAY_LIMIT:
            raise IdentityUnavailable(retry_after=1, detail="too many logins at once")
        self._underway += 1
        try:
            async with self._asked_in_time():
                about = await self._provider()
                says_who = about.get("authorization_response_iss_parameter_supported") is True
                code = code_in(answer, begun, self._settings.issuer, says_who=says_who)
                return await self._principal(await self._redeemed(about, code, begun))
        finally:
            self._underway -= 1

    async def _redeemed(self, about: Mapping[str, object], code: str, begun: Begun) -> Token:
        """The ID token for a code, with what the provider says of the person beside it. Nothing in it is proven yet."""
        request = redemption(self._client, self._discovery.address_in(about, "token_endpoint"), code, begun)
        fetch, tls = self._around.fetch.post, self._around.tls
        got = redeemed(
            await fetch(
                request.url, request.body, timeout=PATIENCE, limit=DOCUMENT_LIMIT, fields=request.fields, tls=tls
            )
        )
        token = parse(got.id_token)
        _check_meant(token.claims, self._client.id, begun.nonce)
        missing = self._wanted() - token.claims.keys()
        if missing and got.access_token and "userinfo_endpoint" in about:
            more = await self._person(self._discovery.address_in(about, "userinfo_endpoint"), got.access_token)
            if more.get("sub") != token.claims.get("sub"):  # section 5.3.2: else it may be about somebody else
                raise BadToken(Result.BAD_CLAIMS, "it is about somebody else than what is said of the person")
            return replace(token, claims={**{name: more[name] for name in missing & more.keys()}, **token.claims})
        return token

    async def _principal(self, token: Token) -> Principal:
        vouched = await self._id_tokens.verify(token)
        if vouched.bound is not None:
            raise BadToken(Result.WRONG_KIND, "it is bound to a key that is not asked for here")
        # An ID token is no credential for calls: it tells that somebody logged in just now, and that is all it is for.
        principal = replace(vouched.principal, credential=None, expires=math.inf)
        return principal if self._around.groups is None else await with_groups(principal, self._around.groups)

    def _wanted(self) -> set[str]:
        """The claims that may stand in what is said of the person instead of the ID token; many providers do that."""
        claims = self._settings.claims
        wanted = {claims.subject[0], "email_verified", *(name for name, _ in self._settings.require)}
        if self._around.groups is None:
            wanted |= {claims.groups[0], "_claim_names", "hasgroups"}
        # Who they are about and what they hold for is the token's own affair.
        return wanted - {"iss", "sub", "aud", "exp", "nbf", "iat", "azp", "nonce", "typ"}

    async def _person(self, endpoint: str, access_token: str) -> Claims:
        """UserInfo (section 5.3). Raises `Unusable` or `FetchFailed`."""
        fields = ((b"authorization", b"Bearer " + access_token.encode()), (b"accept", b"application/json"))
        answer = await self._around.fetch.get(
            endpoint, timeout=PATIENCE, limit=DOCUMENT_LIMIT, fields=fields, tls=self._around.tls
        )
        if answer.status == 200:
            with suppress(ValueError):
                return json_object(answer.body)
        raise Unusable(f"the userinfo endpoint answered with status {answer.status}, and no sound JSON object")

    async def _provider(self) -> Mapping[str, object]:
        """What the provider says of itself, asked by one login at a time. Raises `Unusable` or `FetchFailed`."""
        async with self._asking:
            passed = self._around.steady() - self._asked
            if passed < COOLING and not self._about:
                raise Unusable("it failed a moment ago")
            if passed >= FRESH or not self._about:
                self._about = {}
                try:
                    self._about = await self._discovery.itself()
                finally:
                    self._asked = self._around.steady()
            return self._about

    @asynccontextmanager
    async def _asked_in_time(self) -> AsyncIterator[None]:
        """Whatever keeps the provider from answering becomes `IdentityUnavailable`, and a line in the log."""
        try:
            async with asyncio.timeout(LONGEST):
                yield
        except Declined as no:
            if no.code == "invalid_grant":
                raise NotLoggedIn(Result.EXPIRED, _USED, "the provider does not take the code") from None
            raise self._unavailable(f"the provider says {known(no.code)}") from None
        except (FetchFailed, Unusable, OddAnswer, TimeoutError) as error:
            raise self._unavailable(str(error) or "no complete answer in time") from None

    def _unavailable(self, why: str) -> IdentityUnavailable:
        _log.warning("identity.login.failed issuer=%s reason=%r", self.name, why)
        return IdentityUnavailable(retry_after=RETRY_SECONDS, detail=f"{self.name}: {why}")

    def _refused(self, reason: Result, detail: str) -> None:
        self._around.count(self.name, reason.value)
        _log.info("identity.login.refused issuer=%s reason=%r", self.name, detail)


def _check_meant(claims: Claims, client: str, nonce: str) -> None:
    """OpenID Connect Core 1.0 section 3.1.3.7: made for this client and for this login. Raises `BadToken`."""
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise BadToken(Result.BAD_CLAIMS, "it was not made for this login")
    audience, party = claims.get("aud"), claims.get("azp")
    several = isinstance(audience, list) and len(audience) > 1
    if (several or party is not None) and party != client:
        raise BadToken(Result.BAD_AUDIENCE, "it was made for another client")


def _said(error: BadToken | BadLogin) -> str:
    if isinstance(error, BadLogin):
        return "Your account may not be used. Ask your administrator."
    return _ODD.format(error.text)

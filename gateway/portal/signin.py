"""`/auth/login…`, `/auth/callback/…`, `/auth/logout`: how a browser comes to a session, and how it ends.

Knows: the order of steps, what is kept between them. Must not know: what a directory or a provider says, how it looks.

A login with a provider is a link, not a form: `form-action` of the content security policy would hold for every place
that the provider itself sends the browser on to, and no page can know those.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from aiohttp import web

from gateway.call import Principal
from gateway.errors import IdentityUnavailable, LoginThrottled, NotFound, Refusal, Unidentified
from gateway.identity.contracts import Begun, BrowserLogin
from gateway.identity.credentials.basic import plain_pair
from gateway.identity.passwords.login import first_of
from gateway.identity.refused import BadLogin, NotLoggedIn, Result
from gateway.portal import cookies
from gateway.portal.asked import id_of, peer_of, tell
from gateway.portal.desk import Desk
from gateway.portal.login_page import login_page
from gateway.portal.pages import HOME, go_home, go_on

# From the link to the answer of the provider: a password, a second factor, perhaps a new password.
LOGIN_SECONDS: Final = 900.0
# The parameters of an answer: a code, a state, an issuer, what a provider adds.
ANSWER_LIMIT: Final = 16

_TOO_OLD: Final = "This login was begun in another window, or too long ago. Begin again."
_ODD: Final = "The provider's answer cannot be read. Begin again."
_REVOKED: Final = "You may not log in here any more. Ask your administrator."

_log = logging.getLogger(__name__)


class SignIn:
    """The routes of logging in and out."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._services = desk.services
        self._seal = desk.seal("login")

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """What is served; a page that came of a form leads home when it is asked for again by its address."""
        return (
            web.post("/auth/login", self._by_name),
            web.get("/auth/login", go_home),
            web.get("/auth/login/{provider}", self._by_provider, allow_head=False),
            web.get("/auth/callback/{provider}", self._callback, allow_head=False),
            web.post("/auth/logout", self._log_out),
            web.get("/auth/logout", go_home),
        )

    async def _by_name(self, request: web.Request) -> web.Response:
        form = await self._desk.form(request)
        name = form.get("name", "")
        try:
            pair = plain_pair(name, form.get("password", ""))
            _, principal = await first_of(self._services.directories, *pair, peer_of(request))
        except (BadLogin, LoginThrottled, IdentityUnavailable) as refusal:
            return self._refused(request, refusal, name)
        return self._logged_in(request, principal)

    async def _by_provider(self, request: web.Request) -> web.Response:
        if request.headers.get("Sec-Fetch-Site", "none") not in {"same-origin", "none"}:
            return go_on(HOME)  # another site may link to the pages, but not begin a login in somebody's name
        login = self._login(request)
        try:
            url, begun = await login.begin(self._back(login))
        except IdentityUnavailable as refusal:
            return self._refused(request, refusal)
        response = go_on(url)
        cookies.keep(response, cookies.LOGIN, self._seal.close(_packed(login, begun)), LOGIN_SECONDS)
        return response

    async def _callback(self, request: web.Request) -> web.Response:
        login = self._login(request)
        try:
            begun = self._begun(request, login)
            principal = await login.finish(begun, _answer(request))
        except (NotLoggedIn, IdentityUnavailable) as refusal:
            response = self._refused(request, refusal)
        else:
            response = self._logged_in(request, principal)
        cookies.drop(response, cookies.LOGIN)  # a login is tried once, whatever came of it
        return response

    async def _log_out(self, request: web.Request) -> web.Response:
        session = self._desk.session(request)
        response = go_on(HOME)
        if session is not None:
            await self._desk.form_in(request, session)
            self._desk.log_out(response, session)
        return response

    def _logged_in(self, request: web.Request, principal: Principal) -> web.Response:
        if not self._services.still(principal):
            return self._refused(request, NotLoggedIn(Result.REVOKED, _REVOKED, "revoked"))
        _log.info(
            "pages.logged_in subject=%r provider=%s request_id=%s",
            principal.subject, principal.provider, id_of(request),
        )  # fmt: skip
        tell(request, principal=principal)
        response = go_on(HOME)
        self._desk.log_in(response, principal)
        return response

    def _refused(self, request: web.Request, refusal: Refusal, name: str = "") -> web.Response:
        """The choices again, and why. What was typed is not logged: it may be a password, typed a line too early."""
        _log.info(
            "pages.not_logged_in reason=%r peer=%s request_id=%s",
            refusal.detail or refusal.code, peer_of(request), id_of(request),
        )  # fmt: skip
        tell(request, refusal.detail or refusal.code)
        # 401 would need a challenge (RFC 9110 section 15.5.2), at which a browser asks for a password by itself.
        status = 403 if isinstance(refusal, Unidentified) else refusal.status
        return login_page(self._desk, request, _said(refusal), status, retry_after=refusal.retry_after, name=name)

    def _login(self, request: web.Request) -> BrowserLogin:
        """Raises `NotFound`."""
        wanted = request.match_info["provider"]
        for login in self._services.logins:
            if login.name == wanted:
                return login
        raise NotFound("No provider of this name logs anybody in here.")

    def _back(self, login: BrowserLogin) -> str:
        """One for each provider, so that no answer can be taken for another one's (RFC 9700 section 4.4.2)."""
        return f"{self._services.public_url}/auth/callback/{quote(login.name)}"

    def _begun(self, request: web.Request, login: BrowserLogin) -> Begun:
        """The login that this browser began with this provider. Raises `NotLoggedIn`."""
        packed = self._seal.open(cookies.cookie_of(request, cookies.LOGIN), LOGIN_SECONDS)
        name, *rest = json.loads(packed) if packed is not None else [""]
        if name != login.name:
            raise NotLoggedIn(Result.MALFORMED, _TOO_OLD, "no login was begun")
        return Begun(*rest)


def _packed(login: BrowserLogin, begun: Begun) -> bytes:
    return json.dumps([login.name, begun.state, begun.nonce, begun.verifier, begun.back]).encode("ascii")


def _answer(request: web.Request) -> dict[str, str]:
    """The parameters of the provider's answer. Raises `NotLoggedIn` where one stands twice (RFC 6749 section 3.1)."""
    answer = dict(request.query)
    if len(answer) != len(request.query) or len(answer) > ANSWER_LIMIT:
        raise NotLoggedIn(Result.MALFORMED, _ODD, "odd answer")
    return answer


def _said(refusal: Refusal) -> str:
    """A refusal in the words of a page."""
    wait = refusal.retry_after
    soon = "a moment" if wait is None else f"{wait} second{'' if wait == 1 else 's'}"
    if isinstance(refusal, LoginThrottled):
        return f"Too many logins failed. Wait {soon} before you try again."
    if isinstance(refusal, IdentityUnavailable):
        return f"Nobody can say who you are at the moment. Try again in {soon}, or log in another way."
    return refusal.message

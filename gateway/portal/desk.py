"""What every page of a browser goes through: who is logged in, what a form must bring along, how trouble is shown.

Knows: sessions, cookies, guards, refusals as pages. Must not know: which pages there are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_urlsafe
from typing import Any, Final

from aiohttp import web

from gateway.call import Principal
from gateway.errors import BadRequest, MethodNotAllowed, NotFound, Refusal
from gateway.portal import cookies
from gateway.portal.asked import id_of, peer_of, tell
from gateway.portal.forms import check_guard, check_source, form_of
from gateway.portal.pages import Page, Pages
from gateway.portal.sealing import Clock, Seal
from gateway.portal.services import Services
from gateway.portal.sessions import Session, Sessions

# How long a login page may lie open before its form is sent; a working day.
FORM_SECONDS: Final = 8 * 3600.0

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HEADINGS: Final = {
    400: "This request cannot be read",
    403: "This form was not accepted",
    404: "There is no such page",
    405: "This page is not asked for in this way",
    408: "This took too long",
    413: "This is too large",
    415: "This request cannot be read",
    429: "Too many attempts",
    503: "Not possible at the moment",
}
_FAULT: Final = (
    "Something went wrong here, and it is not your fault. Try again; if it stays so, tell your administrator."
)

_log = logging.getLogger(__name__)


class Desk:
    """Shared by the pages. `now` gives UNIX seconds."""

    def __init__(self, services: Services, now: Clock = time.time) -> None:
        self.services: Final = services
        self.pages: Final = Pages()
        self.now: Final = now
        self._sessions = Sessions(self._secrets, now)
        self._forms = Seal(self._secrets, "form", now)

    def seal(self, purpose: str) -> Seal:
        """For values of a page's own."""
        return Seal(self._secrets, purpose, self.now)

    def session(self, request: web.Request) -> Session | None:
        """Whoever is logged in, and still may be."""
        session = self._sessions.find(cookies.cookie_of(request, cookies.SESSION))
        if session is not None and not self.services.still(session.principal):
            self._sessions.end(session)
            return None
        return session

    def log_in(self, response: web.Response, principal: Principal) -> None:
        """Begin a session; one that the browser had is not gone on with, so that nobody can have prepared it."""
        self._remember(response, self._sessions.begin(principal))

    def log_out(self, response: web.Response, session: Session) -> None:
        """End a session, also for copies of its cookie."""
        self._sessions.end(session)
        cookies.drop(response, cookies.SESSION)

    def show(self, session: Session, page: Page) -> web.Response:
        """A page for somebody who is logged in. Being idle begins anew."""
        response = self.pages.show(page)
        self._remember(response, session)
        return response

    def show_form(self, request: web.Request, template: str, values: Mapping[str, Any], **more: Any) -> web.Response:
        """A page with a form for whoever is not logged in. Several that lie open have one guard."""
        guard = self._form_guard(request) or token_urlsafe(32)
        response = self.pages.show(Page(template, {**values, "guard": guard}, **more))
        cookies.keep(response, cookies.FORM, self._forms.close(guard.encode("ascii")))
        return response

    async def form(self, request: web.Request) -> Mapping[str, str]:
        """The form of whoever is not logged in. Raises `NotFromHere`, and what `form_of` raises."""
        check_source(request, self.services.public_url)
        form = await form_of(request)
        check_guard(form, self._form_guard(request))
        return form

    async def form_in(self, request: web.Request, session: Session) -> Mapping[str, str]:
        """The form of somebody who is logged in. Raises `NotFromHere`, and what `form_of` raises."""
        check_source(request, self.services.public_url)
        form = await form_of(request)
        check_guard(form, session.guard)
        return form

    async def answered(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        """What `answer` gives, with trouble shown as a page."""
        allow = ""
        try:
            return await answer(request)
        except Refusal as error:
            refusal = error
        except web.HTTPException as error:  # aiohttp's own, for what has no route
            refusal = _routeless(error.status)
            allow = error.headers.get("Allow", "")
        except Exception:  # noqa: BLE001  whatever it is, the person gets a page, and the log what it was
            _log.exception("pages.fault request_id=%s path=%s", id_of(request), request.rel_url.raw_path)
            return self._trouble(request, 500, _FAULT)
        # The path as it came has no space in it, so nobody writes another field with it; it is as long as they like.
        _log.info(
            "pages.refused reason=%r peer=%s request_id=%s path=%s",
            refusal.detail or refusal.code, peer_of(request), id_of(request), request.rel_url.raw_path,
        )  # fmt: skip
        tell(request, refusal.detail or refusal.code)
        page = self._trouble(request, refusal.status, refusal.message, refusal.retry_after)
        if allow:
            page.headers["Allow"] = allow
        return page

    def _trouble(self, request: web.Request, status: int, text: str, retry_after: int | None = None) -> web.Response:
        heading = _HEADINGS.get(status, "Something went wrong")
        values = {"heading": heading, "text": text, "request_id": id_of(request)}
        return self.pages.show(Page("trouble.html", values, status, retry_after))

    def _remember(self, response: web.Response, session: Session) -> None:
        cookies.keep(response, cookies.SESSION, self._sessions.sealed(session))

    def _form_guard(self, request: web.Request) -> str | None:
        guard = self._forms.open(cookies.cookie_of(request, cookies.FORM), FORM_SECONDS)
        return None if guard is None else guard.decode("ascii")

    def _secrets(self) -> tuple[bytes, ...]:
        return tuple(self.services.secrets)


def _routeless(status: int) -> Refusal:
    if status == 404:
        return NotFound("Nothing is here. The link may be old, or mistyped.")
    return MethodNotAllowed() if status == 405 else BadRequest()

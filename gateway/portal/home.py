"""`/ui/`: who one is, which models one may use and how, and a token for programs.

Knows: what stands on these pages. Must not know: how one logs in, how tokens are made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from aiohttp import web

from gateway.errors import RouteForbidden
from gateway.identity.refused import BadLogin
from gateway.identity.tokens.own import NotMinted
from gateway.portal.asked import id_of, peer_of, tell
from gateway.portal.desk import Desk
from gateway.portal.login_page import login_page
from gateway.portal.pages import HOME, Page, go_home
from gateway.portal.sessions import Session
from gateway.portal.snippets import VARIABLE, snippets

_GONE = "Your account is not to be used any more. Ask your administrator."
_ENDED = "You are not logged in any more. Log in again."

_log = logging.getLogger(__name__)


class Home:
    """The routes of these pages, and all that leads to them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._services = desk.services

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """What is served."""
        return (
            web.get("/", go_home),
            web.get("/ui", go_home),
            web.get(HOME, self._home),
            web.post("/ui/token", self._token),
            web.get("/ui/token", go_home),
            *self._desk.pages.routes(),
        )

    async def _home(self, request: web.Request) -> web.Response:
        session = self._desk.session(request)
        if session is None:
            return login_page(self._desk, request)
        who, url = session.principal, self._services.public_url
        values = {
            **_of(session),
            "groups": sorted(who.groups),
            "until": _moment(session.until),
            "models": [(model, list(snippets(model, url))) for model in self._services.granted(who, peer_of(request))],
            "mints": self._services.mints,
        }
        return self._desk.show(session, Page("home.html", values))

    async def _token(self, request: web.Request) -> web.Response:
        session = self._desk.session(request)
        if session is None:
            return login_page(self._desk, request, _ENDED, 403)
        await self._desk.form_in(request, session)
        try:
            session = replace(session, principal=await self._services.renewed(session.principal))
        except BadLogin as refusal:
            return self._gone(request, session, refusal.detail)
        if self._desk.session(request) is None:  # logged out, or revoked, while the directory was asked
            return login_page(self._desk, request, _ENDED, 403)
        who = session.principal
        try:
            minted = self._services.mint(replace(who, expires=min(who.expires, session.until)))
        except NotMinted as error:
            raise RouteForbidden(str(error), detail="not_minted") from None
        _log.info(
            "token.issued subject=%r provider=%s id=%s request_id=%s",
            who.subject, who.provider, minted.id, id_of(request),
        )  # fmt: skip
        tell(request, principal=who, credential=minted.id)
        values = {
            **_of(session),
            "minted": minted,
            "until": _moment(self._desk.now() + minted.lifetime),
            "lasts": _span(minted.lifetime),
        }
        return self._desk.show(session, Page("token.html", values))

    def _gone(self, request: web.Request, session: Session, why: str) -> web.Response:
        """Log out somebody whom their directory does not let in any more."""
        who = session.principal
        _log.warning(
            "pages.ended subject=%r provider=%s reason=%r request_id=%s",
            who.subject, who.provider, why, id_of(request),
        )  # fmt: skip
        tell(request, why, who)
        response = login_page(self._desk, request, _GONE, 403)
        self._desk.log_out(response, session)
        return response


def _of(session: Session) -> dict[str, object]:
    """What each page of somebody's speaks of."""
    return {"who": session.principal, "guard": session.guard, "variable": VARIABLE}


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _span(seconds: float) -> str:
    """Whole hours or minutes, as one says it."""
    minutes = max(1, int(seconds // 60))
    hours, rest = divmod(minutes, 60)
    count, unit = (hours, "hour") if hours and not rest else (minutes, "minute")
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"

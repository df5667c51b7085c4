"""`/ui/`: who one is, which models one may use and how, and a token for programs.

Knows: what stands on these pages. Must not know: how one logs in, how tokens are made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from aiohttp import web

from gateway.errors import RouteForbidden
from gateway.identity.tokens.own import NotMinted
from gateway.portal.asked import id_of, tell
from gateway.portal.desk import Desk
from gateway.portal.login_page import login_page
from gateway.portal.pages import HOME, Page, go_home
from gateway.portal.sessions import Session
from gateway.portal.snippets import VARIABLE, snippets

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
            "models": [(model, list(snippets(model, url))) for model in self._services.granted(who)],
            "mints": self._services.mints,
        }
        return self._desk.show(session, Page("home.html", values))

    async def _token(self, request: web.Request) -> web.Response:
        session = self._desk.session(request)
        if session is None:
            return login_page(self._desk, request, _ENDED, 403)
        await self._desk.form_in(request, session)
        who = session.principal
        try:
            minted = self._services.mint(who)
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

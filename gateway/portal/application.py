"""The gateway's own pages as one aiohttp application.

Knows: which parts there are, what holds for every answer. Must not know: what a part shows, where it listens.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.portal import browser, tokens
from gateway.portal.asked import TOLD, told
from gateway.portal.desk import Answer, Desk
from gateway.portal.services import Services

# Forms of the pages are a name, a password and a few words; the relay has bounded the body before us.
BODY_LIMIT: Final = 64 * 1024

# What every answer says unless it says otherwise: most pages are about one caller, and none is to be guessed at.
# The relay takes an answer without `Cache-Control` for one that no page gave (`pages.py`).
_ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def make(services: Services) -> web.Application:
    """The application; it is asked by our own relay alone (see `asked.py`)."""
    desk = Desk(services)

    @web.middleware
    async def in_our_words(request: web.Request, handler: Answer) -> web.StreamResponse:
        return await desk.answered(request, handler)

    application = web.Application(client_max_size=BODY_LIMIT, middlewares=[in_our_words])
    application.add_routes((*tokens.routes(services), *browser.routes(desk)))
    application.on_response_prepare.append(_say_what_always_holds)
    return application


async def _say_what_always_holds(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _ALWAYS.items():
        response.headers.setdefault(name, value)
    if facts := told(request):
        response.headers[TOLD] = facts
    response.headers.popall("Server", None)  # the versions of what we are made of are nobody's business

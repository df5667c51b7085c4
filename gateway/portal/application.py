"""The gateway's own pages as one aiohttp application.

Knows: which parts there are, what holds for every answer. Must not know: what a part shows, where it listens.
A part is a function from `Services` to its routes, and a row in `PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from aiohttp import web

from gateway.portal import browser, tokens
from gateway.portal.services import Services

# Forms of the pages are a name, a password and a few words; the relay has bounded the body before us.
BODY_LIMIT: Final = 64 * 1024

Part = Callable[[Services], Iterable[web.AbstractRouteDef]]

PARTS: Final[Sequence[Part]] = (tokens.routes, browser.routes)

# What every answer says unless it says otherwise: most pages are about one caller, and none is to be guessed at.
_ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def make(services: Services, parts: Iterable[Part] = PARTS) -> web.Application:
    """The application; it is asked by our own relay alone (see `asked.py`)."""
    application = web.Application(client_max_size=BODY_LIMIT)
    for part in parts:
        application.add_routes(part(services))
    application.on_response_prepare.append(_say_what_always_holds)
    return application


async def _say_what_always_holds(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _ALWAYS.items():
        response.headers.setdefault(name, value)
    response.headers.popall("Server", None)  # the versions of what we are made of are nobody's business

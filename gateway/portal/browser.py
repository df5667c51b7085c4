"""The pages for a browser as one part of the application: what they share is made here, once.

Knows: which pages there are. Must not know: what any of them does.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from gateway.portal.desk import Desk
from gateway.portal.home import Home
from gateway.portal.services import Services
from gateway.portal.signin import SignIn


def routes(services: Services) -> Iterable[web.AbstractRouteDef]:
    """The routes of this part."""
    desk = Desk(services)
    return (*SignIn(desk).routes(), *Home(desk).routes())

"""The pages for a browser as one part of the application.

Knows: which pages there are. Must not know: what any of them does.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from gateway.portal.desk import Desk
from gateway.portal.home import Home
from gateway.portal.signin import SignIn


def routes(desk: Desk) -> Iterable[web.AbstractRouteDef]:
    """The routes of this part."""
    return (*SignIn(desk).routes(), *Home(desk).routes())

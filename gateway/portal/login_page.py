"""The page on which one chooses how to log in.

Knows: what it shows. Must not know: what becomes of the choice.
"""

from __future__ import annotations

from aiohttp import web

from gateway.portal.asked import id_of
from gateway.portal.desk import Desk


def login_page(
    desk: Desk,
    request: web.Request,
    notice: str = "",
    status: int = 200,
    *,
    retry_after: int | None = None,
    name: str = "",
) -> web.Response:
    """`notice`: what happened, in plain words. `name`: what was typed before."""
    values = {
        "notice": notice,
        "logins": [login.name for login in desk.services.logins],
        "directories": bool(desk.services.directories),
        "name_typed": name,
        "request_id": id_of(request),
    }
    return desk.show_form(request, "login.html", values, status=status, retry_after=retry_after)

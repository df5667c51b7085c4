"""The cookies of the pages: their names, and how they are bound to this host and to us.

Knows: RFC 6265bis. Must not know: what is in them, who is logged in.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

# `__Host-`: the browser takes it from this host over TLS only, and no neighbour under the same domain can plant one.
SESSION: Final = "__Host-nimgw-session"
FORM: Final = "__Host-nimgw-form"
LOGIN: Final = "__Host-nimgw-login"


def cookie_of(request: web.Request, name: str) -> str:
    """What the browser sent under this name, or nothing."""
    return request.cookies.get(name, "")


def keep(response: web.StreamResponse, name: str, value: str, lasts: float | None = None) -> None:
    """Have the browser keep `value`: for `lasts` seconds, or until it is closed.

    SameSite=Lax: not sent with what another site embeds or posts, but still when a provider sends the browser back.
    """
    age = None if lasts is None else int(lasts)
    response.set_cookie(name, value, max_age=age, path="/", secure=True, httponly=True, samesite="Lax")


def drop(response: web.StreamResponse, name: str) -> None:
    """Have the browser forget it."""
    keep(response, name, "", 0)

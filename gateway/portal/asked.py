"""Who asked for a page of ours: what the relay says of a request.

Knows: the fields that the relay sets (`headers.py`). Must not know: pages. The application listens where only the
gateway itself can connect, so these fields are ours; a caller's own of the same names ended at the relay.
"""

from __future__ import annotations

from aiohttp import web


def peer_of(request: web.Request) -> str:
    """The address of the caller, after trusted proxies; failed logins are counted by it."""
    return request.headers.get("X-Forwarded-For", "")


def id_of(request: web.Request) -> str:
    """The id of the call, as in its audit line and its answer."""
    return request.headers.get("X-Request-Id", "")

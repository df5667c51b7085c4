"""Who asked for a page of ours, as the relay says it; and what the relay is told of them, for the audit line.

Knows: the fields that the relay sets (`headers.py`). Must not know: pages. The application listens where only the
gateway itself can connect, so these fields are ours; a caller's own of the same names ended at the relay.
"""

from __future__ import annotations

import json
from typing import Final

from aiohttp import web

from gateway.call import Principal

#: The field in which the relay is told; it ends there (`pages.py`).
TOLD: Final = "X-Gateway-Told"

_FACTS: Final = web.RequestKey("facts", dict[str, str])


def peer_of(request: web.Request) -> str:
    """The address of the caller, after trusted proxies; failed logins are counted by it."""
    return request.headers.get("X-Forwarded-For", "")


def id_of(request: web.Request) -> str:
    """The id of the call, as in its audit line and its answer."""
    return request.headers.get("X-Request-Id", "")


def tell(request: web.Request, detail: str = "", principal: Principal | None = None, credential: str = "") -> None:
    """For the audit line of this call: who was known, the name of the credential they got, or why they were refused."""
    facts = {"detail": detail, "credential": credential}
    if principal is not None:
        facts |= {"subject": principal.subject, "issuer": principal.issuer, "provider": principal.provider}
    request[_FACTS] = {name: text for name, text in facts.items() if text}


def told(request: web.Request) -> str:
    """What `tell` was given, as the field carries it; empty for nothing."""
    facts = request.get(_FACTS)
    return json.dumps(facts) if facts else ""

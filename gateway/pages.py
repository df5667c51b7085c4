"""The gateway's own pages on the path of a call: relayed as to any backend, but nobody is asked who calls before.

Knows: which paths are theirs, that the pages prove callers themselves. Must not know: what the pages show, sockets.
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.call import AnswerHead, Call, Outcome, Principal
from gateway.errors import (
    BadRequest,
    IdentityUnavailable,
    LoginThrottled,
    MethodNotAllowed,
    NoBackend,
    NotFound,
    Refusal,
    RouteForbidden,
    TooLarge,
    Unidentified,
    UpstreamBusy,
)
from gateway.exchange import Exchange
from gateway.headers import AnswerCrossing, PageCrossing
from gateway.pools.backends import Backend, Dial
from gateway.relay import Relay
from gateway.seams import Outbound, UsageKind, Wire

#: The field in which the pages tell of whom they knew: a JSON object of texts. It ends here.
TOLD: Final = b"x-gateway-told"

KEY_SET: Final = "/.well-known/jwks.json"
FOLDERS: Final = ("/auth/", "/ui/")

# Paths that are theirs as they stand: the key set, and the folders without their last slash.
_WHOLE: Final = frozenset((KEY_SET, *(folder.removesuffix("/") for folder in FOLDERS)))

# Bytes of a form; a login has a name and a password.
_BODY_LIMIT = 64 * 1024

# Seconds until a page begins to answer: a login waits for a directory, or for a provider's token.
_FIRST_BYTE = 30.0
_IDLE = 10.0


class OwnPages:
    """Implements `seams.Pages`. `dial`: opens a connection to the application."""

    def __init__(self, dial: Dial, wire: Wire) -> None:
        self._backend = Backend("", "pages", "", "http", "", 0, b"", b"nim-gateway", dial=dial)
        self._wire = wire
        self._for_pages = PageCrossing()
        self._for_callers = AnswerCrossing(ours=True)

    def at(self, call: Call) -> bool:
        """Whether this path is one of the pages; a browser that comes to `/` is meant too."""
        path = call.path
        if path.startswith(FOLDERS) or path in _WHOLE:
            return True
        return path == "/" and call.method == "GET" and b"text/html" in (call.value(b"accept") or b"")

    async def relay(self, exchange: Exchange, outcome: Outcome) -> None:
        """Carry the call to the pages and their answer back. Raises `NoBackend` where they cannot be reached, and
        `BadRequest` where they cannot read the request."""
        call, reply = exchange.call, exchange.reply
        content = await exchange.body.whole(_BODY_LIMIT)
        target = call.path if call.query is None else f"{call.path}?{call.query}"
        shared, fields = self._for_pages.outbound(call)
        outbound = Outbound(
            call.method, target.encode(), shared, fields, content, exchange.body, _BODY_LIMIT, _FIRST_BYTE, _IDLE
        )
        outcome.backend, outcome.attempts = self._backend.name, 1
        relay = _PageAnswer(reply, outcome, UsageKind.NONE, self._for_callers, _nobody_else)
        try:
            await self._wire.relay(self._backend, outbound, relay)
        except Refusal as refusal:
            if reply.started or not refusal.retry:
                raise
            if isinstance(refusal, UpstreamBusy):  # `_PageAnswer` is the only one to say so
                raise BadRequest(detail=refusal.detail) from None
            raise NoBackend(
                "The gateway's own pages cannot be reached.", retry_after=1, detail=refusal.detail
            ) from None


def _nobody_else() -> bool:
    return False


class _PageAnswer(Relay):
    """An answer of the pages: who was known there and why not is told beside it, for the audit line alone.

    One that no page gave is the server's in front of them, which could not read the request; its words are not ours.
    """

    __slots__ = ()

    def head(self, head: AnswerHead) -> None:
        if head.status >= 400 and not head.value(b"cache-control"):
            raise UpstreamBusy(detail="the pages cannot read it")
        self._note(head)
        super().head(head)

    def whole(self, head: AnswerHead, content: bytes) -> None:
        self._note(head)
        super().whole(head, content)

    def _note(self, head: AnswerHead) -> None:
        outcome = self._outcome
        told = _told(head.value(TOLD))
        if told.get("subject"):
            outcome.principal = Principal(
                told["subject"], told.get("issuer", ""), told.get("provider", ""), credential=told.get("credential")
            )
        if head.status >= 400:
            outcome.refusal = _REFUSALS.get(head.status, BadRequest)(detail=told.get("detail", ""))


def _told(value: bytes) -> dict[str, str]:
    try:
        found = orjson.loads(value) if value else {}
    except orjson.JSONDecodeError:  # a name that is no text: the answer goes on without
        return {}
    return {name: text for name, text in found.items() if isinstance(text, str)}


# What a page that was not given is called in the audit line and in metrics.
_REFUSALS: Final[dict[int, type[Refusal]]] = {
    401: Unidentified,
    403: RouteForbidden,
    404: NotFound,
    405: MethodNotAllowed,
    413: TooLarge,
    429: LoginThrottled,
    500: Refusal,
    503: IdentityUnavailable,
}

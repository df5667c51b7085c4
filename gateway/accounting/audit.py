"""The audit lines: one JSON object per decision.

Knows: fields, their order, escaping and limits.
Must not know: how a call went about; it is told an `Outcome`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import orjson

from gateway.call import Grant, Outcome

# Longest text of a field; a subject or a path may be a caller's invention.
_TEXT_LIMIT = 256


def printable(text: str) -> str:
    """`text` with everything that is no visible character escaped, cut to the limit."""
    if len(text) <= _TEXT_LIMIT and text.isascii() and text.isprintable():
        return text
    cut = text[:_TEXT_LIMIT]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


_THOUSANDTHS = tuple(b"%03d" % number for number in range(1000))


class Clock:
    """RFC 3339 time stamps in UTC; the second's part is made once a second."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._second = -1
        self._text = b""

    def stamp(self) -> bytes:
        now = self._now()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second)).encode()
        return self._text + _THOUSANDTHS[int((now - second) * 1000)] + b"Z"


class Lines:
    """Writes outcomes as audit lines. What stays the same between calls with one head is written once."""

    def write(self, outcome: Outcome, stamp: bytes, now: float) -> bytes:
        """The audit line of a finished call. `now`: `time.monotonic()` seconds."""
        call = outcome.call
        facts = self._steady(outcome)
        first = outcome.first_byte
        started = call.started
        tokens_in, tokens_out = outcome.tokens_in, outcome.tokens_out
        waited, took = int((first - started) * 1e6), int((now - started) * 1e6)  # microseconds
        # A literal, because only that is compiled to joining its parts.
        return (
            b'{"time":"%b","request_id":"%b",%b,"status":%d,"tokens_in":%b,"tokens_out":%b,"bytes":%d,"ttft_ms":%b'
            b',"duration_ms":%d.%b,"attempts":%d}\n'
        ) % (
            stamp,
            call.id.encode(),
            facts,
            outcome.status,
            b"null" if tokens_in is None else b"%d" % tokens_in,
            b"null" if tokens_out is None else b"%d" % tokens_out,
            outcome.sent,
            b"%d.%b" % (waited // 1000, _THOUSANDTHS[waited % 1000]) if first else b"null",
            took // 1000,
            _THOUSANDTHS[took % 1000],
            outcome.attempts,
        )

    def _steady(self, outcome: Outcome) -> bytes:
        """Everything but times and numbers, as members of a JSON object."""
        call, grant = outcome.call, outcome.grant
        if grant is None or outcome.refusal is not None:
            return _facts(outcome)
        noted: tuple[Grant, dict[str, bytes]] | None = call.derived.get(self)
        if noted is None or noted[0] is not grant:
            noted = (grant, {})
            call.note(self, noted)
        facts = noted[1].get(outcome.backend)
        if facts is None:
            facts = noted[1][outcome.backend] = _facts(outcome)
        return facts


def _facts(outcome: Outcome) -> bytes:
    call, principal, grant, model, refusal = (
        outcome.call,
        outcome.principal,
        outcome.grant,
        outcome.model,
        outcome.refusal,
    )
    facts = {
        "subject": printable(principal.subject) if principal else None,
        "issuer": principal.issuer if principal else None,
        "provider": principal.provider if principal else None,
        "credential": printable(principal.credential) if principal and principal.credential else None,
        "groups_used": tuple(map(printable, grant.groups_used)) if grant else (),
        "client": printable(principal.client) if principal and principal.client else None,
        "peer": call.peer,
        "method": call.method,
        "path": printable(call.path),
        "model": model.name if model else None,
        "version": model.version if model else None,
        "operation": model.operation.value if model else None,
        "decision": "allow" if grant or (refusal is None and outcome.status) else "deny",
        "rule": grant.rule if grant else (refusal and refusal.rule) or None,
        "reason": refusal.code if refusal else "ok",
        "detail": printable(refusal.detail) if refusal and refusal.detail else None,
        "pool": outcome.pool or None,
        "backend": outcome.backend or None,
    }
    return orjson.dumps(facts)[1:-1]

"""The audit file: one JSON line per decision.

Knows: fields, their order, escaping and limits, when lines are written.
Must not know: how a call went about; it is told an `Outcome`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable

import orjson

from gateway.call import Grant, Outcome

log = logging.getLogger(__name__)

# Longest text of a field; a subject or a path may be a caller's invention.
_TEXT_LIMIT = 256

# Lines are written together, this many seconds after the first: a crash loses no more than that.
_DELAY = 0.05

# Bytes that may wait for a slow disk; beyond that lines are lost and counted.
_WAITING_LIMIT = 16 * 1024 * 1024


def printable(text: str) -> str:
    """`text` with everything that is no visible character escaped, cut to the limit."""
    if len(text) <= _TEXT_LIMIT and text.isascii() and text.isprintable():
        return text
    cut = text[:_TEXT_LIMIT]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


_MILLISECONDS = tuple(f"{number:03d}Z" for number in range(1000))


class Clock:
    """RFC 3339 time stamps in UTC; the second's part is made once a second."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._second = -1
        self._text = ""

    def stamp(self) -> str:
        now = self._now()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
        return self._text + _MILLISECONDS[int((now - second) * 1000)]


class Lines:
    """Writes outcomes as audit lines. What stays the same between calls with one head is written once."""

    def write(self, outcome: Outcome, stamp: str, now: float) -> bytes:
        """The audit line of a finished call. `now`: `time.monotonic()` seconds."""
        call = outcome.call
        facts = self._steady(outcome)
        first = outcome.first_byte
        started = call.started
        tokens_in, tokens_out = outcome.tokens_in, outcome.tokens_out
        return (
            f'{{"time":"{stamp}","request_id":"{call.id}",{facts},"status":{outcome.status}'
            f',"tokens_in":{"null" if tokens_in is None else tokens_in}'
            f',"tokens_out":{"null" if tokens_out is None else tokens_out}'
            f',"bytes":{outcome.sent},"ttft_ms":{(first - started) * 1000:.3f}'
            f',"duration_ms":{(now - started) * 1000:.3f}'
            f',"attempts":{outcome.attempts}}}\n'
            if first
            else f'{{"time":"{stamp}","request_id":"{call.id}",{facts},"status":{outcome.status}'
            f',"tokens_in":null,"tokens_out":null,"bytes":{outcome.sent},"ttft_ms":null'
            f',"duration_ms":{(now - started) * 1000:.3f},"attempts":{outcome.attempts}}}\n'
        ).encode()

    def _steady(self, outcome: Outcome) -> str:
        """Everything but times and numbers, as members of a JSON object."""
        call, grant = outcome.call, outcome.grant
        if grant is None or outcome.refusal is not None:
            return _facts(outcome)
        noted: tuple[Grant, dict[str, str]] | None = call.derived.get(self)
        if noted is None or noted[0] is not grant:
            noted = (grant, {})
            call.note(self, noted)
        facts = noted[1].get(outcome.backend)
        if facts is None:
            facts = noted[1][outcome.backend] = _facts(outcome)
        return facts


def _facts(outcome: Outcome) -> str:
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
    return orjson.dumps(facts)[1:-1].decode()


class AuditFile:
    """Appends lines to a file (`-`: standard output), joined and off the event loop's path."""

    def __init__(self, path: str, lost: Callable[[int], None]) -> None:
        """`lost`: told how many lines could not be kept. Raises `OSError` when the file cannot be opened."""
        self._path = path
        self._lost = lost
        self._lines: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = _open(path)
        self._failing = False

    def add(self, text: bytes) -> None:
        """One more line, written soon."""
        if self._size > _WAITING_LIMIT:
            self._lost(1)
            return
        self._lines.append(text)
        self._size += len(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self.write)

    def write(self) -> None:
        """Write what waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._lines:
            return
        text, count = b"".join(self._lines), len(self._lines)
        self._lines.clear()
        self._size = 0
        try:
            while text:
                text = text[os.write(self._descriptor, text) :]
        except OSError as error:
            self._lost(count)
            if not self._failing:
                log.error("audit.failing file=%s error=%s", self._path, error)  # noqa: TRY400  the reason is all there is to know
            self._failing = True
        else:
            self._failing = False

    def reopen(self) -> None:
        """Follow a rotation: what waits goes to the old file. Raises `OSError`, and keeps the old file then."""
        self.write()
        descriptor = _open(self._path)
        if self._path != "-":
            os.close(self._descriptor)
        self._descriptor = descriptor

    def close(self) -> None:
        """Write what waits and close."""
        self.write()
        if self._path != "-":
            os.close(self._descriptor)


def _open(path: str) -> int:
    if path == "-":
        return sys.stdout.fileno()
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

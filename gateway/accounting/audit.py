"""The audit lines: one JSON object per decision.

Knows: fields, their order, escaping and limits.
Must not know: how a call went about; it is told an `Outcome`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import orjson

from gateway.call import Grant, Outcome

# Longest text of a field that nothing is decided by; a path may be a caller's invention.
_TEXT_LIMIT = 256

# Longest name of a caller or a client. Those that providers give are no longer (`identity.names`).
_NAME_LIMIT = 512

# Facts kept for one head, a KiB or so each: as many as pools have backends, and under limits a few more for each.
_FACTS_LIMIT = 32

# Of the groups and of the scopes that the policy speaks of, so many characters of names are written for one caller.
_NAMES_LIMIT = 16 * 1024


def printable(text: str) -> str:
    """`text` with everything that is no visible character escaped, cut to the limit."""
    if len(text) <= _TEXT_LIMIT and text.isascii() and text.isprintable():
        return text
    cut = text[:_TEXT_LIMIT]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


def _visible(text: bytes) -> bytes:
    """JSON that says the same without a character that is not visible: those that orjson leaves are escaped as well."""
    if text.isascii():
        return text
    written = text.decode()
    if written.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in written).encode()


def _escaped(character: str) -> str:
    """RFC 8259 section 7: in code units of UTF-16."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


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
        name, mark = call.id.encode(), outcome.mark
        waited, took = int((first - started) * 1e6), int((now - started) * 1e6)  # microseconds
        # A literal, because only that is compiled to joining its parts.
        return (
            b'{"time":"%b","request_id":"%b","decision_id":%b,"decided_at":%b,%b,"status":%d,"tokens_in":%b,"tokens_out":%b,"bytes":%d,"ttft_ms":%b'
            b',"duration_ms":%d.%b,"attempts":%d}\n'
        ) % (
            stamp,
            name,
            b'"%b%b"' % (mark, name) if mark else b"null",
            b"%d" % outcome.decided_at if outcome.decided_at else b"null",
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
        noted: tuple[Grant, dict[object, bytes]] | None = call.derived.get(self)
        if noted is None or noted[0] is not grant:
            noted = (grant, {})
            call.note(self, noted)
        key = _varying(outcome)
        facts = noted[1].get(key)
        if facts is None:
            if len(noted[1]) >= _FACTS_LIMIT:
                noted[1].clear()
            facts = noted[1][key] = _facts(outcome)
        return facts


def _varying(outcome: Outcome) -> object:
    """What of a line may be otherwise for the next call with this head under the same grant."""
    backend, rule, changed, shadow = outcome.backend, outcome.terms_rule, outcome.changed, outcome.shadow
    if rule is None and not changed and shadow is None and not outcome.drawn:  # so it is for most
        return backend
    return backend, rule, changed, shadow, outcome.drawn


def _facts(outcome: Outcome) -> bytes:
    call, principal, grant, model, refusal = (
        outcome.call,
        outcome.principal,
        outcome.grant,
        outcome.model,
        outcome.refusal,
    )
    facts: dict[str, object] = {
        "subject": _name(principal.subject) if principal else None,
        "issuer": principal.issuer if principal else None,
        "provider": principal.provider if principal else None,
        "credential": printable(principal.credential) if principal and principal.credential else None,
        "groups_used": tuple(map(printable, grant.groups_used)) if grant else (),
        "client": _name(principal.client) if principal and principal.client else None,
        **_known(outcome),
        "peer": call.peer,
        "method": call.method,
        "path": printable(call.path),
        "model": model.name if model else None,
        "asked_model": (model.asked or None) if model else None,
        "drawn_model": outcome.drawn or None,
        "version": printable(model.version) if model and model.version else None,
        "operation": model.operation.value if model else None,
        "explicit": model.explicit if model else None,
        "decision": "allow" if grant or (refusal is None and outcome.status) else "deny",
        "rule": grant.rule if grant else (refusal and refusal.rule) or None,
        "terms": outcome.terms_rule,
        "changed": outcome.changed,
        "reason": refusal.code if refusal else "ok",
        "detail": printable(refusal.detail) if refusal and refusal.detail else None,
        "shadow": outcome.shadow.result if outcome.shadow else None,
        "shadow_rule": (outcome.shadow and outcome.shadow.rule) or None,
        "pool": outcome.pool or None,
        "backend": outcome.backend or None,
    }
    return _visible(orjson.dumps(facts)[1:-1])


def _known(outcome: Outcome) -> dict[str, object]:
    """What else the rules went by: which rules, and what they speak of that the caller has."""
    principal, rulebook = outcome.principal, outcome.rulebook
    if principal is None or rulebook is None:
        return dict.fromkeys(("groups", "groups_known", "scopes", "left_out", "generation", "policy", "hide_models"))
    groups, scopes = principal.groups & rulebook.groups, principal.scopes & rulebook.scopes
    told_groups, told_scopes = _names(groups), _names(scopes)
    left_out = len(groups) - len(told_groups) + len(scopes) - len(told_scopes)
    return {
        "groups": told_groups,
        "groups_known": principal.groups_known,
        "scopes": told_scopes,
        "left_out": left_out + sum(len(name) > _NAME_LIMIT for name in (principal.subject, principal.client or "")),
        "generation": rulebook.generation,
        "policy": rulebook.digest,
        "hide_models": rulebook.hide_models,
    }


def _names(names: Iterable[str]) -> list[str]:
    """The first of them, in order, as many as fit."""
    told: list[str] = []
    size = 0
    for name in sorted(names):
        size += len(name)
        if size > _NAMES_LIMIT:
            break
        told.append(_name(name))
    return told


def _name(text: str) -> str:
    """Whole: JSON escapes what is not visible, and whoever reads it finds the very name again.

    Half of a pair of UTF-16 is no character and has no UTF-8; no name that a provider gives holds one.
    """
    cut = text[:_NAME_LIMIT]
    try:
        cut.encode()
    except UnicodeEncodeError:
        return printable(cut)
    return cut

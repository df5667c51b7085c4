"""An explanation as people read it, and as programs do.

Knows: words, columns, the form of the JSON. Must not know: how anything was found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from gateway.policy.asked import Asked
from gateway.policy.explain import Explanation
from gateway.policy.moments import shown
from gateway.policy.rules import Rule
from gateway.terms import NO_TERMS, Terms


def words(found: Explanation, asked: Asked, notes: Sequence[str]) -> Iterator[str]:
    """Line by line; nothing that a terminal would obey."""
    model = asked.model
    version = f" version {visible(model.version)}" if model.version else ""
    verdict = "ALLOWED" if found.allowed else "DENIED"
    yield f"{verdict}: {_who(asked)}, {model.operation.value} on {visible(model.name)}{version}"
    yield f"  because {visible(found.reason)}"
    peer = visible(asked.peer) if asked.peer else "an address that nobody knows"
    yield f"  asked for {shown(asked.at)}, from {peer}"
    if not found.allowed:
        yield f"  the caller gets HTTP {found.status}, {found.code}"
    for rule, terms in found.decision.terms:
        yield f"  under the terms of {rule}: {_terms(terms)}"
    for line in notes:
        yield f"  note: {visible(line)}"
    yield from _near(found)


def visible(text: str) -> str:
    """The text with everything escaped that is no visible character."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _near(found: Explanation) -> Iterator[str]:
    if found.allowed:
        return
    if found.near_misses:
        yield "rules that would let the call in but for one thing:"
    for miss in found.near_misses:
        yield f"  {miss.rule.id} ({miss.rule.place}) lacks: {visible(miss.lack.text)}"
    if found.more:
        yield f"  and {found.more} more"
    if found.farther:
        yield f"rules that allow and lack more than one thing: {found.farther}"


def _who(asked: Asked) -> str:
    principal = asked.principal
    parts = [visible(principal.subject) if principal.subject else "a caller without a name"]
    if principal.groups:
        parts.append(f"in {', '.join(map(visible, sorted(principal.groups)))}")
    if not principal.groups_known:
        parts.append("with groups that nobody knows")
    if principal.client:
        parts.append(f"through {visible(principal.client)}")
    if principal.scopes:
        parts.append(f"with scopes {', '.join(map(visible, sorted(principal.scopes)))}")
    if principal.provider:
        parts.append(f"vouched for by {principal.provider}")
    return " ".join(parts)


def _terms(terms: Terms) -> str:
    return ", ".join(f"{name} {_term(value)}" for name, value in _told(terms)) or "none"


def _term(value: object) -> str:
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(terms: Terms) -> Iterator[tuple[str, Any]]:
    for each in fields(terms):
        value = getattr(terms, each.name)
        if value != getattr(NO_TERMS, each.name):
            yield each.name, value


def members(found: Explanation, asked: Asked, notes: Sequence[str], generation: str) -> dict[str, Any]:
    """The JSON object (docs/policy-tools.md)."""
    principal, model = asked.principal, asked.model
    return {
        "decision": "allow" if found.allowed else "deny",
        "rule": _rule(found.decision.rule) if found.decision.rule is not None else None,
        "reason": found.reason,
        "near_misses": [
            {"rule": _rule(miss.rule), "lacks": miss.lack.text, "respect": miss.lack.respect.value}
            for miss in found.near_misses
        ],
        "generation": generation,
        "code": found.code,
        "status": found.status,
        "near_misses_left_out": found.more,
        "farther": found.farther,
        "terms": [
            {
                "rule": rule,
                **{name: sorted(value) if isinstance(value, frozenset) else value for name, value in _told(terms)},
            }
            for rule, terms in found.decision.terms
        ],
        "subject": {
            "user": principal.subject,
            "groups": sorted(principal.groups),
            "groups_known": principal.groups_known,
            "client": principal.client,
            "issuer": principal.provider,
            "scopes": sorted(principal.scopes),
        },
        "model": model.name,
        "operation": model.operation.value,
        "version": model.version,
        "at": datetime.fromtimestamp(asked.at, UTC).isoformat(),
        "from": asked.peer,
        "notes": [*notes],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {"id": rule.id, "file": rule.file, "line": rule.line}

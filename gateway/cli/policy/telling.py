"""An explanation as people read it, and as programs do.

Knows: words, columns, the form of the JSON. Must not know: how anything was found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gateway.cli.policy import said
from gateway.policy.asked import Asked
from gateway.policy.explain import Explanation
from gateway.policy.moments import shown, written


def words(found: Explanation, asked: Asked, notes: Sequence[str]) -> Iterator[str]:
    """Line by line."""
    model = asked.model
    version = f" version {model.version}" if model.version else ""
    verdict = "ALLOWED" if found.allowed else "DENIED"
    yield f"{verdict}: {_who(asked)}, {model.operation.value} on {model.name}{version}"
    yield f"  because {found.reason}"
    peer = asked.peer or "an address that nobody knows"
    yield f"  asked for {shown(asked.at)}, from {peer}"
    if not found.allowed:
        yield f"  the caller gets HTTP {found.status}, {found.code}"
    for rule, terms in found.decision.terms:
        yield f"  under the terms of {rule}: {said.terms_written(terms)}"
    for line in notes:
        yield f"  note: {line}"
    yield from _near(found)


def _near(found: Explanation) -> Iterator[str]:
    if found.allowed:
        return
    if found.near_misses:
        yield "rules that would let the call in but for one thing:"
    for miss in found.near_misses:
        yield f"  {miss.rule.id} ({miss.rule.place}) lacks: {miss.lack.text}"
    if found.more:
        yield f"  and {found.more} more"
    if found.farther:
        yield f"rules that allow and lack more than one thing: {found.farther}"


def _who(asked: Asked) -> str:
    principal = asked.principal
    parts = [principal.subject or "a caller without a name"]
    if principal.groups:
        parts.append(f"in {', '.join(sorted(principal.groups))}")
    if not principal.groups_known:
        parts.append("with groups that nobody knows")
    if principal.client:
        parts.append(f"through {principal.client}")
    if principal.scopes:
        parts.append(f"with scopes {', '.join(sorted(principal.scopes))}")
    if principal.provider:
        parts.append(f"vouched for by {principal.provider}")
    return " ".join(parts)


def members(found: Explanation, asked: Asked, notes: Sequence[str], generation: str) -> dict[str, Any]:
    """The JSON object (docs/policy-tools.md)."""
    principal, model = asked.principal, asked.model
    return {
        "decision": "allow" if found.allowed else "deny",
        "rule": said.rule(found.decision.rule) if found.decision.rule is not None else None,
        "reason": found.reason,
        "near_misses": [
            {"rule": said.rule(miss.rule), "lacks": miss.lack.text, "respect": miss.lack.respect.value}
            for miss in found.near_misses
        ],
        "generation": generation,
        "code": found.code,
        "status": found.status,
        "near_misses_left_out": found.more,
        "farther": found.farther,
        "terms": [{"rule": rule, **said.terms(terms)} for rule, terms in found.decision.terms],
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
        "at": written(asked.at),
        "from": asked.peer,
        "notes": [*notes],
    }

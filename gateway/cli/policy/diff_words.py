"""Differences between two policies in words, and as JSON.

Knows: how a difference is read. Must not know: how it was found, files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from gateway.call import Operation
from gateway.cli.policy import said
from gateway.cli.policy.said import one_of
from gateway.policy.diff.axes import Point
from gateway.policy.diff.changes import Change
from gateway.policy.diff.models import Named
from gateway.policy.diff.witnesses import Kind
from gateway.policy.engine import Decision, Why
from gateway.policy.moments import shown, written
from gateway.terms import NO_TERMS

HEADS: Final = {
    Kind.GRANTED: "Newly allowed",
    Kind.REVOKED: "No longer allowed",
    Kind.WIDER: "Allowed under wider limits",
    Kind.NARROWER: "Allowed under narrower limits",
}
LIMITS: Final = {Kind.WIDER, Kind.NARROWER}

_SINGLE: Final = {"user": "user", "client": "client"}
_MANY: Final = {"group": "groups", "scope": "scopes"}


def members(changes: Iterable[Change]) -> dict[str, Any]:
    """The JSON object (docs/policy-tools.md)."""
    found: dict[str, list[dict[str, Any]]] = {"changes": [], "limits": []}
    for change in changes:
        found["limits" if change.kind in LIMITS else "changes"].append(_member(change))
    return found


def _member(change: Change) -> dict[str, Any]:
    limited = change.kind in LIMITS
    told_of = _terms if limited else _decision
    member: dict[str, Any] = {
        "subject": _subject(change),
        "model": change.model.name,
        "operation": change.operation.value,
        "before": told_of(change.before),
        "after": told_of(change.after),
        "rule_before": _rule(change.before),
        "rule_after": _rule(change.after),
    }
    if limited:
        member["change"] = change.kind.value
    if change.model.aliases:
        member["aliases"] = list(change.model.aliases)
    if change.model.patterns:
        member["patterns"] = list(change.model.patterns)
    if change.place.explicit is not None:
        member["explicit"] = change.place.explicit
    member |= _places(change)
    if stands := _stands_for(change):
        member["stands_for"] = stands
    return member


def _subject(change: Change) -> dict[str, Any]:
    found: dict[str, Any] = {name: [] for name in _MANY.values()}
    for element in change.elements:
        if element.kind in _SINGLE:
            found[element.kind] = element.names[0]
        else:
            found[_MANY[element.kind]].append(element.names[0])
    found = {name: value for name, value in found.items() if value or name == "groups"}
    if change.place.issuer is not None:
        found["issuer"] = change.place.issuer.value
    if change.place.groups_known is not None:
        found["groups_known"] = change.place.groups_known
    return found


def _places(change: Change) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if change.place.version is not None:
        found["version"] = change.place.version.value
    if change.place.address is not None:
        found["from"] = change.place.address.value
    if change.place.time is not None:
        found["at"] = written(change.place.time.value.at)
    return found


def _stands_for(change: Change) -> dict[str, Any]:
    """What is told once for several that no rule in question tells apart; `null` for what no rule names."""
    found: dict[str, Any] = {}
    for element in change.elements:
        if element.names[1:]:
            kind = _SINGLE.get(element.kind) or _MANY[element.kind]
            found.setdefault(kind, {})[element.names[0]] = list(element.names[1:])
    for name, point in (("issuer", change.place.issuer), ("version", change.place.version)):
        if point is not None and (point.others or point.rest):
            others = point.others[:-1] if point.rest else point.others  # the last is made up
            found[name] = {"others": list(others), "any_unnamed": point.rest}
    return found


def _decision(decision: Decision) -> Any:
    return "allow" if decision.why is Why.ALLOWED else "deny"


def _terms(decision: Decision) -> Any:
    return [said.terms(terms) for _, terms in decision.terms] or [{}]


def _rule(decision: Decision) -> dict[str, Any] | None:
    rule = decision.rule
    return None if rule is None else said.rule(rule)


def words(changes: Sequence[Change], most: int | None) -> Iterator[str]:
    """Line by line, newly allowed first; at most so many entries, and how many more there are."""
    entries = _entries(changes)
    printed = entries if most is None else entries[:most]
    for kind in Kind:
        count = sum(1 for each, _ in entries if each is kind)
        if not count:
            continue
        yield f"{HEADS[kind]}: {count}"
        for each, lines in printed:
            if each is kind:
                yield from (f"  {line}" for line in lines)
        yield ""
    if len(printed) < len(entries):
        yield f"and {len(entries) - len(printed)} more of these; --all shows them"


def _entries(changes: Sequence[Change]) -> list[tuple[Kind, list[str]]]:
    """One for all models and operations of which the same is to be said."""
    alike: dict[tuple[Any, ...], dict[Named, list[Operation]]] = {}
    for change in changes:
        story = (change.kind, _who(change), _where(change), _said(change.before), _said(change.after))
        alike.setdefault(story, {}).setdefault(change.model, []).append(change.operation)
    found = []
    for (kind, who, where, before, after), asked in alike.items():
        by_operations: dict[tuple[Operation, ...], list[Named]] = {}
        for model, operations in asked.items():
            by_operations.setdefault(tuple(operations), []).append(model)
        for together, models in by_operations.items():
            what = ", ".join(operation.value for operation in together)
            lines = [who, f"  {what} on {', '.join(map(_named, models))}", *(f"  {line}" for line in where)]
            found.append((kind, [*lines, f"  before: {before}", f"  after:  {after}"]))
    return found


def _who(change: Change) -> str:
    more = []
    if change.place.issuer is not None:
        more.append(f"of {_named_by(change.place.issuer, 'provider')}")
    if change.place.groups_known is False:
        more.append("whose groups are not all known")
    if not change.elements:
        return " ".join(["everybody", *more])
    return ", ".join([*(f"{element.kind} {one_of(element.names)}" for element in change.elements), *more])


def _named_by(point: Point[Any], what: str) -> str:
    """`provider a or b`; the last name of a point that stands for what no rule names is made up."""
    names = ["none" if name is None else str(name) for name in (point.value, *point.others)]
    if not point.rest:
        return f"{what} {one_of(names)}"
    rest = "any that no rule names"
    return f"{what} {one_of([*names[:-1], rest])}" if names[1:] else f"any {what} that no rule names"


def _where(change: Change) -> tuple[str, ...]:
    found = []
    if change.place.explicit:
        found.append("on routes for which a rule has to list the operation")
    if change.place.version is not None:
        found.append(_named_by(change.place.version, "version"))
    if change.place.address is not None:
        peer = change.place.address.value
        found.append("from an unknown address" if peer is None else f"from addresses like {peer}")
    if change.place.time is not None:
        instant = change.place.time.value
        found.append(f"at times like {shown(instant.at, instant.zone)}")
    return tuple(found)


def _named(model: Named) -> str:
    if model.aliases:
        return f"{model.name} ({', '.join(model.aliases)})"
    return f"{model.name} (made up: matches {' and '.join(model.patterns)})" if model.patterns else model.name


_WHY: Final = {
    Why.ALLOWED: "allowed by",
    Why.DENIED: "denied by",
    Why.GROUPS: "denied, since groups are not known, by",
}


def _said(decision: Decision) -> str:
    rule = decision.rule
    if rule is None:
        return "denied, for no rule allows it"
    text = f"{_WHY[decision.why]} {rule.id} ({rule.place})"
    limits = [f"{rule_id} limits {said.terms_written(terms)}" for rule_id, terms in decision.terms if terms != NO_TERMS]
    return "; ".join([text, *limits])

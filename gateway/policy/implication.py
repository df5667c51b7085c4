"""Rules held against each other: does one mean all that another means, can two never mean the same call?

Pure. Every answer is on the safe side: `covers` and `apart` are only said where they are certain.
Knows: what a rule means (docs/policies.md). Must not know: findings, files.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final

from gateway.call import Operation
from gateway.policy.conditions import DAY, Network, Window
from gateway.policy.patterns import included, meet
from gateway.policy.rules import Rule

# Into more parts than this a rule is not taken apart; then only rules that cover it as a whole are found.
PARTS_LIMIT: Final = 512


def covers(one: Rule, other: Rule) -> bool:
    """Whether `one` surely speaks whenever `other` does: whoever calls, for whatever, at any time, from anywhere.

    Also where groups are unknown: what `one` then says is at least as sure. Effects and terms are left aside.
    """
    return other.explicit_operations <= one.explicit_operations and _matches(one, other)


def shuts(deny: Rule, allow: Rule) -> bool:
    """Whether the denying rule surely matches whenever the allowing one does.

    One that denies does so whether it lists an operation by name or not.
    """
    return _matches(deny, allow)


def _matches(one: Rule, other: Rule) -> bool:
    return (
        other.operations <= one.operations
        and _means(one, other)
        and _narrows(other.issuers, one.issuers)
        and _narrows(other.scopes, one.scopes)
        and _narrows(other.versions, one.versions)
        and one.not_groups <= other.not_groups
        and _lasts(one.window, other.window)
        and _reaches(one.networks, other.networks)
        and all(included(pattern, one.models) for pattern in other.models)
    )


def parts(rule: Rule) -> Iterator[Rule]:
    """`rule` as rules of one subject, one pattern and one operation each, which together mean what it means.

    The rule itself where they would be too many.
    """
    named = [(kind, name) for kind in ("users", "groups", "clients") for name in sorted(getattr(rule, kind))]
    if len(named or "1") * len(rule.models) * len(rule.operations) > PARTS_LIMIT:
        yield rule
        return
    nobody: dict[str, frozenset[str]] = {"users": frozenset(), "groups": frozenset(), "clients": frozenset()}
    subjects = [nobody | {kind: frozenset({name})} for kind, name in named] or [nobody]
    for who, pattern, operation in product(subjects, rule.models, sorted(rule.operations)):
        yield replace(
            rule,
            models=(pattern,),
            operations=frozenset({operation}),
            explicit_operations=rule.explicit_operations & {operation},
            users=who["users"],
            groups=who["groups"],
            clients=who["clients"],
        )


def apart(deny: Rule, allow: Rule) -> bool:
    """Whether surely no call is denied by the one that the other would let in."""
    opened = allow.operations | ({Operation.HEALTH} if Operation.INFER in allow.operations else set())
    return (
        not opened & deny.operations
        or _disjoint(deny.issuers, allow.issuers)
        or _disjoint(deny.versions, allow.versions)
        or _different(deny, allow)
        or (bool(deny.groups) and not deny.users and not deny.clients and deny.groups <= allow.not_groups)
        or _never_together(deny.window, allow.window)
        or _elsewhere(deny.networks, allow.networks)
        or not any(meet(one, other) for one in deny.models for other in allow.models)
    )


def impossible(rule: Rule) -> bool:
    """Whether nobody can be meant: whoever is, is left out.

    As far as groups are known; where they are not, such a rule lets nobody in, but one that denies does so.
    """
    return not rule.users and not rule.clients and bool(rule.groups) and rule.groups <= rule.not_groups


def _narrows(inner: Set[object], outer: Set[object]) -> bool:
    """Whether a choice of `inner` is within one of `outer`, where nothing chosen is everything."""
    return not outer or (bool(inner) and inner <= outer)


def _means(one: Rule, other: Rule) -> bool:
    if one.anybody or other.anybody:
        return one.anybody
    return other.users <= one.users and other.groups <= one.groups and other.clients <= one.clients


def _lasts(one: Window | None, other: Window | None) -> bool:
    if one is None or other is None:
        return one is None
    return one.zone == other.zone and not _week(other) & ~_week(one)


def _reaches(one: tuple[Network, ...], other: tuple[Network, ...]) -> bool:
    if not one or not other:
        return not one
    return all(any(_inside(inner, outer) for outer in one) for inner in other)


def _inside(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]  # of one version


def _disjoint(one: Set[object], other: Set[object]) -> bool:
    """Whether two choices have nothing in common, where nothing chosen is everything."""
    return bool(one and other) and not one & other


def _different(one: Rule, other: Rule) -> bool:
    """Whether both mean only users, or only clients, and never the same: a caller is one user, through one client."""
    if one.groups or other.groups:
        return False
    if not one.clients and not other.clients:
        return _disjoint(one.users, other.users)
    return not one.users and not other.users and _disjoint(one.clients, other.clients)


def _never_together(one: Window | None, other: Window | None) -> bool:
    return one is not None and other is not None and one.zone == other.zone and not _week(one) & _week(other)


def _elsewhere(one: tuple[Network, ...], other: tuple[Network, ...]) -> bool:
    return bool(one and other) and not any(a.version == b.version and a.overlaps(b) for a in one for b in other)


@lru_cache(4096)
def _week(window: Window) -> int:
    """The minutes of the week in which it is open, one bit each."""
    week = 0
    for day in window.days:
        length = window.end - window.begin if window.begin < window.end else window.end - window.begin + DAY
        for minute in range(day * DAY + window.begin, day * DAY + window.begin + length):
            week |= 1 << minute % (7 * DAY)
    return week

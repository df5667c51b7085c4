"""Policies of few words, so that every caller there is can be asked, and what the answer ought to be then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_network
from itertools import combinations, product
from typing import Any

from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.conditions import Window, address_of, within
from gateway.policy.diff.axes import Point
from gateway.policy.diff.changes import Change
from gateway.policy.diff.times import Instant
from gateway.policy.diff.witnesses import Kind
from gateway.policy.engine import Policy, Why
from gateway.policy.rules import DEFAULT_OPERATIONS, Effect, Rule
from gateway.terms import NO_TERMS, Terms, covers
from tests.policy.reference import name_matches

NOW = 1_790_000_000.0  # 2026-09-21, a Monday

USERS, CLIENTS, GROUPS, SCOPES = ("ann", "bob"), ("app",), ("g", "h", "i", "j"), ("s", "t")
ISSUERS, VERSIONS = ("corp", "lab"), ("1", "2")
PATTERNS = ("*", "m", "n/*", "n/**", "**x", "n/x", "*/y", "k*")
NETWORKS = tuple(map(ip_network, ("10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32")))
WINDOWS = (
    Window("Europe/Madrid", frozenset(range(5)), 8 * 60, 20 * 60),
    Window("America/New_York", frozenset(range(7)), 22 * 60, 6 * 60),
    Window("UTC", frozenset({5})),
)
TERMS = (NO_TERMS, Terms(max_tokens=10), Terms(max_tokens=20, n=1), Terms(engine_fields=frozenset({"priority"})))

#: What callers have, a user first and then a client; the words of a `Change`.
Having = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Question:
    """All but the caller's user, client, groups and scopes."""

    name: str
    operation: Operation
    explicit: bool
    groups_known: bool
    issuer: str
    version: str | None
    peer: str | None
    at: float


questions = st.builds(
    Question,
    name=st.sampled_from(("m", "n/x", "n/y", "n/x/z", "k", "kx", "other", "n/yx", "q/y")),
    operation=st.sampled_from((Operation.INFER, Operation.HEALTH, Operation.METRICS)),
    explicit=st.booleans(),
    groups_known=st.booleans(),
    issuer=st.sampled_from((*ISSUERS, "third")),
    version=st.sampled_from((None, "1", "2", "3", "02")),
    peer=st.sampled_from((None, "10.0.0.1", "10.1.2.3", "192.168.0.1", "2001:db8::5", "::ffff:10.0.0.9", "::1")),
    at=st.integers(0, 365 * 24 * 60).map(lambda minute: NOW + minute * 60.0),
)


def some(values: Sequence[Any], most: int = 2, least: int = 0) -> st.SearchStrategy[frozenset[Any]]:
    return st.frozensets(st.sampled_from(values), min_size=least, max_size=most)


@st.composite
def some_rule(draw: st.DrawFn) -> Rule:
    """Half of them say nothing about time, place and so on, so that rules meet."""
    rare = st.integers(0, 3).map(lambda number: number == 0)
    who = {"users": USERS, "groups": GROUPS, "clients": CLIENTS, "issuers": ISSUERS}
    kinds = draw(st.sampled_from((("groups",), ("users",), ("issuers",), ("groups", "users"), ("groups", "issuers"))))
    if draw(rare):
        kinds = (*kinds, "clients")
    effect = draw(st.sampled_from(Effect))
    written = draw(some((Operation.INFER, Operation.HEALTH, Operation.METRICS)))
    return Rule(
        id="r",
        file="p.yaml",
        line=1,
        effect=effect,
        models=tuple(sorted(draw(some(PATTERNS, least=1)))),
        operations=written or DEFAULT_OPERATIONS,
        explicit_operations=written,
        versions=draw(some(VERSIONS, 1)) if draw(rare) else frozenset(),
        scopes=draw(some(SCOPES, 1)),
        not_groups=draw(some(GROUPS)),
        networks=tuple(draw(some(NETWORKS, 1))) if draw(rare) else (),
        window=draw(st.sampled_from(WINDOWS)) if draw(rare) else None,
        terms=draw(st.sampled_from(TERMS)) if effect is Effect.ALLOW else NO_TERMS,
        **{kind: draw(some(who[kind], least=1)) for kind in kinds},
    )


some_rules = st.lists(some_rule(), max_size=6)


@st.composite
def rule_of_health(draw: st.DrawFn, needed: Operation, effects: Sequence[Effect] = tuple(Effect)) -> Rule:
    """One for groups or for everybody, for `needed`: to run models, or to ask for their health."""
    effect = draw(st.sampled_from(effects))
    operations = frozenset({needed, draw(st.sampled_from((Operation.INFER, Operation.HEALTH)))})
    groups = draw(some(GROUPS))
    return Rule(
        id="r",
        file="p.yaml",
        line=1,
        effect=effect,
        models=("m",),
        groups=groups,
        issuers=frozenset() if groups else frozenset({"corp"}),
        operations=operations,
        explicit_operations=operations,
        not_groups=draw(st.sampled_from((frozenset(), frozenset(), frozenset("g"), frozenset("h")))) - groups,
        terms=draw(st.sampled_from((NO_TERMS, NO_TERMS, *TERMS))) if effect is Effect.ALLOW else NO_TERMS,
    )


@st.composite
def versions_of_health(draw: st.DrawFn) -> tuple[list[Rule], list[Rule]]:
    """Two whose rules let run a model and keep from it, and which differ in who may ask for its health, mostly."""
    run, health = Operation.INFER, Operation.HEALTH
    common = [draw(rule_of_health(run, [Effect.ALLOW])), draw(rule_of_health(run, [Effect.DENY]))]
    common += draw(st.lists(rule_of_health(run) | rule_of_health(health), max_size=2))
    more, less = draw(rule_of_health(health)), draw(st.lists(rule_of_health(health) | rule_of_health(run), max_size=1))
    return ([*common, more], [*common, *less]) if draw(st.booleans()) else ([*common, *less], [*common, more])


HEALTH_QUESTIONS = tuple(
    Question("m", Operation.HEALTH, explicit, groups_known, "corp", None, None, NOW)
    for explicit, groups_known in product((False, True), repeat=2)
)


@cache
def callers() -> tuple[Having, ...]:
    """Everybody: at most one user and one client, any groups and any scopes."""
    ones: list[list[Having]] = [
        [frozenset(), *(frozenset({(kind, name)}) for name in names)]
        for kind, names in (("user", USERS), ("client", CLIENTS))
    ]
    many = [sets("group", GROUPS), sets("scope", SCOPES)]
    return tuple(frozenset[tuple[str, str]]().union(*parts) for parts in product(*ones, *many))


def sets(kind: str, names: Sequence[str]) -> list[Having]:
    chosen = (found for size in range(len(names) + 1) for found in combinations(names, size))
    return [frozenset((kind, name) for name in found) for found in chosen]


def decided(policy: Policy, having: Having, question: Question) -> set[Terms] | None:
    """The terms under which it is allowed; None where it is not."""
    of = {kind: [name for word, name in having if word == kind] for kind in ("user", "client", "group", "scope")}
    principal = Principal(
        subject=(of["user"] or ["nobody"])[0],
        issuer="https://idp.test",
        provider=question.issuer,
        groups=frozenset(of["group"]),
        client=next(iter(of["client"]), None),
        scopes=frozenset(of["scope"]),
        groups_known=question.groups_known,
    )
    model = ModelRef(question.name, question.operation, question.version, question.explicit)
    decision = policy.decide(principal, model, policy.holding(question.at, question.peer))
    if decision.why is not Why.ALLOWED:
        return None
    return {terms for _, terms in decision.terms} or {NO_TERMS}


def expected(
    old: Policy, new: Policy, question: Question, among: Iterable[Having] | None = None
) -> set[tuple[Kind, Having]]:
    """The smallest callers of each kind of change, found by asking everybody, or all that are `among` these."""
    changed: dict[tuple[Kind, Terms | None], set[Having]] = {}
    for having in callers() if among is None else among:
        before, after = decided(old, having, question), decided(new, having, question)
        for kind, terms in _kinds(before, after):
            changed.setdefault((kind, terms), set()).add(having)
    return {
        (kind, having)
        for (kind, _), found in changed.items()
        for having in found
        if not any(less < having for less in found)
    }


def _kinds(before: set[Terms] | None, after: set[Terms] | None) -> Iterator[tuple[Kind, Terms | None]]:
    if before is None or after is None:
        if after is not None:
            yield Kind.GRANTED, None
        if before is not None:
            yield Kind.REVOKED, None
        return
    for kind, old, new in ((Kind.WIDER, before, after), (Kind.NARROWER, after, before)):
        yield from ((kind, terms) for terms in new if not any(covers(wide, terms) for wide in old))


def told(changes: Iterable[Change], rules: Sequence[Rule], question: Question) -> set[tuple[Kind, Having]]:
    """What of `changes` is about this question, each caller written out."""
    return {
        (change.kind, frozenset(zip((element.kind for element in change.elements), names, strict=True)))
        for change in changes
        if _about(change, rules, question)
        for names in product(*(element.names for element in change.elements))
    }


def _about(change: Change, rules: Sequence[Rule], question: Question) -> bool:
    version = None if question.version == "02" else question.version  # not a version that servers read alike
    return (
        change.operation is question.operation
        and change.place.explicit in {None, question.explicit}
        and change.place.groups_known in {None, question.groups_known}
        and _same_model(change, rules, question.name)
        and _on(change.place.issuer, question.issuer, {issuer for rule in rules for issuer in rule.issuers})
        and _on(change.place.version, version, {None, *(version for rule in rules for version in rule.versions)})
        and _like(change.place.address, lambda peer: _near(rules, peer), question.peer)
        and _like(change.place.time, lambda at: _open(rules, at.at), Instant(question.at, "UTC"))
    )


def _same_model(change: Change, rules: Sequence[Rule], name: str) -> bool:
    patterns = sorted({pattern for rule in rules for pattern in rule.models})
    if name in patterns or change.model.name in patterns:
        return change.model.name == name
    return [name_matches(p, name) for p in patterns] == [name_matches(p, change.model.name) for p in patterns]


def _on(point: Point[Any] | None, value: object, named: Collection[object]) -> bool:
    """`named`: those that rules name; whatever is not, is one of the rest."""
    return point is None or value in {point.value, *point.others} or (point.rest and value not in named)


def _like(point: Point[Any] | None, signature: Callable[[Any], object], value: object) -> bool:
    return point is None or signature(value) in [signature(other) for other in (point.value, *point.others)]


def _near(rules: Sequence[Rule], peer: str | None) -> object:
    address = address_of(peer or "")
    return address is None, [within(address, rule.networks) for rule in rules]


def _open(rules: Sequence[Rule], at: float) -> object:
    return [rule.window is None or rule.window.holds(at) for rule in rules]

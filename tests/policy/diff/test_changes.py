"""A comparison tells of everybody whose answer changes, and of nobody else."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.diff import spread, witnesses
from gateway.policy.diff.bounds import TooMuch
from gateway.policy.diff.changes import Change, Known, differences
from gateway.policy.diff.models import Named
from gateway.policy.diff.spread import Place
from gateway.policy.diff.witnesses import Element, Finding, Kind
from gateway.policy.engine import Policy
from gateway.policy.rules import Effect, Rule
from gateway.terms import Terms
from tests.policy.diff.small import (
    GROUPS,
    HEALTH_QUESTIONS,
    NOW,
    WINDOWS,
    Question,
    expected,
    questions,
    sets,
    some_rule,
    some_rules,
    told,
    versions_of_health,
)
from tests.policy.rules import rule

SWAPPED = {
    Kind.GRANTED: Kind.REVOKED,
    Kind.REVOKED: Kind.GRANTED,
    Kind.WIDER: Kind.NARROWER,
    Kind.NARROWER: Kind.WIDER,
}


@st.composite
def versions(draw: st.DrawFn) -> tuple[list[Rule], list[Rule]]:
    """Two that have some rules in common."""
    common = draw(some_rules)
    return [*common, *draw(st.lists(some_rule(), max_size=2))], [*common, *draw(st.lists(some_rule(), max_size=2))]


@settings(max_examples=60)
@given(versions(), st.lists(questions, min_size=1, max_size=3))
def test_the_callers_that_are_told_are_the_smallest_of_all_whose_answer_changes(
    rules: tuple[list[Rule], list[Rule]], asked: list[Question]
) -> None:
    """So whoever's answer changes has all that one of them has."""
    old, new = Policy(rules[0]), Policy(rules[1])
    changes = differences(old, new, NOW)
    for question in asked:
        assert told(changes, [*rules[0], *rules[1]], question) == expected(old, new, question)


@settings(max_examples=400)
@given(versions_of_health())
def test_whoever_gets_or_loses_the_right_to_ask_for_health_is_told_by_whichever_way(
    rules: tuple[list[Rule], list[Rule]],
) -> None:
    """Whoever may run a model may ask for its health: a rule that denies running it shuts that way and no other."""
    old, new = Policy(rules[0]), Policy(rules[1])
    changes = differences(old, new, NOW)
    for question in HEALTH_QUESTIONS:
        assert told(changes, [*rules[0], *rules[1]], question) == expected(old, new, question, sets("group", GROUPS))


def test_who_may_not_run_a_model_and_is_let_ask_for_its_health_is_told() -> None:
    corp: dict[str, Any] = {"issuers": frozenset({"corp"})}
    old = [
        rule("everybody-runs", operations={Operation.INFER}, **corp),
        rule("out", Effect.DENY, groups=frozenset({"contractors"}), operations={Operation.INFER}),
    ]
    new = [*old, rule("watch", operations={Operation.HEALTH}, **corp)]
    found = [
        one for one in differences(Policy(old), Policy(new), NOW) if one.place.groups_known and not one.place.explicit
    ]
    assert [(one.kind, one.elements[0].names) for one in found] == [(Kind.GRANTED, ("contractors",))]


def test_who_is_kept_from_the_health_of_a_model_by_name_is_not_said_to_get_it() -> None:
    run, health = {Operation.INFER}, {Operation.HEALTH}
    old = [
        rule("everybody-runs", operations=run, issuers=frozenset({"corp"})),
        rule("out", Effect.DENY, groups=frozenset({"contractors", "interns"}), operations=run),
        rule("no-health", Effect.DENY, groups=frozenset({"contractors"}), models=("big",), operations=health),
    ]
    new = [*old, rule("watch", groups=frozenset({"sre", "interns"}), operations=health)]
    found = [one for one in differences(Policy(old), Policy(new), NOW) if one.model == Named("big")]
    assert {names for one in found for element in one.elements for names in element.names} == {"interns", "sre"}


@pytest.mark.parametrize("wrong", ["g", "h", "i"])
def test_what_the_engine_does_not_agree_with_is_not_told(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of any of the names that an entry stands for."""

    def of(_spread: object, _name: str, _operation: Operation) -> list[tuple[Finding, Place]]:
        caller = frozenset({Element("group", ("g", "h", "i"))})
        return [(Finding(Kind.GRANTED, caller), Place(*[None] * 6))]

    monkeypatch.setattr(spread.Spread, "of", of)
    new = Policy([rule(groups=frozenset({"g", "h", "i"} - {wrong}), operations=frozenset(Operation))])
    with pytest.raises(AssertionError, match="the engine says"):
        differences(Policy([]), new, NOW)


@settings(max_examples=20)
@given(versions())
def test_the_way_back_is_the_way_there_turned_around(rules: tuple[list[Rule], list[Rule]]) -> None:
    there, back = (differences(Policy(a), Policy(b), NOW) for a, b in (rules, rules[::-1]))

    def sides(change: Change) -> tuple[object, ...]:
        return change.elements, change.model, change.operation, change.place.explicit, change.place.groups_known

    ahead = {(SWAPPED[change.kind], *sides(change), change.after.why, change.before.why) for change in there}
    assert ahead == {(change.kind, *sides(change), change.before.why, change.after.why) for change in back}


@settings(max_examples=30)
@given(some_rules, st.randoms())
def test_the_same_rules_in_another_order_under_other_names_change_nothing(
    rules: list[Rule], order: random.Random
) -> None:
    shuffled = [replace(one, id=f"other-{number}", line=number) for number, one in enumerate(rules)]
    order.shuffle(shuffled)
    assert differences(Policy(rules), Policy(shuffled), NOW) == ()


def test_a_rule_that_is_cut_in_two_changes_nothing() -> None:
    whole = [rule(groups=frozenset({"a", "b"}), models=("m", "n/*"))]
    parts = [rule(groups=frozenset({group}), models=(model,)) for group in "ab" for model in ("m", "n/*")]
    assert differences(Policy(whole), Policy(parts), NOW) == ()


def test_a_rule_that_no_longer_denies_is_seen_though_it_denied_only_who_is_in_two_groups() -> None:
    old = [rule(groups=frozenset({"a"})), rule("no", Effect.DENY, groups=frozenset({"b"}))]
    found = [one for one in differences(Policy(old), Policy(old[:1]), NOW) if one.operation is Operation.INFER]
    assert [sorted(element.names for element in one.elements) for one in found if one.place.groups_known] == [
        [("a",), ("b",)]
    ]


def test_fifty_groups_and_fifty_models_are_compared_like_by_brute_force() -> None:
    """Whoever is in one or two of the groups, on each model, one by one."""
    chance = random.Random(5)  # noqa: S311  the same policies each time
    groups, models = [f"group-{n}" for n in range(50)], [f"vendor-{n % 5}/model-{n}" for n in range(50)]

    def some(number: int) -> Rule:
        effect = Effect.DENY if chance.random() < 0.3 else Effect.ALLOW
        patterns = tuple(chance.choice([*models, "vendor-1/*", "vendor-2/**", "*"]) for _ in range(2))
        chosen = frozenset(chance.sample(groups, 3))
        return rule(
            f"r{number}", effect, groups=chosen, models=patterns, not_groups=frozenset(chance.sample(groups, 1))
        )

    rules = [some(number) for number in range(60)]
    old, new = Policy(rules[:54]), Policy(rules[6:])
    known = Known(tuple(map(Named, models)), ("corp",))
    listed: dict[tuple[str, Kind], list[list[set[str]]]] = {}
    for change in differences(old, new, NOW, known=known):
        if change.operation is Operation.INFER and change.place.groups_known is not False and not change.place.explicit:
            listed.setdefault((change.model.name, change.kind), []).append([set(e.names) for e in change.elements])
    for model in models:
        changed: dict[Kind, set[frozenset[str]]] = {Kind.GRANTED: set(), Kind.REVOKED: set()}
        for caller in [frozenset(some) for size in (0, 1, 2) for some in combinations(groups, size)]:
            principal, ref = Principal("x", "", "corp", caller), ModelRef(model, Operation.INFER)
            before, after = (policy.decide(principal, ref).rule for policy in (old, new))
            may = [one is not None and one.effect is Effect.ALLOW for one in (before, after)]
            if may[0] != may[1]:
                changed[Kind.GRANTED if may[1] else Kind.REVOKED].add(caller)
        for kind, callers in changed.items():
            smallest = {caller for caller in callers if not any(other < caller for other in callers)}
            shown = listed.get((model, kind), [])
            assert smallest == {
                frozenset(names) for witness in shown if len(witness) <= 2 for names in _choices(witness)
            }


def _choices(witness: list[set[str]]) -> list[set[str]]:
    found: list[set[str]] = [set()]
    for names in witness:
        found = [{*one, name} for one in found for name in names]
    return found


def test_only_what_is_configured_is_compared() -> None:
    known = Known((Named("n/a", ("a",)), Named("m")), ("corp",))
    found = differences(
        Policy([rule()]), Policy([rule(), rule(models=("n/*",), users=frozenset({"z"}))]), NOW, known=known
    )
    assert {one.model for one in found} == {Named("n/a", ("a",))}


def test_wider_limits_are_told_as_such_and_not_as_newly_allowed() -> None:
    old, new = (Policy([rule(terms=Terms(max_tokens=most))]) for most in (10, 20))
    assert {one.kind for one in differences(old, new, NOW)} == {Kind.WIDER}
    assert {one.kind for one in differences(new, old, NOW)} == {Kind.NARROWER}


def test_a_window_that_closes_is_told_with_a_time_at_which_it_makes_a_difference() -> None:
    (found,) = (
        one
        for one in differences(Policy([rule()]), Policy([rule(window=WINDOWS[0])]), NOW)
        if one.operation is Operation.INFER
    )
    time = found.place.time
    assert time is not None
    assert not WINDOWS[0].holds(time.value.at)


@pytest.mark.parametrize(("module", "limit"), [(spread, "PARTS_LIMIT"), (witnesses, "STEPS_LIMIT")])
def test_a_comparison_that_would_not_end_is_given_up_and_never_cut(
    module: object, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 1)
    with pytest.raises(TooMuch):
        differences(Policy([rule()]), Policy([rule(groups=frozenset({"a", "b"}))]), NOW)


def test_a_thousand_rules_and_five_hundred_groups_are_compared() -> None:
    chance = random.Random(7)  # noqa: S311  the same policies each time

    def some(number: int) -> Rule:
        effect = Effect.DENY if chance.random() < 0.15 else Effect.ALLOW
        vendor = f"vendor-{chance.randrange(60)}"
        models = (f"{vendor}/*" if chance.random() < 0.2 else f"{vendor}/model-{chance.randrange(20)}", "meta/*")
        groups = frozenset(f"g{chance.randrange(500)}" for _ in range(3))
        return rule(f"r{number}", effect, groups=groups, models=models[: chance.choice((1, 1, 1, 2))])

    rules = [some(number) for number in range(1005)]
    assert differences(Policy(rules[:1000]), Policy(rules[5:]), NOW)

"""What a caller may do follows from the rules alone, and whoever is refused learns what is needed and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.call import Grant, ModelRef, Operation, Principal
from gateway.errors import Forbidden
from gateway.policy.engine import DECISIONS_LIMIT, Policy, Why
from gateway.policy.rules import DEFAULT_OPERATIONS, Effect, Rule
from tests.policy.reference import (
    NARROWED,
    Where,
    answer,
    some_caller,
    some_model,
    some_rule,
    some_rules,
    some_where,
    terms,
    verdict,
)
from tests.policy.rules import ANN, CHAT, OVERFULL, refused, rule
from tests.policy.work import lines_run

REFUSALS = {
    "allowed": ("Grant", "Grant", "Grant", "Grant"),
    # plain, hidden, explicit, explicit and hidden
    "denied": ("Forbidden", "UnknownModel", "NotFound", "NotFound"),
    "denied by name": ("Forbidden", "UnknownModel", "RouteForbidden", "NotFound"),
    "nothing": ("Forbidden", "UnknownModel", "NotFound", "NotFound"),
    "groups": ("GroupsUnknown", "UnknownModel", "NotFound", "NotFound"),
}


@given(some_rules, some_caller, some_model, st.none() | some_where, st.booleans())
def test_the_engine_agrees_with_reading_the_rules_one_by_one(
    rules: list[Rule], caller: Principal, model: ModelRef, where: Where | None, hide: bool
) -> None:
    expected = REFUSALS[verdict(rules, caller, model, where)][2 * model.explicit + hide]
    policy = Policy(rules, hide_models=hide)
    for _ in range(2):  # decided, then remembered
        assert answer(policy, caller, model, where) == expected
        assert policy.may(caller, model, where and policy.holding(*where)) is (expected == "Grant")


@given(some_rules, some_caller, some_model, some_where)
def test_a_grant_carries_the_terms_of_all_rules_that_allow(
    rules: list[Rule], caller: Principal, model: ModelRef, where: Where
) -> None:
    policy = Policy(rules)
    decision = policy.decide(caller, model, policy.holding(*where))
    expected = terms(rules, caller, model, where) if decision.why is Why.ALLOWED else ()
    assert decision.terms == expected


def may(rules: list[Rule], caller: Principal, model: ModelRef, where: Where | None) -> bool:
    policy = Policy(rules)
    return policy.may(caller, model, where and policy.holding(*where))


@given(some_rules, some_rule(Effect.ALLOW), some_caller, some_model, st.none() | some_where)
def test_one_more_allowing_rule_never_takes_access_away(
    rules: list[Rule], more: Rule, caller: Principal, model: ModelRef, where: Where | None
) -> None:
    assert may([*rules, more], caller, model, where) or not may(rules, caller, model, where)


@given(some_rules, some_rule(Effect.DENY), some_caller, some_model, st.none() | some_where)
def test_one_more_denying_rule_never_gives_access(
    rules: list[Rule], more: Rule, caller: Principal, model: ModelRef, where: Where | None
) -> None:
    assert may(rules, caller, model, where) or not may([*rules, more], caller, model, where)


@given(some_rules, st.sampled_from(sorted(NARROWED)), st.data(), some_caller, some_model, st.none() | some_where)
def test_narrowing_every_rule_that_allows_never_gives_access(
    rules: list[Rule], what: str, data: st.DataObject, caller: Principal, model: ModelRef, where: Where | None
) -> None:
    """Only what a rule did not say before: a second window would be another one."""
    more = {what: data.draw(NARROWED[what])}
    narrowed = [
        replace(rule, **more) if rule.effect is Effect.ALLOW and not getattr(rule, what) else rule for rule in rules
    ]
    assert may(rules, caller, model, where) or not may(narrowed, caller, model, where)


@given(some_rules, some_caller, some_model, some_where)
def test_who_comes_at_an_unknown_time_from_an_unknown_address_gets_no_more_than_at_any_other(
    rules: list[Rule], caller: Principal, model: ModelRef, where: Where
) -> None:
    assert may(rules, caller, model, where) or not may(rules, caller, model, None)
    assert may(rules, caller, model, where) or not may(rules, caller, model, (where[0], None))


@given(some_rules, st.randoms(use_true_random=False), some_caller, some_model)
def test_the_order_of_rules_changes_neither_the_answer_nor_the_rule_that_is_named(
    rules: list[Rule], random: Any, caller: Principal, model: ModelRef
) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)
    one, other = Policy(rules).decide(caller, model), Policy(shuffled).decide(caller, model)
    assert one.why is other.why
    assert (one.rule and one.rule.place) == (other.rule and other.rule.place)


def test_of_several_rules_that_allow_the_first_by_place_is_named() -> None:
    rules = [rule("b9", file="b.yaml", line=9), rule("b10", file="b.yaml", line=10), rule("c1", file="c.yaml", line=1)]
    for order in (rules, rules[::-1]):
        assert Policy(order).authorize(ANN, CHAT).rule == "b9"


@given(some_rules, some_caller, some_model)
def test_a_deny_for_the_caller_wins_over_whatever_allows(rules: list[Rule], caller: Principal, model: ModelRef) -> None:
    deny = rule("no", Effect.DENY, users=frozenset({caller.subject}), operations=set(Operation))
    assert not Policy([*rules, deny]).may(caller, model)


@given(some_rules, some_caller, some_model)
@example([rule()], OVERFULL, CHAT)
def test_a_caller_whose_groups_are_unknown_never_gets_more_than_one_in_every_group_or_in_none(
    rules: list[Rule], caller: Principal, model: ModelRef
) -> None:
    unknown = replace(caller, groups_known=False)
    everything = frozenset(group for each in rules for group in each.groups | each.not_groups)
    known_few, known_all = replace(caller, groups_known=True), replace(caller, groups_known=True, groups=everything)
    if Policy(rules).may(unknown, model):
        assert Policy(rules).may(known_few, model)
        assert Policy(rules).may(known_all, model)


def test_without_rules_nobody_may_anything() -> None:
    assert isinstance(refused(Policy([])), Forbidden)
    assert not any(Policy([]).may(ANN, ModelRef("m", operation)) for operation in Operation)


def test_a_grant_says_who_what_and_by_which_rule_and_groups() -> None:
    policy = Policy([rule("ds-chat", groups=frozenset({"ds", "staff", "others"}))])
    assert policy.authorize(ANN, CHAT) == Grant(ANN, CHAT, "ds-chat", "p.yaml:7", ("ds", "staff"))


def test_a_rule_that_names_the_user_uses_no_group() -> None:
    assert Policy([rule(users=frozenset({"ann"}))]).authorize(ANN, CHAT).groups_used == ()


@pytest.mark.parametrize(
    ("subjects", "matches"),
    [
        ({"users": {"ann"}}, True),
        ({"users": {"Ann"}}, False),
        ({"groups": {"d"}}, False),
        ({"groups": {"ds", "x"}}, True),
        ({"clients": {"app"}}, True),
        ({"users": {"bob"}, "clients": {"app"}}, True),
        ({"issuers": {"corp"}}, True),
        ({"issuers": {"lab"}}, False),
        ({"issuers": {"https://idp.test"}}, False),
        ({"groups": {"ds"}, "issuers": {"corp", "lab"}}, True),
        ({"groups": {"ds"}, "issuers": {"lab"}}, False),
        ({"users": {"bob"}, "issuers": {"corp"}}, False),
    ],
)
def test_any_of_users_groups_and_clients_is_enough_and_issuers_narrow(
    subjects: dict[str, set[str]], *, matches: bool
) -> None:
    who: dict[str, Any] = {kind: frozenset(names) for kind, names in subjects.items()}
    policy = Policy([rule(**who)])
    assert policy.may(ANN, CHAT) is matches


def test_a_caller_without_a_client_is_no_client() -> None:
    assert not Policy([rule(clients=frozenset({"app"}))]).may(replace(ANN, client=None), CHAT)


@pytest.mark.parametrize(
    ("operation", "allowed"), [(each, each in DEFAULT_OPERATIONS or each.value == "health") for each in Operation]
)
def test_a_rule_without_operations_covers_the_everyday_ones(operation: Operation, *, allowed: bool) -> None:
    assert Policy([rule()]).may(ANN, ModelRef("m", operation)) is allowed


def test_health_of_a_model_is_open_to_whoever_may_run_it_but_not_beyond_a_deny() -> None:
    health = ModelRef("meta/llama", Operation.HEALTH)
    infer = rule(operations={Operation.INFER})
    by_name = rule("h", operations={Operation.HEALTH})
    no_infer = rule("x", Effect.DENY, operations={Operation.INFER})
    no_health = rule("y", Effect.DENY, operations={Operation.HEALTH})
    assert Policy([infer]).may(ANN, health)
    assert not Policy([rule(operations={Operation.METADATA})]).may(ANN, health)
    assert not Policy([infer, no_infer]).may(ANN, health)
    assert Policy([infer, by_name, no_infer]).may(ANN, health)
    assert not Policy([infer, by_name, no_health]).may(ANN, health)
    assert not Policy([infer]).may(ANN, replace(health, explicit=True))
    assert not Policy([infer]).may(ANN, replace(health, name=""))


@pytest.mark.parametrize(
    ("allows", "denies", "asked", "allowed"),
    [
        ({"1"}, None, "1", True),
        ({"1"}, None, "2", False),
        ({"1"}, None, None, False),
        ({"1"}, None, "01", False),
        (set(), None, "7", True),
        (set(), {"2"}, "1", True),
        (set(), {"2"}, "2", False),
        (set(), {"2"}, None, False),
        (set(), {"2"}, "", False),
        (set(), {"2"}, "02", False),
        (set(), {"2"}, " 2", False),
        (set(), {"2"}, "2x", False),
    ],
)
def test_a_version_that_is_not_told_plainly_is_never_the_allowed_one_and_always_the_denied_one(
    allows: set[str], denies: set[str] | None, asked: str | None, *, allowed: bool
) -> None:
    rules = [rule(versions=frozenset(allows))]
    if denies is not None:
        rules.append(rule("no", Effect.DENY, versions=frozenset(denies)))
    assert Policy(rules).may(ANN, replace(CHAT, version=asked)) is allowed


def test_a_decision_is_remembered_per_caller_and_question() -> None:
    policy = Policy([rule()])
    assert policy.authorize(ANN, CHAT) is policy.authorize(replace(ANN), replace(CHAT))
    later = replace(ANN, expires=5.0)
    assert policy.authorize(later, CHAT).principal.expires == 5.0


def test_remembered_decisions_are_bounded_and_the_oldest_goes_first() -> None:
    policy = Policy([rule()])
    first = policy.authorize(ANN, CHAT)
    second = policy.authorize(ANN, replace(CHAT, version="0"))
    for number in range(1, DECISIONS_LIMIT):
        policy.may(ANN, replace(CHAT, version=str(number)))
    assert policy.entries == DECISIONS_LIMIT
    assert policy.authorize(ANN, replace(CHAT, version="0")) is second
    assert policy.authorize(ANN, CHAT) is not first


def test_a_decision_takes_no_more_steps_with_a_thousand_rules_than_with_ten() -> None:
    def steps(count: int) -> int:
        models = [(f"org{n % 9}/model-{n}", f"org{n % 9}/*-{n}") for n in range(count)]
        rules = [rule(f"r{n}", models=models[n], groups=frozenset({"ds", f"g{n}"})) for n in range(count)]
        policy = Policy(rules)
        return lines_run(lambda: policy.decide(ANN, ModelRef("org0/model-9x", Operation.INFER)))

    assert steps(1000) <= steps(10) + 60


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"groups": frozenset()}, "at least one user"),
        ({"models": ()}, "at least one model"),
        ({"models": ("",)}, "must not be empty"),
        ({"versions": frozenset({"01"})}, "whole number"),
    ],
)
def test_a_rule_that_could_not_mean_anything_cannot_be_built(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule(**wrong)


def test_a_rule_cannot_write_out_operations_that_it_does_not_have() -> None:
    with pytest.raises(ValueError, match="part of the operations"):
        replace(rule(), explicit_operations=frozenset({Operation.ADMIN}))

"""Whoever is refused learns what is needed, and nothing about rules, groups or models of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.call import ModelRef, Operation
from gateway.errors import Forbidden, GroupsUnknown, NotFound, RouteForbidden, UnknownModel
from gateway.policy.engine import Policy
from gateway.policy.rules import Effect, Rule
from tests.policy.rules import ANN, CHAT, OVERFULL, refused, rule


class TestRoutesThatNeedTheOperationByName:
    CONFIG = ModelRef("m", Operation.METADATA, explicit=True)

    def test_a_defaulted_operation_does_not_open_them(self) -> None:
        assert isinstance(refused(Policy([rule()]), model=self.CONFIG), NotFound)

    def test_a_written_operation_does(self) -> None:
        assert Policy([rule(operations={Operation.METADATA})]).may(ANN, self.CONFIG)

    def test_a_deny_that_names_the_operation_is_told_openly(self) -> None:
        policy = Policy([rule("no", Effect.DENY, operations={Operation.METADATA})])
        assert isinstance(refused(policy, model=self.CONFIG), RouteForbidden)

    def test_it_is_told_openly_whichever_rule_stands_first(self) -> None:
        for silent, speaking in ((1, 2), (2, 1)):
            rules = [rule("no", Effect.DENY, line=silent)]
            rules.append(rule("never", Effect.DENY, line=speaking, operations={Operation.METADATA}))
            refusal = refused(Policy(rules), model=self.CONFIG)
            assert (type(refusal), refusal.detail) == (RouteForbidden, f"rule=never at p.yaml:{speaking}")

    def test_a_deny_that_does_not_name_it_still_denies_but_looks_like_a_closed_route(self) -> None:
        policy = Policy([rule(operations={Operation.METADATA}), rule("no", Effect.DENY)])
        assert isinstance(refused(policy, model=self.CONFIG), NotFound)


def test_a_refusal_names_only_what_was_asked_for_and_leaves_the_rule_to_the_log() -> None:
    policy = Policy([rule("secret-rule", Effect.DENY, models=("meta/*", "other/model"), file="x/a.yaml", line=12)])
    refusal = refused(policy)
    assert isinstance(refusal, Forbidden)
    assert refusal.message.startswith("You are not allowed to run inference on model 'meta/llama'; ask ")
    assert not {"secret-rule", "a.yaml", "ds"} & set(refusal.message.replace("'", " ").split())
    assert refusal.detail == "rule=secret-rule at x/a.yaml:12"
    assert refusal.param == "model"


def test_a_hidden_model_answers_exactly_like_one_that_does_not_exist() -> None:
    unknown = UnknownModel(param="model")
    denied = refused(Policy([rule("no", Effect.DENY)], hide_models=True))
    for refusal in (
        denied,
        refused(Policy([], hide_models=True)),
        refused(Policy([rule()], hide_models=True), OVERFULL),
    ):
        assert (type(refusal), refusal.message, refusal.param, refusal.headers, refusal.retry_after) == (
            (UnknownModel, unknown.message, unknown.param, unknown.headers, unknown.retry_after)
        )


class TestGroupsThatTheTokenLeavesOut:
    """B074: a token with too many groups names none of them."""

    def test_a_caller_whom_a_group_might_let_in_is_told_why_not(self) -> None:
        refusal = refused(Policy([rule("ds-chat")]), OVERFULL)
        assert isinstance(refusal, GroupsUnknown)
        assert refusal.detail == "groups of the caller unknown, rule=ds-chat at p.yaml:7"

    def test_a_rule_that_denies_a_group_denies_them(self) -> None:
        rules = [rule(users=frozenset({"ann"})), rule("no", Effect.DENY, groups=frozenset({"contractors"}))]
        assert Policy(rules).may(replace(OVERFULL, groups_known=True), CHAT)
        assert isinstance(refused(Policy(rules), OVERFULL), GroupsUnknown)

    def test_a_rule_without_groups_still_lets_them_in(self) -> None:
        assert Policy([rule("ds"), rule(users=frozenset({"ann"}))]).may(OVERFULL, CHAT)

    def test_groups_that_are_there_count(self) -> None:
        assert Policy([rule()]).may(replace(OVERFULL, groups=frozenset({"ds"})), CHAT)

    @pytest.mark.parametrize(
        "rules",
        [
            [rule(models=("other",))],
            [rule(operations={Operation.LIST})],
            [rule(issuers=frozenset({"lab"}), groups=frozenset({"ds"}))],
            [rule("no", Effect.DENY)],
            [rule("ds"), rule("no", Effect.DENY, users=frozenset({"ann"}))],
        ],
    )
    def test_where_no_group_would_help_the_refusal_is_the_usual_one(self, rules: list[Rule]) -> None:
        assert isinstance(refused(Policy(rules), OVERFULL), Forbidden)

    def test_ready_or_not_is_closed_too_when_a_denied_group_may_be_theirs(self) -> None:
        health = ModelRef("m", Operation.HEALTH)
        infer = rule(users=frozenset({"ann"}))
        for operation in (Operation.HEALTH, Operation.INFER):
            deny = rule("no", Effect.DENY, operations={operation})
            assert not Policy([infer, deny]).may(OVERFULL, health)


def test_each_refusal_is_a_new_exception() -> None:
    """One that is raised again and again would drag every earlier traceback along."""
    policy = Policy([])
    assert refused(policy) is not refused(policy)

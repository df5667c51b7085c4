"""A policy that is only tried: what would change is counted and written down, and nothing of it changes a call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.tallies import Tallies
from gateway.call import Call, Difference, Grant, ModelRef, Principal
from gateway.errors import Refusal
from gateway.policy.engine import Policy
from gateway.policy.rules import Effect, Rule
from gateway.policy.shadow import SAMPLES, Shadow
from gateway.terms import NO_TERMS, Terms
from tests.path.fakes import CALL, Stage, answers, but
from tests.policy.reference import some_caller, some_model, some_rules, terms, verdict
from tests.policy.rules import ANN, CHAT, rule

ALLOW, DENY = rule("in"), rule("out", Effect.DENY)
NOON = 1_700_000_000.0


def grants_of(policy: Policy, caller: Principal, needs: Sequence[ModelRef]) -> tuple[Grant, ...]:
    """As the path decides: all that is needed, or nothing."""
    holding = policy.holding(NOON, CALL.peer)
    try:
        return tuple(policy.authorize(caller, model, holding) for model in needs)
    except Refusal:
        return ()


def tried(
    enforced: Sequence[Rule], shadow: Sequence[Rule], caller: Principal = ANN, *needs: ModelRef
) -> tuple[Difference | None, dict[tuple[str, str], int]]:
    """What is written down of one call, and what is counted."""
    tallies = Tallies()
    asked = needs or (CHAT,)
    grant = grants_of(Policy(enforced), caller, asked)
    found = Shadow(Policy(shadow), tallies).compare(but(CALL, derived={}), caller, asked, NOON, grant)
    return found, dict(tallies.shadow_decisions)


def test_what_would_be_denied_or_allowed_is_named_with_the_rule_that_would_do_so() -> None:
    assert tried([ALLOW], [ALLOW, DENY]) == (Difference("would_deny", "out"), {("would_deny", "out"): 1})
    assert tried([ALLOW, DENY], [ALLOW]) == (Difference("would_allow", "in"), {("would_allow", "in"): 1})
    assert tried([ALLOW], [rule(groups=frozenset({"others"}))]) == (
        Difference("would_deny", ""),
        {("would_deny", ""): 1},
    )


def test_what_stays_the_same_is_counted_by_the_rule_of_the_shadow_and_not_written_down() -> None:
    assert tried([ALLOW], [rule("other-name")]) == (None, {("same", "other-name"): 1})
    assert tried([DENY], [DENY]) == (None, {("same", "out"): 1})


def test_a_call_that_needs_two_models_is_allowed_only_where_both_are() -> None:
    other = ModelRef("n", CHAT.operation)
    one = rule("one", models=("meta/*",))
    assert tried([ALLOW], [one], ANN, CHAT, other) == (Difference("would_deny", ""), {("would_deny", ""): 1})
    assert tried([one], [ALLOW], ANN, CHAT, other) == (Difference("would_allow", "in"), {("would_allow", "in"): 1})


def test_a_cap_that_only_the_shadow_has_is_a_difference_of_its_own() -> None:
    capped = rule("in", terms=Terms(max_tokens=5))
    assert tried([ALLOW], [capped]) == (Difference("other_terms", "in"), {("other_terms", "in"): 1})
    assert tried([capped], [rule("elsewhere", terms=Terms(max_tokens=5))])[0] is None


def test_conditions_are_those_of_the_shadow_at_the_time_and_address_of_the_call() -> None:
    near = rule("near", networks=(ip_network("10.0.0.0/8"),))
    tallies = Tallies()
    shadow, grant = Shadow(Policy([near]), tallies), grants_of(Policy([ALLOW]), ANN, (CHAT,))
    assert shadow.compare(but(CALL, peer="10.0.0.9", derived={}), ANN, (CHAT,), NOON, grant) is None
    found = shadow.compare(but(CALL, peer="192.0.2.1", derived={}), ANN, (CHAT,), NOON, grant)
    assert found == Difference("would_deny", "")


def terms_of(rules: Sequence[Rule], caller: Principal, model: ModelRef) -> set[Terms]:
    """What the rules ask that let this in."""
    return {asked for _, asked in terms(rules, caller, model, (NOON, CALL.peer))} or {NO_TERMS}


@given(some_rules, some_rules, st.lists(st.tuples(some_caller, some_model), min_size=1, max_size=20))
def test_the_count_is_that_of_two_policies_asked_one_after_the_other(
    enforced: list[Rule], shadow: list[Rule], questions: list[tuple[Principal, ModelRef]]
) -> None:
    for caller, model in questions:
        before, after = (verdict(rules, caller, model, (NOON, CALL.peer)) == "allowed" for rules in (enforced, shadow))
        asked = [terms_of(rules, caller, model) for rules in (enforced, shadow)]
        agreed = "other_terms" if before and asked[0] != asked[1] else "same"
        wanted = agreed if before == after else "would_allow" if after else "would_deny"
        _, counted = tried(enforced, shadow, caller, model)
        assert [result for result, _ in counted] == [wanted]


@given(some_rules, st.lists(st.tuples(some_caller, some_model), min_size=1, max_size=50))
def test_a_shadow_that_says_the_same_differs_nowhere(
    rules: list[Rule], questions: list[tuple[Principal, ModelRef]]
) -> None:
    tallies = Tallies()
    policy, shadow = Policy(rules), Shadow(Policy(reversed(rules)), tallies)
    for caller, model in questions:
        needs = (model,)
        assert shadow.compare(but(CALL, derived={}), caller, needs, NOON, grants_of(policy, caller, needs)) is None
    assert {result for result, _ in tallies.shadow_decisions} == {"same"}
    assert sum(tallies.shadow_decisions.values()) == len(questions)


def test_the_same_head_is_decided_once_and_counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tallies, needs = Tallies(), (CHAT,)
    asked: list[object] = []
    policy = Policy([ALLOW, DENY])
    shadow, grant = Shadow(policy, tallies), grants_of(Policy([ALLOW]), ANN, needs)
    authorize = Policy.authorize

    def counted(*args: Any) -> Grant:
        asked.append(args)
        return authorize(*args)

    monkeypatch.setattr(Policy, "authorize", counted)
    first = but(CALL, derived={})
    for number in range(5):
        assert shadow.compare(first.again(f"{number:032}", 0.0), ANN, needs, NOON, grant) is not None
    assert len(asked) == 1
    assert tallies.shadow_decisions == {("would_deny", "out"): 5}
    assert shadow.compare(first, ANN, needs, NOON, ()) is None, "what is denied by both is no difference"


def test_only_so_many_differences_a_minute_are_written_down_and_the_rest_is_counted() -> None:
    tallies, needs = Tallies(), (CHAT,)
    shadow, grant = Shadow(Policy([DENY]), tallies), grants_of(Policy([ALLOW]), ANN, needs)
    call = but(CALL, derived={})
    at = [shadow.compare(call, ANN, needs, NOON + number / 100, grant) for number in range(SAMPLES + 7)]
    assert [found is not None for found in at] == [True] * SAMPLES + [False] * 7
    assert tallies.shadow_unwritten == 7
    assert shadow.compare(call, ANN, needs, NOON + 61, grant) is not None
    assert tallies.shadow_decisions == {("would_deny", "out"): SAMPLES + 8}


class Broken:
    """A policy with a fault."""

    def holding(self, at: float, peer: str | None) -> int:
        raise ZeroDivisionError


def test_a_fault_of_the_shadow_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    tallies = Tallies()
    shadow = Shadow(Broken(), tallies)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        assert [shadow.compare(CALL, ANN, (CHAT,), NOON, ()) for _ in range(3)] == [None] * 3
    assert (tallies.shadow_failures, len(caplog.records)) == (3, 1)
    assert not tallies.shadow_decisions


@pytest.mark.parametrize("allow", [True, False])
def test_a_call_goes_its_way_whatever_the_shadow_says(allow: bool) -> None:
    plain = Stage({1: answers()}, allow=allow)
    told = plain.play()
    for policy in (Policy([]), Policy([rule(issuers=frozenset({"corp"}), groups=frozenset())]), Broken()):
        staged = Stage({1: answers()}, allow=allow, tries=policy)  # type: ignore[arg-type]
        assert staged.play() == told
        (one,), (other,) = staged.done, plain.done
        assert (one.status, one.grant, one.backend) == (other.status, other.grant, other.backend)


def test_the_outcome_carries_what_the_shadow_says_also_of_a_call_that_is_refused() -> None:
    seen: list[Any] = []
    for allow, rules in ((True, []), (False, [rule("in", issuers=frozenset({"corp"}), groups=frozenset())])):
        staged = Stage({1: answers()}, allow=allow, tries=Policy(rules))
        staged.play(Call(CALL.id, CALL.channel, CALL.method, CALL.path, None, CALL.fields, CALL.peer, 0.0))
        seen.append(staged.done[0].shadow)
    assert seen == [Difference("would_deny", ""), Difference("would_allow", "in")]

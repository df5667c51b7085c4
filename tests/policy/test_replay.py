"""Whatever is decided is decided the same again from its audit line; and what is otherwise is noticed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.audit import Lines
from gateway.call import Outcome
from gateway.errors import Refusal
from gateway.policy.asked import Asked
from gateway.policy.conditions import Window
from gateway.policy.engine import Policy
from gateway.policy.replay import NotReplayable, difference, logged, logged_for
from gateway.policy.rules import Effect, Rule
from tests.path.fakes import CALL, but
from tests.policy.questions import many_rules, questions
from tests.policy.rules import ANN, CHAT, rule

NETWORKS = frozenset({ip_network("10.0.0.0/8")})
STAMP = b"2026-03-02T11:00:00.000Z"


def line(policy: Policy, asked: Asked) -> dict[str, Any]:
    """The audit line of this call, as the pipeline and the account would write it."""
    made = Outcome(but(CALL, peer=asked.peer or ""))
    made.principal, made.model, made.rulebook = asked.principal, asked.model, policy.rulebook(3)
    made.mark, made.decided_at = b"0123456789ab.", int(asked.at)
    try:
        made.grant = policy.authorize(asked.principal, asked.model, policy.holding(asked.at, asked.peer))
        made.status = 200
    except Refusal as refusal:
        made.refusal, made.status = refusal, refusal.status
    facts: dict[str, Any] = json.loads(Lines().write(made, STAMP, 11.0))
    return facts


@given(many_rules(), questions(), st.booleans())
def test_what_was_logged_is_decided_the_same_again(rules: Sequence[Rule], asked: Asked, hide: bool) -> None:
    policy = Policy(rules, hide_models=hide, digest="d" * 32)
    made = logged(line(policy, asked))

    assert (made.policy, made.hide_models) == ("d" * 32, hide)
    assert difference(Policy(rules, hide_models=made.hide_models), made) == ""


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([], "was allowed by r, and now it is denied (model_not_allowed)"),
        ([rule("other")], "was allowed by r, and now other allows it"),
        ([rule("r", users=frozenset({"ann"}))], "r allowed it for other groups"),
    ],
)
def test_a_difference_is_told_in_words(rules: list[Rule], words: str) -> None:
    assert difference(Policy(rules), logged(line(Policy([rule()]), Asked(ANN, CHAT, 1.0)))) == words


def test_a_refusal_that_came_out_otherwise_is_told_in_words() -> None:
    elsewhere = rule("elsewhere", models=("x",))  # so that its groups are those of the line
    made = logged(line(Policy([elsewhere]), Asked(ANN, CHAT, 1.0)))

    assert difference(Policy([rule()]), made) == "was denied (model_not_allowed), and r allows it"
    assert difference(Policy([], hide_models=True), made) == "was answered model_not_allowed, and now model_not_found"
    assert difference(Policy([rule("no", Effect.DENY)]), made) == "was denied by no rule, and now by no"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"decision_id": None}, "nobody was identified"),
        ({"decided_at": None}, "before any rule was asked"),
        ({"model": None}, "a list of models"),
        ({"left_out": 1}, "more groups, scopes or longer names"),
        ({"operation": "fly"}, "not an audit line"),
        ({"groups": None}, "not an audit line"),
        ({"groups": "trainees"}, "not an audit line"),
        ({"decided_at": "x"}, "not an audit line"),
        ({"decided_at": True}, "not an audit line"),
        ({"decided_at": float("nan")}, "not an audit line"),
        ({"decided_at": 253402300800}, "not an audit line"),
        ({"decided_at": -1}, "not an audit line"),
        ({"model": 7}, "not an audit line"),
        ({"version": 1}, "not an audit line"),
        ({"subject": ["x"]}, "not an audit line"),
        ({"hide_models": []}, "not an audit line"),
        ({"explicit": 1}, "not an audit line"),
        ({"scopes": ["a", 1]}, "not an audit line"),
    ],
)
def test_a_line_that_is_no_decision_says_why(changes: dict[str, Any], why: str) -> None:
    facts = line(Policy([rule()]), Asked(ANN, CHAT, 1.0)) | changes
    with pytest.raises(NotReplayable, match=why):
        logged(facts)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_any_other_json_is_no_audit_line(facts: dict[str, Any]) -> None:
    with pytest.raises(NotReplayable, match="not an audit line"):
        logged(facts)


def anything() -> st.SearchStrategy[Any]:
    """Whatever JSON can say."""
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    return st.recursive(
        plain, lambda more: st.lists(more, max_size=3) | st.dictionaries(st.text(max_size=3), more, max_size=3)
    )


@given(st.data())
def test_whatever_stands_in_a_member_it_is_a_decision_or_no_audit_line(data: st.DataObject) -> None:
    """One odd line says so, and stops none of the others; nothing of another kind is taken for a name."""
    policy = Policy([rule(), rule("office", window=Window("Asia/Tokyo"), networks=tuple(NETWORKS))])
    facts = line(policy, Asked(ANN, CHAT, 1.0))
    for name in data.draw(st.sets(st.sampled_from(sorted(facts)), min_size=1, max_size=3)):
        facts[name] = data.draw(anything())
    for read in (logged, lambda it: logged_for(it, CHAT)):
        try:
            difference(policy, read(facts))
        except NotReplayable:
            continue


@pytest.mark.parametrize("at", [0, 253402300799 - 86400, 253402300799])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_no_zone_makes_the_first_or_the_last_time_one_that_no_calendar_shows(at: int, zone: str) -> None:
    policy = Policy([rule(window=Window(zone))])
    facts = line(policy, Asked(ANN, CHAT, 1.0)) | {"decided_at": at}
    try:
        assert difference(policy, logged(facts)) == ""
    except NotReplayable:
        assert at == 253402300799

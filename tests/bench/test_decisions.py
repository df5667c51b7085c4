"""The page on decisions says what was measured, and a goal that is missed is missed."""

from __future__ import annotations

from bench import decisions
from bench.decisions import CALLS, LIMIT, Row, _caller, _model, _where
from gateway.policy.engine import Policy


def test_a_slow_percentile_is_a_miss_and_named_with_its_rules() -> None:
    slow, fast = Row(1000, True, [LIMIT + 1] * 100, [1.0]), Row(1000, False, [LIMIT] * 300 + [9000.0], [1.0])
    assert decisions.misses([fast]) == []
    missed = decisions.misses([fast, slow])
    assert missed == ["1000 rules with conditions: p99 of unseen ones is 101 µs"]
    page = decisions.written([fast, slow], missed)
    assert "| 1000 | yes | 101 / 101 / 101 | 1.00 / 1.00 / 1.00 |" in page
    assert f"- **missed**: {missed[0]}" in page


def test_what_is_decided_is_now_yes_now_no_and_every_rule_has_its_conditions() -> None:
    for conditional in (False, True):
        rules = decisions.made(100, conditional=conditional)
        assert all(bool(rule.window and rule.networks) is conditional for rule in rules)
        policy = Policy(rules)
        answers = {
            policy.may(_caller(number, 100), _model(number), policy.holding(*_where(number))) for number in range(CALLS)
        }
        assert answers == {True, False}

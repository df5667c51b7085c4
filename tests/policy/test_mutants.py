"""The policies that are shipped are held by their cases: whatever slip `mutants` makes in a rule, a case fails."""

from __future__ import annotations

from pathlib import Path

from gateway.call import Operation
from gateway.policy.cases import beside, read
from gateway.policy.engine import Policy
from gateway.policy.files import load
from gateway.policy.lint import lint
from gateway.policy.trial import coverage, tried
from tests.policy.mutants import mutants

POLICIES = Path(__file__).parents[2] / "config" / "policies"


def test_every_case_of_the_shipped_policies_passes_and_every_rule_is_covered() -> None:
    policy = Policy(load(POLICIES))
    results = [tried(policy, case) for case in read([beside(POLICIES)])]
    assert [result.wrong for result in results if result.wrong] == []
    assert coverage(policy, results).uncovered == ()


def test_a_slip_in_any_rule_of_the_shipped_policies_makes_a_case_fail() -> None:
    cases = read([beside(POLICIES)])
    unnoticed, count = [], 0
    for name, rules in mutants(load(POLICIES)):
        policy = Policy(rules)
        count += 1
        if all(tried(policy, case).passed for case in cases):
            unnoticed.append(name)
    assert unnoticed == []
    assert count > 350


def test_the_shipped_policies_teach_every_part_of_a_rule() -> None:
    rules = load(POLICIES)
    for part in ("groups", "clients", "issuers", "scopes", "not_groups", "versions", "window", "networks"):
        assert any(getattr(rule, part) for rule in rules), part
    assert any(rule.terms.max_tokens for rule in rules)
    assert any(Operation.METRICS in rule.operations for rule in rules)


def test_nothing_is_found_in_the_shipped_policies() -> None:
    assert list(lint(load(POLICIES))) == []

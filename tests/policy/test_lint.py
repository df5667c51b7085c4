"""Lint finds what authors of rules hardly meant, and never claims what is not so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation
from gateway.policy.conditions import Window
from gateway.policy.engine import Policy, Why
from gateway.policy.lint import CODES, Finding, lint
from gateway.policy.rules import Effect, Rule
from gateway.terms import Terms
from tests.policy.lint_questions import full_rules, some_questions, without
from tests.policy.rules import OVERFULL, rule

ALL = frozenset(Operation)
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def deny(id_: str, **more: Any) -> Rule:
    return rule(id_, Effect.DENY, **more)


def found(*rules: Rule, overlaps: bool = False) -> list[tuple[str, str | None]]:
    numbered = [replace(one, line=number) for number, one in enumerate(rules, 1)]
    return [(finding.code, finding.rule) for finding in lint(numbered, overlaps=overlaps)]


def claims(rules: list[Rule], *codes: str) -> list[str | None]:
    return [finding.rule for finding in lint(rules) if finding.code in codes]


@given(full_rules, st.data())
@SLOW
def test_a_rule_that_is_called_unreachable_decides_nothing(rules: list[Rule], data: st.DataObject) -> None:
    denying = {rule.id for rule in rules if rule.effect is Effect.DENY}
    gone = claims(rules, "unreachable") + [id_ for id_ in claims(rules, "never_holds") if id_ not in denying]
    assume(gone)
    whole = Policy(rules)
    questions = data.draw(some_questions)
    for one in gone:
        less = Policy(without(rules, one))
        for question in questions:
            before, after = question.decided(whole), question.decided(less)
            assert (before.why is Why.ALLOWED) == (after.why is Why.ALLOWED)
            if before.why is Why.ALLOWED:
                assert before == after


@given(full_rules, st.data())
@SLOW
def test_rules_that_are_called_redundant_can_all_be_taken_out(rules: list[Rule], data: st.DataObject) -> None:
    gone = claims(rules, "redundant")
    assume(gone)
    whole = Policy(rules)
    questions = data.draw(some_questions)
    for less in (Policy(without(rules, *gone)), *(Policy(without(rules, one)) for one in gone)):
        for question in questions:
            assert question.decided(whole).why is question.decided(less).why


@given(full_rules, st.data())
@SLOW
def test_where_no_overlap_is_told_no_deny_cuts_into_an_allow(rules: list[Rule], data: st.DataObject) -> None:
    findings = list(lint(rules, overlaps=True))
    assume(not any(finding.code in {"overlap", "unreachable"} for finding in findings))
    whole, allowing = Policy(rules), Policy([one for one in rules if one.effect is Effect.ALLOW])
    for question in data.draw(some_questions):
        if question.decided(whole).why is Why.DENIED:
            assert question.decided(allowing).why is not Why.ALLOWED


@pytest.mark.parametrize(
    "less",
    [
        {"groups": frozenset({"ds"})},
        {"groups": frozenset({"ds", "staff"}), "models": ("n/x", "m")},
        {"groups": frozenset({"ds"}), "issuers": frozenset({"corp"})},
        {"groups": frozenset({"ds"}), "versions": frozenset({"1"})},
        {"groups": frozenset({"ds"}), "window": Window("UTC", begin=540, end=600)},
        {"groups": frozenset({"ds"}), "networks": (ip_network("10.1.0.0/16"),)},
        {"groups": frozenset({"ds"}), "scopes": frozenset({"read"})},
        {"groups": frozenset({"ds"}), "not_groups": frozenset({"left"})},
        {"groups": frozenset({"ds"}), "terms": Terms(max_tokens=5)},
        {"groups": frozenset({"ds"}), "operations": ["infer"]},
    ],
)
def test_what_a_wider_rule_says_as_well_is_redundant_and_what_it_does_not_is_not(less: dict[str, Any]) -> None:
    wide = rule("wide", groups=frozenset({"ds", "staff"}), operations=[*Operation], models=("n/*", "m", "*"))
    narrow = rule("narrow", **less)
    if "operations" not in less:
        wide = replace(wide, explicit_operations=frozenset(), operations=narrow.operations)
    assert ("redundant", "narrow") in found(wide, narrow)
    assert ("redundant", "narrow") in found(narrow, wide)
    wider = replace(narrow, id="wider", groups=frozenset({"others"}))
    assert found(wide, wider) == []


@pytest.mark.parametrize(
    "asks",
    [
        {"issuers": frozenset({"corp"})},
        {"scopes": frozenset({"read"})},
        {"not_groups": frozenset({"left"})},
        {"versions": frozenset({"1"})},
        {"window": Window("UTC")},
        {"networks": (ip_network("10.0.0.0/8"),)},
        {"models": ("n/*",)},
        {"groups": frozenset({"others"})},
        {"operations": ["infer", "stream", "metadata"]},
    ],
)
def test_a_rule_that_asks_for_more_replaces_none_and_shuts_none(asks: dict[str, Any]) -> None:
    """Even a window that is always open: where the time is not known, it lets nobody in."""
    assert found(rule("asks", models=("*",)), rule("plain")) == [("redundant", "plain")]
    assert ("redundant", "plain") not in found(rule("asks", **asks), rule("plain", models=("n/**",)))
    assert ("unreachable", "plain") not in found(deny("asks", **asks), rule("plain", models=("n/**",)))


def test_a_rule_is_redundant_too_where_two_others_say_it_together() -> None:
    both = rule("both", groups=frozenset({"a1", "b2"}), models=("m",))
    assert found(rule("a", groups=frozenset({"a1"})), rule("b", groups=frozenset({"b2"})), both) == [
        ("redundant", "both")
    ]


def test_of_two_equal_rules_the_second_is_redundant() -> None:
    assert found(rule("one"), rule("two")) == [("redundant", "two")]
    assert found(deny("no-one", models=("m",)), deny("no-two", models=("m",)), rule("yes")) == [("redundant", "no-two")]


@pytest.mark.parametrize(
    "terms", [Terms(max_tokens=5), Terms(input=10), Terms(remote_media=False), Terms(max_tokens=5, clamp=True)]
)
def test_a_rule_that_asks_less_of_calls_is_not_redundant(terms: Terms) -> None:
    capped, free = rule("capped", terms=terms), rule("free")
    redundant = [] if terms.clamp else [("redundant", "capped")]  # who clamps takes what others refuse
    assert found(capped, free) == redundant
    assert found(capped, rule("opens", terms=Terms(engine_fields=frozenset({"priority"})))) == redundant
    assert found(rule("less", terms=Terms(n=1)), rule("capped", terms=terms)) == []


def test_what_is_denied_as_a_whole_is_unreachable_and_what_is_denied_in_part_is_an_overlap() -> None:
    yes = rule("yes", models=("n/x",), operations=["infer"])
    assert found(yes, deny("no", models=("n/*",))) == [("unreachable", "yes")]
    assert found(yes, deny("no", models=("n/*",), groups=frozenset({"others"}))) == []
    part = deny("no", models=("n/*",), groups=frozenset({"others"}))
    assert found(yes, part, overlaps=True) == [("overlap", "no")]


def test_a_deny_that_meets_no_allow_is_unreachable() -> None:
    yes = rule("yes", models=("n/x",), operations=["infer"])
    for other in (
        deny("no", models=("m/*",)),
        deny("no", operations=["admin"]),
        deny("no", groups=frozenset({"g"}), issuers=frozenset({"lab"})),
    ):
        allowing = replace(yes, issuers=frozenset({"corp"}))
        assert found(allowing, other) == [("unreachable", "no")]
    assert found(yes, deny("no", operations=["health"])) == []  # whoever may run a model may ask whether it is ready


def test_a_rule_for_those_it_leaves_out_never_holds() -> None:
    never = rule("never", groups=frozenset({"a"}), not_groups=frozenset({"a", "b"}))
    assert found(never, rule("yes")) == [("never_holds", "never")]


def test_rules_for_everything_and_everybody_are_pointed_out() -> None:
    corp = frozenset({"corp"})
    assert found(rule("open", issuers=corp, operations=[*Operation])) == [("opens_everything", "open")]
    assert found(rule("usual", issuers=corp)) == []
    assert found(rule("usual", issuers=corp), deny("shut", issuers=corp, models=("**",))) == [
        ("unreachable", "usual"),
        ("denies_everything", "shut"),
    ]


def test_a_group_that_is_spelt_otherwise_elsewhere_is_pointed_out_with_the_place_of_the_other() -> None:
    rules = [rule("a", groups=frozenset({"science"})), rule("b", groups=frozenset({"Science"}), models=("m",))]
    (finding,) = lint([replace(one, line=number) for number, one in enumerate(rules, 1)])
    assert str(finding) == (
        "p.yaml:2: rule b: groups: 'Science' is hardly another than 'science', which stands at p.yaml:1"
    )


@pytest.mark.parametrize("overlaps", [False, True])
def test_whoever_watches_sees_each_rule_pass_and_what_is_found_is_the_same(*, overlaps: bool) -> None:
    rules = [rule("yes", models=("n/x",), operations=["infer"]), deny("no", models=("n/*",), groups=frozenset({"g"}))]
    seen: list[str] = []

    def watched(shown: Sequence[Rule]) -> Iterator[Rule]:
        for one in shown:
            seen.append(one.id)
            yield one

    assert list(lint(rules, overlaps=overlaps, watch=watched)) == list(lint(rules, overlaps=overlaps))
    assert set(seen) == {"yes", "no"}
    assert seen.count("no") == (3 if overlaps else 2)


def test_a_thousand_rules_are_looked_through() -> None:
    """Each is compared with those that it may have to do with only: pairs of all would be a million."""
    rules = [
        Rule(f"r{n}", "p.yaml", n, Effect.DENY if n % 10 == 0 else Effect.ALLOW, (f"team{n % 50}/*", f"m{n}"),
             groups=frozenset({f"g{n % 97}", f"h{n}"}))
        for n in range(1, 1001)
    ]  # fmt: skip
    assert [finding.code for finding in lint(rules) if finding.code == "redundant"] == []


def test_a_finding_has_a_code_that_the_page_explains() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy-tools.md").read_text(encoding="utf-8")
    section = page.partition("### What lint finds")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \| .+ \| .+ \|$", section, re.MULTILINE)
    assert sorted(rows) == sorted(CODES)
    with pytest.raises(ValueError):
        Finding("nonsense", None, "", 0, "")


def test_a_rule_that_denies_only_whose_groups_are_not_known_is_said_to_do_that() -> None:
    """Taking it out would let them in, so that it is neither nothing nor left out of what else is found."""
    lets = rule("lets", users=frozenset({"ann"}))
    denies = rule("denies", Effect.DENY, groups=frozenset({"x"}), not_groups=frozenset({"x"}))
    (told,) = lint([lets, denies])
    assert (told.code, told.rule) == ("never_holds", "denies")
    assert told.message.endswith("it denies none but callers whose groups are not known")
    model = ModelRef("m", Operation.INFER)
    assert Policy([lets, denies]).decide(OVERFULL, model).why is Why.GROUPS
    assert Policy([lets]).decide(OVERFULL, model).why is Why.ALLOWED
    assert [finding.code for finding in lint([denies])] == ["never_holds", "unreachable"]

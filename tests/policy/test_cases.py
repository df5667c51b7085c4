"""Cases of a policy are read strictly, decided as the gateway decides, and count for the rules that they prove."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.config.mistakes import Mistakes
from gateway.policy.cases import Case, read
from gateway.policy.engine import Policy, Why
from gateway.policy.rules import Effect, Rule
from gateway.policy.trial import NEITHER, NO_ADDRESS, NO_TIME, coverage, tried
from gateway.terms import Terms
from tests.policy.lint_questions import NETWORKS, PEERS, TIMES, WINDOWS, full_rules, some_question
from tests.policy.rules import ANN, rule

GOOD = "{name: one, subject: {groups: [ds]}, model: m, expect: allow}"


def put(folder: Path, *cases: str, name: str = "a") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text("version: 1\ncases:\n" + "".join(f"  - {case}\n" for case in cases), encoding="utf-8")
    return file


def wrong(*paths: Path) -> list[str]:
    with pytest.raises(Mistakes) as caught:
        read(paths)
    return [f"{Path(mistake.file).name}:{mistake.line}: {mistake.message}" for mistake in caught.value.mistakes]


def case(**more: Any) -> Case:
    given_ = {"name": "c", "file": "c.yaml", "line": 3, "caller": ANN, "model": ModelRef("m", Operation.INFER)}
    return Case(**{**given_, "allowed": True, **more})


def test_a_case_says_everything_that_a_decision_hangs_on(tmp_path: Path) -> None:
    file = put(
        tmp_path,
        GOOD,
        "{name: all, subject: {user: ann, groups: [b, a], client: app, issuer: corp, scopes: [s], groups_known: false},"
        " model: m, operation: metrics, version: '2', at: '2026-12-01T09:30:00+01:00', from: '10.0.0.1', expect: deny,"
        " rule: r}",
    )
    one, all_ = read([tmp_path])
    assert one == Case("one", str(file), 3, Principal("", "", "", frozenset({"ds"})),
                       ModelRef("m", Operation.INFER), allowed=True)  # fmt: skip
    caller = Principal("ann", "corp", "corp", frozenset({"a", "b"}), "app", frozenset({"s"}), groups_known=False)
    at = datetime(2026, 12, 1, 9, 30, tzinfo=ZoneInfo("Europe/Madrid")).timestamp()
    model = ModelRef("m", Operation.METRICS, "2", explicit=True)
    assert all_ == Case("all", str(file), 4, caller, model, allowed=False, at=at, peer="10.0.0.1", rule="r")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("at: '2026-12-01T09:30:00'", "expected a time with its zone, such as 2026-12-01T09:30:00+01:00"),
        ("at: '2026-02-30T09:30:00Z'", "expected a time with its zone"),
        ("at: 1764577800", "expected a time with its zone"),
        ("from: 10.0.0.0/8", "expected the address of a client"),
        ("operation: Infer", "expected 'infer'"),
        ("version: 1", "expected a name"),
        ("expects: deny", "unknown setting 'expects'; did you mean 'expect'?"),
        ("grouos: []", "unknown setting 'grouos'"),
        ("rule: ''", "expected a name"),
        ("limits: {max_tokens: 0}", "must be at least 1"),
        ("limits: {concurrent: 5}", "'concurrent' "),
        ("engine_fields: [prio]", "no such field is closed"),
    ],
)
def test_a_bad_case_is_refused_at_its_place(tmp_path: Path, change: str, words: str) -> None:
    (told,) = wrong(put(tmp_path, f"{GOOD[:-1]}, {change}}}"))
    assert told.startswith(f"a.yaml:3: {words}")


def test_every_mistake_of_all_files_is_said_at_once(tmp_path: Path) -> None:
    first = put(tmp_path, GOOD, "{name: two, subject: {}, model: m, expect: maybe}")
    second = put(tmp_path, GOOD, name="b")
    (tmp_path / "c.yaml").write_text("version: true\ncases: []\n")
    assert wrong(tmp_path) == [
        "a.yaml:4: say who calls: a user, groups, …",
        "a.yaml:4: expected 'allow' or 'deny'",
        f"b.yaml:3: this name is taken: the case at {first}:3 has it",
        "c.yaml:1: expected 1",
        "c.yaml:2: at least one is needed here",
    ]
    assert read([second])


def test_where_there_is_no_case_that_is_said(tmp_path: Path) -> None:
    assert wrong(tmp_path) == [f"{tmp_path.name}:1: no cases in this folder: it needs a file '*.yaml'"]
    assert wrong(tmp_path / "gone.yaml")[0].startswith("gone.yaml:1: cannot be read")


@given(st.text(max_size=80))
def test_whatever_stands_in_a_file_it_is_taken_or_told(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(f"version: 1\ncases:\n  - {text}\n", encoding="utf-8", errors="replace")
    with suppress(Mistakes):
        assert read([file])


@given(full_rules, some_question, st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_a_case_leaves_open_is_open_exactly_where_it_matters(
    rules: list[Rule], question: Any, timed: bool, placed: bool
) -> None:
    """Whatever time and address the call then has, the decision is the one that the case was given."""
    policy, at, peer = Policy(rules), TIMES[0], PEERS[0]
    one = case(caller=question.caller, model=question.model, at=at if timed else None, peer=peer if placed else None)
    decision = tried(policy, one).decision
    if decision is None:
        assert any(rule.conditional for rule in rules)
        return
    for time in [at] if timed else TIMES:
        for place in [peer] if placed else PEERS[:-1]:
            now = policy.decide(question.caller, question.model, policy.holding(time, place))
            assert (now.why, now.rule) == (decision.why, decision.rule)


def test_a_case_has_to_say_when_and_where_if_the_outcome_hangs_on_it() -> None:
    timed, placed = rule("timed", window=WINDOWS[0]), rule("placed", networks=NETWORKS[:1])
    assert tried(Policy([timed]), case()).wrong == NO_TIME
    assert tried(Policy([placed]), case()).wrong == NO_ADDRESS
    both = rule("both", window=WINDOWS[0], networks=NETWORKS[:1])
    assert tried(Policy([both]), case()).wrong == NEITHER
    assert tried(Policy([both]), case(at=TIMES[1])).wrong == NO_ADDRESS
    assert tried(Policy([both]), case(at=TIMES[0], allowed=False)).passed  # the hour is wrong, wherever they are
    assert tried(Policy([both, rule("always", line=1)]), case()).passed
    assert tried(Policy([both]), case(caller=Principal("bob", "", ""), allowed=False)).passed


def test_a_case_that_fails_says_what_was_wanted_and_what_came() -> None:
    yes, no = rule("yes"), rule("no", Effect.DENY, models=("n",), line=9)
    policy = Policy([yes, no])
    assert tried(policy, case(allowed=False)).wrong == "expected deny, got allow by yes at p.yaml:7"
    denied = case(model=ModelRef("n", Operation.INFER), rule="yes")
    assert tried(policy, denied).wrong == "expected allow by yes, got deny by no at p.yaml:9"
    stranger = Principal("bob", "", "")
    assert tried(policy, case(caller=stranger)).wrong == "expected allow, got deny: no rule allows it"
    unknown = Principal("bob", "", "", groups_known=False)
    assert tried(policy, case(caller=unknown)).wrong == "expected allow, got deny: the caller's groups are not known"
    other = case(rule="ys")
    assert tried(policy, other).wrong == "expected allow by ys (there is no such rule), got allow by yes at p.yaml:7"


def test_a_rule_is_covered_by_a_case_that_would_fail_without_it() -> None:
    yes, again = rule("yes", line=1), rule("again", line=2)
    no = rule("no", Effect.DENY, models=("n",), line=3)
    policy = Policy([yes, again, no])
    denied = ModelRef("n", Operation.INFER)

    def uncovered(*cases: Case) -> list[str]:
        results = [tried(policy, one) for one in cases]
        return [missed.id for missed in coverage(policy, results).uncovered]

    assert uncovered() == ["yes", "again", "no"]
    assert uncovered(case()) == ["yes", "again", "no"]  # the other would allow it as well
    assert uncovered(case(rule="yes")) == ["again", "no"]
    assert uncovered(case(rule="again")) == ["yes", "again", "no"]  # this case fails
    assert uncovered(case(model=denied, allowed=False)) == ["yes", "again"]
    nobody = Principal("bob", "", "")
    assert uncovered(case(caller=nobody, model=denied, allowed=False)) == ["yes", "again", "no"]
    assert coverage(policy, [tried(policy, case(rule="yes"))]).percent == pytest.approx(100 / 3)


def test_a_case_is_decided_for_what_the_policy_calls_an_operators_route() -> None:
    policy = Policy([rule("ops", operations=[Operation.METRICS])])
    result = tried(policy, case(model=ModelRef("m", Operation.METRICS, explicit=True)))
    assert result.passed
    assert result.decision is not None
    assert result.decision.why is Why.ALLOWED


def test_a_case_says_under_which_terms_a_call_is_let_in(tmp_path: Path) -> None:
    limits = "limits: {max_tokens: 5, on_excess: clamp}, engine_fields: [priority]"
    none, some = read(
        [put(tmp_path, f"{GOOD[:-1]}, limits: {{}}}}", GOOD.replace("one", "two")[:-1] + f", {limits}}}")]
    )
    terms = Terms(max_tokens=5, clamp=True, engine_fields=frozenset({"priority"}))
    assert (none.terms, some.terms) == (Terms(), terms)

    free, capped = rule("free"), rule("capped", terms=terms)
    assert tried(Policy([free]), none).passed
    assert tried(Policy([capped]), some).passed
    for other in (replace(terms, max_tokens=6), replace(terms, clamp=False), Terms()):
        wrong_terms = tried(Policy([rule("other", terms=other)]), some).wrong
        assert wrong_terms == "expected other limits or engine_fields than those of other"
    assert tried(Policy([free, capped]), none).wrong.endswith("those of capped")
    assert tried(Policy([free, capped]), replace(none, terms=None)).passed


def test_terms_of_a_call_that_is_denied_are_refused(tmp_path: Path) -> None:
    (told,) = wrong(put(tmp_path, GOOD.replace("allow", "deny")[:-1] + ", limits: {n: 1}}"))
    assert told == "a.yaml:3: 'limits' belongs to cases that expect to be allowed"

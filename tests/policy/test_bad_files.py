"""Policy files as people and programs write them: refused at their place, or taken as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.config.mistakes import Mistakes
from gateway.policy.engine import Policy
from gateway.policy.files import load
from gateway.policy.rules import Effect, Rule
from tests.policy.bad_files import BAD, GOOD, MEANT
from tests.policy.files import one, wrong
from tests.policy.reference import answer, some_caller, some_model, some_rule, some_rules
from tests.policy.written import written


def loaded(folder: Path, text: bytes) -> tuple[Rule, ...] | None:
    """The rules, or None for a file that is refused. Whatever else it raises fails the test."""
    (folder / "a.yaml").write_bytes(text)
    try:
        return load(folder)
    except Mistakes:
        return None


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_at_its_place_in_words_that_help(tmp_path: Path, name: str) -> None:
    """B095, B097, B099."""
    bad = BAD[name]
    (tmp_path / "a.yaml").write_bytes(bad.text)
    first = wrong(tmp_path)[0]
    assert first.startswith(f"a.yaml:{bad.place}: "), first
    assert bad.words in first


@pytest.mark.parametrize(("text", "group", "another"), MEANT.values(), ids=MEANT)
def test_a_name_is_the_text_that_is_written_and_no_other(tmp_path: Path, text: str, group: str, another: str) -> None:
    """B099: nothing of YAML 1.1, and no two spellings are one name."""
    (tmp_path / "a.yaml").write_text(one(subjects=f"{{groups: [{text}]}}"), encoding="utf-8")
    policy = Policy(load(tmp_path))
    for name, holds in ((group, True), (another, False)):
        caller = Principal("ann", "https://idp.test", "corp", frozenset({name}))
        assert policy.may(caller, ModelRef("m", Operation.INFER)) is holds


#: Each example is a file; making a failing one smaller would take minutes.
folders = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@folders
@given(some_rules.filter(bool), st.booleans(), st.floats(0, 1))
def test_of_a_file_that_was_cut_no_rule_comes_out_that_was_cut_itself_if_each_stands_in_braces(
    tmp_path: Path, rules: list[Rule], braces: bool, part: float
) -> None:
    """B095. Without braces the last rule may be a shorter one."""
    text = written(rules, braces=braces)
    whole = loaded(tmp_path, text)
    assert whole is not None
    cut = loaded(tmp_path, text[: int(part * len(text))]) or ()
    sure = len(cut) if braces else len(cut) - 1
    assert cut[: max(sure, 0)] == whole[: max(sure, 0)]


@folders
@given(
    st.lists(some_rule(Effect.DENY), max_size=3), st.lists(some_rule(Effect.ALLOW), min_size=1, max_size=4),
    st.floats(0, 1), st.lists(st.tuples(some_caller, some_model), min_size=5, max_size=20),
)  # fmt: skip
def test_a_part_of_a_file_that_denies_first_allows_nothing_that_the_whole_does_not(
    tmp_path: Path, denies: list[Rule], allows: list[Rule], part: float, calls: list[tuple[Principal, ModelRef]]
) -> None:
    """B095: the order that docs/policies.md advises, for what lies cut on a disk for good."""
    text = written([*denies, *allows], braces=True)
    whole, cut = loaded(tmp_path, text), loaded(tmp_path, text[: int(part * len(text))])
    assert whole is not None
    for caller, model in calls:
        if cut is not None and answer(Policy(cut), caller, model) == "Grant":
            assert answer(Policy(whole), caller, model) == "Grant"


@folders
@given(st.data())
def test_a_line_that_stands_twice_is_refused_or_changes_nothing(tmp_path: Path, data: st.DataObject) -> None:
    """B097: no later line quietly takes the place of an earlier one."""
    lines = GOOD.splitlines(keepends=True)
    line = data.draw(st.sampled_from(lines))
    lines.insert(data.draw(st.integers(0, len(lines))), line)
    rules = loaded(tmp_path, "".join(lines).encode())
    if rules is not None:
        whole = loaded(tmp_path, GOOD.encode())
        assert whole is not None
        assert [(rule.id, rule.effect, rule.groups, set(rule.models)) for rule in rules] == [
            (rule.id, rule.effect, rule.groups, set(rule.models)) for rule in whole
        ]


@folders
@given(
    st.integers(0, len(GOOD)),
    st.sampled_from([b"\0", b"\t", b"\xef\xbb\xbf", b"\xff", b"\r", b"\xe2\x80\xae"]),
)
def test_bytes_that_no_text_of_ours_has_are_refused_wherever_they_stand(tmp_path: Path, at: int, odd: bytes) -> None:
    """B099."""
    text = GOOD.encode()
    followed = odd == b"\r" and text[at : at + 1] == b"\n"
    assert (loaded(tmp_path, text[:at] + odd + text[at:]) is None) is not followed


@folders
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_any_byte_may_be_another_one_and_only_rules_or_mistakes_come_out(tmp_path: Path, at: int, byte: int) -> None:
    text = bytearray(GOOD.encode())
    text[at] = byte
    for rule in loaded(tmp_path, bytes(text)) or ():
        assert rule.models
        assert rule.groups | rule.users | rule.clients | rule.issuers

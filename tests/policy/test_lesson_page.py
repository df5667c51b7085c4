"""The ten minutes of the page on policies come out as they are told, step by step."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.policy.engine import Policy
from gateway.policy.files import load
from tests.caps.asked import meet

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
LESSON = PAGE.split("\n## In ten minutes\n", 1)[1].split("\n## ", 1)[0]
STEPS = LESSON.split("\n### ")[1:5]


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader of the page makes `my-policies/tests/`."""
    made = tmp_path / "my-policies"
    (made / "tests").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return made


def follow(folder: Path, step: str) -> None:
    """Write the policy and the cases of one step."""
    (name,) = re.findall(r"`my-policies/(\d-[a-z]+\.yaml)`", step)
    (policy,) = blocks(step, "yaml lesson")
    (folder / name).write_text(policy, encoding="utf-8")
    for cases in blocks(step, "yaml cases"):
        (folder / "tests" / name).write_text(cases, encoding="utf-8")


def test_the_page_has_a_team_a_model_office_hours_and_a_cap() -> None:
    assert [step.partition("\n")[0] for step in STEPS] == ["1. A team", "2. A model", "3. Office hours", "4. A cap"]


def test_each_command_prints_what_the_page_shows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in STEPS:
        follow(folder, step)
        for shown in blocks(step, "console lesson"):
            command, _, told = shown.partition("\n")
            main(shlex.split(command)[2:])
            assert capsys.readouterr().out == told


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_cases_of_each_step_pass_and_cover_its_rules(folder: Path, steps: int) -> None:
    for step in STEPS[:steps]:
        follow(folder, step)
    assert main(["policy", "test", "--policies", str(folder), "--require-coverage", "100"]) == 0
    assert main(["policy", "lint", "--policies", str(folder)]) == 0


ROW = re.compile(
    r'^\| (?:`"max_tokens": (\d+)`|nothing) \| `"max_tokens": (\d+)` \| (?:`(.+)`|nothing) \|$', re.MULTILINE
)
ROWS = ROW.findall(LESSON)


@pytest.mark.parametrize(("asked", "sent", "told"), ROWS)
def test_a_cap_does_what_its_row_says(folder: Path, asked: str, sent: str, told: str) -> None:
    follow(folder, STEPS[3])
    (rule,) = Policy(load(folder)).rules
    met = meet({"max_tokens": int(asked)} if asked else {}, rule.terms)
    assert met.says["max_tokens"] == int(sent)
    assert [line.removeprefix("tell ").lower() for line in met.told] == [told.lower()] * bool(told)


def test_all_rows_are_read() -> None:
    assert len(ROWS) == 3

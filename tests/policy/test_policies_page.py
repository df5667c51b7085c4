"""The page on policies is true: its rules load, and its examples come out as it says."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.call import ModelRef, Operation, Principal
from gateway.policy.engine import Policy
from gateway.policy.files import Entry, Limits, Subjects, When, load

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "policies.md").read_text(encoding="utf-8")
TOOLS = (DOCS / "policy-tools.md").read_text(encoding="utf-8")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """All rules of the page."""
    for number, text in enumerate(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)):
        (tmp_path / f"{number}.yaml").write_text(text, encoding="utf-8")
    return Policy(load(tmp_path))


EXAMPLE = re.compile(
    r"^\| ((?:`[a-z-]+`(?:, )?)+) \| `(\w+)` (?:on|of) `(\S+)` \| (yes|no, \d+) \| (.*) \|$", re.MULTILINE
)
EXAMPLES = EXAMPLE.findall(PAGE)


def test_the_page_has_its_three_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("groups", "operation", "name", "answer", "why"), EXAMPLES)
def test_an_example_comes_out_as_the_page_says(
    policy: Policy, groups: str, operation: str, name: str, answer: str, why: str
) -> None:
    caller = Principal("ann", "https://idp.test", "corp", frozenset(re.findall("[a-z-]+", groups)))
    explicit = operation == "metrics"
    model = ModelRef(name, Operation(operation), explicit=explicit)
    try:
        told = f"yes {policy.authorize(caller, model).rule}"
    except Exception as refusal:  # noqa: BLE001  its status is what the page tells
        told = f"no, {getattr(refusal, 'status', refusal)}"
    assert told.startswith(answer)
    if answer == "yes":
        assert f"`{told.split()[1]}`" in why


def test_an_explanation_reads_as_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = TOOLS.split("\n## Why was I denied?\n")[1].split("\n## ")[0]
    (rules,), (shown,) = (re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("yaml", "console"))
    command, _, told = shown.partition("\n")
    folder = tmp_path / "config" / "policies"
    folder.mkdir(parents=True)
    (folder / "analysts.yaml").write_text(rules, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(shlex.split(command)[2:]) == 1
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("form", [Entry, Subjects, When, Limits])
def test_every_key_stands_on_the_page(form: type) -> None:
    names = {"networks": "from"}
    missing = [each.name for each in fields(form) if not re.search(rf"\b{names.get(each.name, each.name)}\b", PAGE)]
    assert not missing

"""What the page on policies says of cases is true: its cases pass, and its keys are those there are."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.policy.cases import Entry, Subject, read
from gateway.policy.engine import Policy
from gateway.policy.files import load
from gateway.policy.trial import tried

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "policy-tools.md").read_text(encoding="utf-8").partition("## Test your policy")[2]


def test_the_cases_of_the_page_pass_with_the_policies_that_are_shipped(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml cases\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "cases.yaml").write_text(text, encoding="utf-8")
    policy = Policy(load(ROOT / "config" / "policies"))
    assert [tried(policy, case).wrong for case in read([tmp_path])] == ["", ""]


@pytest.mark.parametrize("form", [Entry, Subject])
def test_every_key_of_a_case_stands_in_its_section(form: type) -> None:
    names = {"peer": "from"}
    assert [each.name for each in fields(form) if f"`{names.get(each.name, each.name)}" not in SECTION] == []

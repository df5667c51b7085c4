"""What the page on caps says is so."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.caps.members import SAID
from gateway.caps.names import ADAPTERS
from gateway.caps.numbers import NUMBERS
from gateway.policy.files import load
from gateway.terms import ENGINE_FIELDS
from tests.caps.asked import meet

SECTION = (Path(__file__).parents[2] / "docs" / "caps.md").read_text(encoding="utf-8")


def test_the_page_names_each_member_that_is_held_or_closed() -> None:
    named = set(re.findall(r"`([a-z_]+)`", SECTION))
    assert not {*NUMBERS, *ENGINE_FIELDS, *SAID, *ADAPTERS} - named


def test_the_rule_of_the_page_lowers_what_the_page_says_and_tells(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "rules.yaml").write_text(text)
    (rule,) = load(tmp_path)
    met = meet({"max_tokens": 4096, "priority": 1}, rule.terms)
    (told,) = re.findall(r"`(X-Gateway-Clamped: [^`]+)`", SECTION)
    words = told.partition(": ")[2].split(", ")
    assert set(met.changed) == set(words)
    assert met.told[0].startswith(f"tell {told.partition(':')[0].lower()}: ")

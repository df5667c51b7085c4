"""Each claim of the threat model names a test; `test_paths` sees that there are these tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text()
BORDERS = PAGE.split("\n## \u2460")[1].split("\n## What is left")[0]
ROWS = [row for row in BORDERS.splitlines() if row.startswith("| ") and not row.startswith("| threat")]


def test_there_are_claims_for_each_border() -> None:
    assert PAGE.count("\n| threat |") == 6
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_a_claim_names_its_tests(row: str) -> None:
    assert re.search(r"`tests/[\w/]+\.py`", row.rsplit("|", 2)[1])

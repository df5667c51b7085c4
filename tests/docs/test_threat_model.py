"""Each claim of the threat model names a test that there is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
ROWS = [row for row in PAGE.splitlines() if row.startswith("| ") and "tests/" in row]
FILE = re.compile(r"`(tests/[\w/]+\.py)`((?:,? `test_\w+`)*)")


@cache
def tests_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_a_claim_names_tests_that_there_are(row: str) -> None:
    named = FILE.findall(row.rsplit("|", 2)[1])
    assert named
    for file, names in named:
        assert (ROOT / file).is_file()
        assert {*re.findall(r"test_\w+", names)} <= tests_of(ROOT / file)


def test_every_row_of_a_border_has_tests() -> None:
    borders = PAGE.split("\n## ①")[1].split("\n## What is left")[0]
    rows = [row for row in borders.splitlines() if row.startswith("| ") and not row.startswith("| threat")]
    assert len(rows) == len(ROWS) > 30

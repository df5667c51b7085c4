"""Whoever looks something up in a table of the pages finds one row for it, not two that differ."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md"), *(ROOT / "docs").rglob("*.md")])
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
CELL = re.compile(r"\|((?:[^|\\]|\\.)*)")

# Heads of tables that are asked with two cells: the same caller asks for several things.
_BY_TWO = {"caller"}


def keys(table: str) -> list[str]:
    """What the rows of a table are looked up by."""
    head, _, *rows = [[cell.strip() for cell in CELL.findall(line)] for line in table.splitlines()]
    return [" | ".join(row[: 2 if head[0] in _BY_TWO else 1]) for row in rows]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_table_has_one_row_for_each_thing(page: Path) -> None:
    found = [keys(table) for table in TABLE.findall(page.read_text())]

    assert [key for table in found for key, times in Counter(table).items() if times > 1] == []

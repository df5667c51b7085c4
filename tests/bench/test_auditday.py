"""The day of audit lines is what a gateway writes, and the page says what was missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import auditday
from bench.auditday import COUNT, GENERATIONS, Run
from gateway.__main__ import main


def test_the_lines_of_a_day_are_chained_and_of_all_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day = auditday.made(tmp_path, 2000)
    records = [json.loads(line) for file in day.lines for line in file.read_text().splitlines()]
    decisions = [record for record in records if "decision" in record]
    assert len(decisions) == 2000
    assert {record["decision"] for record in decisions} == {"allow", "deny"}
    assert {record["generation"] for record in decisions} == set(range(1, GENERATIONS + 1))
    assert {record["policy"] for record in decisions} == {kept.name for kept in day.kept.iterdir()}
    assert len({record["decision_id"] for record in decisions}) == 2000
    assert main(["audit", "verify", "--complete", *map(str, day.lines)]) == 0
    assert capsys.readouterr().out.endswith("whole\n")
    assert auditday.run(("--version",)).code == 0


def test_a_command_that_is_slow_or_fails_is_a_miss() -> None:
    fast, slow = Run(("audit", "verify"), 3.0, 50.0, 0), Run(("audit", "verify"), 99.0, 50.0, 0)
    differ, failed = Run(("policy", "diff"), 3.0, 50.0, 1), Run(("policy", "explain"), 3.0, 50.0, 1)
    assert auditday.misses([fast, differ], COUNT) == []
    missed = auditday.misses([slow, failed], COUNT)
    assert missed == ["audit verify took 99.0 s, not 35", "policy explain ended with 1"]
    page = auditday.written([slow], missed, COUNT, 2**30)
    assert "| `audit verify` | 99.0 | 10,101 | 50 |" in page
    assert "- **missed**: audit verify took 99.0 s, not 35" in page

"""The pages for whoever changes the code name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"(?<![\w./])(?:[\w-]+/)*[\w-]+(?:\.(?:py|md|rules|txt|toml|lock|yaml)|/)(?![\w-])")
ABSENT = {
    "doors/http2.py",  # how HTTP/2 will come
    "wires/http2.py",
    "bench/results.md",  # written by `make bench`
}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md"])
def test_a_page_names_files_that_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = {path for code in re.findall(r"`([^`\n]+)`|\]\(([^)]+)\)", text) for path in PATH.findall(" ".join(code))}
    assert len(named) > 5
    known = (ROOT, ROOT / "gateway", ROOT / "tests")
    missing = {path for path in named if not any((folder / path).exists() for folder in known)}
    assert {path for path in missing if "NAME" not in path} - ABSENT == set()

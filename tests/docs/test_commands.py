"""Whoever pastes a `nim-gateway …` line of the pages gets what it says, not an error about its words."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from gateway import __main__ as command_line

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("[a-z]*/README.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "config").rglob("*.yaml"),
        ROOT / "gateway" / "__main__.py",  # the examples of --help
    ]
)
SPAN = re.compile(r"`nim-gateway ([^`\n]+)`")
LINE = re.compile(r"^(?:#.*?|\$)?\s*nim-gateway ((?:[a-z]|--)[^`\n]*)$", re.MULTILINE)


def spelled_out(words: str) -> Iterator[list[str]]:
    """`simulate nim|triton` is two calls; what stands in brackets may be said."""
    given = shlex.split(words.replace("[", "").replace("]", ""), comments=True)
    yield from map(list, product(*(word.split("|") for word in given)))


def calls() -> dict[str, list[str]]:
    """Every call on every page, by its words and the first page that has it."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        text = page.read_text()
        for words in (*SPAN.findall(text), *LINE.findall(text)):
            for call in spelled_out(words):
                found.setdefault(f"{page.name}: {' '.join(call)}", call)
    return found


CALLS = calls()


def test_the_pages_show_each_command_there_is() -> None:
    assert {call[0] for call in CALLS.values()} >= set(command_line._COMMANDS)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_that_a_page_shows_is_understood(call: list[str]) -> None:
    if call[0].startswith("-"):
        assert call == ["--version"]
        return
    assert call[0] in command_line._COMMANDS, "no such command"
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(command_line._COMMANDS[call[0]][0]).add_arguments(parser)
    try:
        parser.parse_args(call[1:])
    except (SystemExit, argparse.ArgumentError) as refused:
        pytest.fail(f"not understood: {refused}")

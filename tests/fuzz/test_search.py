"""A search finds nothing in the gateway, and where there is something to find it says what, and how to see it again."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from fuzz import __main__ as command
from fuzz.harnesses import HARNESSES, Harness

needs_engine = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this machine"
)


@needs_engine
@pytest.mark.parametrize("name", HARNESSES)
def test_a_short_search_finds_nothing_wrong(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", name, "--runs"])

    found = command.main()

    told = capsys.readouterr().out
    assert found == 0, told
    assert int(told.splitlines()[-1].split()[1]) >= HARNESSES[name].runs


@needs_engine
def test_what_is_found_is_kept_and_it_is_said_how_to_see_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = tmp_path / "corpus" / "broken"
    seeds.mkdir(parents=True)
    (seeds / "good").write_bytes(b"a")
    harness = Harness("broken", "tests.fuzz.broken", 8, 100_000, corpora=seeds.parent, kept=tmp_path)

    assert not command.searched(harness, None)

    (kept,) = harness.crashers.iterdir()
    assert b"x" in kept.read_bytes()
    told = capsys.readouterr().out
    assert "FOUND SOMETHING" in told
    assert "AssertionError: an x" in told
    assert "-m fuzz broken --file" in told
    assert kept.name in told


def test_one_input_is_tried_again_by_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = next(HARNESSES["json"].corpus.iterdir())
    monkeypatch.setattr(sys, "argv", ["fuzz", "json", "--file", str(seed)])

    assert command.main() == 0
    assert capsys.readouterr().out == f"json: nothing is wrong with {seed}\n"


def test_a_harness_that_there_is_not_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", "jsno"])
    with pytest.raises(SystemExit):
        command.main()
    assert "no harness is called jsno" in capsys.readouterr().err

"""What searches once found, and what they begin with, is right."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.harnesses import CORPUS, HARNESSES, Harness
from fuzz.material import Untold
from tests.fuzz.messages import mutated

TABLES = [
    (harness, name, row)
    for harness in HARNESSES.values()
    for name in ("WE_TAKE", "WE_REFUSE")
    for row in range(len(getattr(importlib.import_module(harness.module), name, ())))
]
INPUTS = [(harness, file) for harness in HARNESSES.values() for file in sorted(harness.corpus.iterdir())]


@pytest.mark.parametrize(("harness", "file"), INPUTS, ids=[f"{one.name}-{file.name}" for one, file in INPUTS])
def test_an_input_that_was_kept_is_read_as_others_read_it(harness: Harness, file: Path) -> None:
    harness.check(file.read_bytes())


@pytest.mark.parametrize("harness", HARNESSES.values(), ids=HARNESSES)
@settings(max_examples=60)
@given(st.data())
def test_kept_inputs_that_were_meddled_with_are_read_as_others_read_them(harness: Harness, data: st.DataObject) -> None:
    """Also where the engine that searches has no wheel."""
    kept = [file.read_bytes() for other, file in INPUTS if other is harness]
    harness.check(data.draw(mutated(st.sampled_from(kept), st.sampled_from(harness.pieces()))))


@pytest.mark.parametrize(
    ("harness", "name", "row"), TABLES, ids=[f"{harness.name}-{name}-{row}" for harness, name, row in TABLES]
)
def test_a_difference_that_is_allowed_is_one_that_there_is(
    harness: Harness, name: str, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its row in the table, an input of the corpus is a finding."""
    oracle = importlib.import_module(harness.module)
    table = getattr(oracle, name)
    monkeypatch.setattr(oracle, name, (*table[:row], *table[row + 1 :]))
    assert any(differs(harness, file) for other, file in INPUTS if other is harness), table[row]


def differs(harness: Harness, file: Path) -> bool:
    try:
        harness.check(file.read_bytes())
    except Untold:
        return True
    return False


def test_each_folder_of_inputs_belongs_to_a_harness_and_all_of_them_are_small() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(HARNESSES)
    assert {file.stem for file in (CORPUS.parent / "words").iterdir()} == set(HARNESSES)
    assert all(file.stat().st_size <= harness.longest for harness, file in INPUTS)
    assert sum(file.stat().st_size for _, file in INPUTS) < 300 * 1024

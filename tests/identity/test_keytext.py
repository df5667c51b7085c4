"""The form of an API key: what a scanner for leaked secrets finds, and what a slip of the hand looks like."""

from __future__ import annotations

import re
import secrets
from itertools import chain, repeat
from math import log2
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.apikeys.keytext import (
    CHECK_LENGTH,
    ID_LETTERS,
    LETTERS,
    PATTERN,
    PREFIX,
    SECRET_LENGTH,
    digest_of,
    id_of,
    new_id,
    new_key,
)

PAGE = Path(__file__).parents[2] / "docs" / "identity.md"
ids = st.text(ID_LETTERS, min_size=8, max_size=8)


def test_two_keys_are_never_the_same_and_hold_256_bits_of_chance() -> None:
    made = {new_key("k7f3m2qa") for _ in range(1000)}
    assert len(made) == 1000
    assert SECRET_LENGTH * log2(len(LETTERS)) >= 256
    used = set("".join(key[len(PREFIX) + 9 : -CHECK_LENGTH] for key in made))
    assert used == set(LETTERS)
    assert len({new_id() for _ in range(1000)}) == 1000


@given(ids)
def test_a_key_tells_its_name_and_is_found_in_any_text_by_the_pattern_of_the_page(key_id: str) -> None:
    key = new_key(key_id)
    assert id_of(key) == key_id
    assert re.findall(PATTERN, f'api_key="{key}",') == [key]
    assert f"`{PATTERN}`" in PAGE.read_text()


@given(ids, st.integers(0, 63), st.sampled_from(LETTERS + "_-"))
def test_one_wrong_character_makes_it_no_key_at_all(key_id: str, at: int, letter: str) -> None:
    """CRC-32 finds every error in one byte."""
    key = new_key(key_id)
    wrong = key[:at] + letter + key[at + 1 :]
    assert id_of(wrong) == (key_id if wrong == key else None)


@given(ids, st.integers(0, 63))
def test_a_key_that_was_not_copied_whole_is_none(key_id: str, at: int) -> None:
    key = new_key(key_id)
    assert id_of(key[:at]) is id_of(key[at + 1 :]) is id_of(key + key[at]) is id_of(f" {key}") is None
    assert id_of(key + "\n") is None


@given(st.text())
def test_no_text_is_a_fault_and_none_becomes_a_key(text: str) -> None:
    assert id_of(text) is None
    assert id_of(PREFIX + text) is None


def test_what_is_kept_of_a_key_changes_with_every_part_of_it() -> None:
    zeros = chain(repeat(0, SECRET_LENGTH), repeat(1))
    one, other = new_key("k7f3m2qa", lambda _: next(zeros)), new_key("k7f3m2qa", secrets.randbelow)
    assert len({digest_of(one), digest_of(other), digest_of(one.replace("k7", "k8"))}) == 3
    assert len(digest_of(one)) == 32

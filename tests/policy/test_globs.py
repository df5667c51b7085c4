"""Patterns match what they say, whole names only, and never take longer than the name is long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.globs import NAMES_LIMIT, PATTERN_LIMIT, GlobMasks, compile_glob
from tests.policy.reference import name_matches
from tests.policy.work import lines_run

# Few characters, so that names and patterns meet often; the rest of Unicode stands in for "everything else".
NAMES = st.text(alphabet="ab/.", max_size=12) | st.text(max_size=8)
PATTERNS = st.text(alphabet="ab/.*", min_size=1, max_size=10) | st.text(min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("meta/llama-3.1-8b-instruct", "meta/llama-3.1-8b-instruct", True),
        ("meta/llama-3.1-8b-instruct", "meta/llama-3x1-8b-instruct", False),
        ("nvidia/*", "nvidia/nv-embed", True),
        ("nvidia/*", "nvidia/nv/embed", False),
        ("nvidia/*", "nvidia", False),
        ("nvidia/*", "xnvidia/nv-embed", False),
        ("nvidia/**", "nvidia/nv/embed", True),
        ("**/embed", "nvidia/nv/embed", True),
        ("*/embed", "nvidia/nv/embed", False),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-b-b-c-d", False),
        ("*", "nvidia/nv/embed", True),
        ("*", "", True),
        ("**", "nvidia/nv/embed", True),
        ("llama*", "llama", True),
        ("m?del", "model", False),
        ("m?del", "m?del", True),
        ("m[o]del", "model", False),
        ("{a,b}", "a", False),
        (r"a\*", "a*", False),
        ("small", "SMALL", False),
        ("small", "small ", False),
        ("small", "small\n", False),
        ("sm*", "small\n", True),
        ("e\u0301mbed", "\u00e9mbed", False),
        ("small", "sm\u0430ll", False),
        ("\uff53mall", "small", False),
    ],
)
def test_a_pattern_matches_whole_names_by_code_points(pattern: str, name: str, *, matches: bool) -> None:
    assert compile_glob(pattern)(name) is matches
    assert bool(GlobMasks([(pattern, 1)])(name)) is matches


@given(PATTERNS, NAMES)
def test_a_pattern_agrees_with_a_regular_expression(pattern: str, name: str) -> None:
    assert compile_glob(pattern)(name) is name_matches(pattern, name)


@given(st.lists(PATTERNS, max_size=12), st.lists(NAMES, max_size=4))
def test_many_patterns_at_once_answer_as_each_alone(patterns: list[str], names: list[str]) -> None:
    masks = GlobMasks((pattern, 1 << number) for number, pattern in enumerate(patterns))
    for name in names * 2:
        alone = sum(1 << number for number, pattern in enumerate(patterns) if name_matches(pattern, name))
        assert masks(name) == alone


def steps(pattern: str, name: str) -> int:
    """The work of matching, without that of compiling."""
    glob = compile_glob(pattern)
    return lines_run(lambda: glob(name))


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**a" * 150 + "b", "a*" * 200 + "/b", "**a*" * 120 + "b"])
def test_the_worst_pattern_takes_time_linear_in_the_name(pattern: str) -> None:
    """A backtracking matcher would not come back from this one in the life of the universe."""
    short, long = steps(pattern, "a" * 1000), steps(pattern, "a" * 4000)
    assert long <= 4 * short + 40


@given(st.text(alphabet="a*/", min_size=1, max_size=PATTERN_LIMIT), st.text(alphabet="a/", max_size=256))
def test_no_pattern_takes_more_than_a_fixed_number_of_steps_a_character(pattern: str, name: str) -> None:
    assert steps(pattern, name) <= 6 * len(name) + 10


@pytest.mark.parametrize("pattern", ["", "a" * (PATTERN_LIMIT + 1)])
def test_an_empty_or_endless_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="a pattern"):
        compile_glob(pattern)


def test_answers_stay_right_when_more_names_were_asked_than_are_kept() -> None:
    masks = GlobMasks([("a*", 1), ("*9", 2)])
    for number in range(NAMES_LIMIT + 10):
        masks(f"a{number}")
    assert (masks("a9"), masks("b9"), masks("c")) == (3, 2, 0)
    assert len(masks._known) <= NAMES_LIMIT

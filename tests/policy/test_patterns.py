"""Patterns held against each other say what trying all names would say."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.globs import compile_glob
from gateway.policy.patterns import included, meet

some_pattern = st.text(alphabet="ab/*", min_size=1, max_size=5)

#: Every short name; `x` is a letter that no pattern names.
LONGEST = 4
NAMES = ["".join(letters) for length in range(LONGEST + 1) for letters in product("ab/x", repeat=length)]


def names(pattern: str) -> set[str]:
    matches = compile_glob(pattern)
    return {name for name in NAMES if matches(name)}


@given(some_pattern, st.lists(some_pattern, min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_a_pattern_is_within_others_exactly_if_all_its_names_are(pattern: str, others: list[str]) -> None:
    outside = names(pattern) - set().union(*map(names, others))
    if included(pattern, tuple(others)):
        assert not outside
    elif "*" not in pattern:
        assert not any(compile_glob(other)(pattern) for other in others)
    else:  # the name that shows it may be longer than those tried, by the length of what is asked for
        assert outside or len(pattern) + max(map(len, others)) > LONGEST


@given(some_pattern, some_pattern)
@settings(max_examples=100, deadline=None)
def test_two_patterns_meet_exactly_if_a_name_is_of_both(one: str, other: str) -> None:
    assert meet(one, other) == meet(other, one)
    if names(one) & names(other):
        assert meet(one, other)
    elif len(one) + len(other) <= LONGEST:  # then some name as short as those tried is of both
        assert not meet(one, other)


def test_what_people_write_is_told_apart() -> None:
    assert included("nvidia/nv-embed", ("nvidia/*",))
    assert included("nvidia/*", ("nvidia/**",))
    assert not included("nvidia/**", ("nvidia/*",))
    assert included("**", ("*",))
    assert included("a*", ("a", "a?", "a**"))
    assert included("n/*", ("n/a*", "n/*"))
    assert not included("n/*", ("n/a*", "n/b*"))
    assert not meet("meta/*", "nvidia/*")
    assert meet("*/small", "meta/*")


def test_patterns_that_would_take_forever_claim_nothing() -> None:
    """The walk through both is bounded, whatever somebody writes."""
    hard = "*" + "a*" * 200
    assert not included("**b" + "**a" * 12, (hard, "*" + "ab*" * 60))
    assert meet("a*" * 250, "*" + "b*a" * 80)

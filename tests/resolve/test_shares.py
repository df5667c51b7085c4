"""Callers are shared out among models by weight, each always to the same one."""

from __future__ import annotations

from math import sqrt

from hypothesis import given
from hypothesis import strategies as st

from gateway.resolve.shares import ranked

CALLERS = [("corp", f"user-{number}") for number in range(10_000)]

words = st.text(max_size=20)
shares = st.lists(st.tuples(words, st.integers(1, 1000)), min_size=1, max_size=16, unique_by=lambda share: share[0])


def first(who: tuple[str, str], name: str, among: list[tuple[str, int]]) -> str:
    return among[ranked(who, name, among)[0]][0]


def test_ten_thousand_callers_are_split_by_the_weights() -> None:
    among = [("stable", 90), ("canary", 9), ("tiny", 1)]
    for name in ("llama", "chat", "x"):
        got = [first(who, name, among) for who in CALLERS]
        for model, weight in among:
            expected = len(CALLERS) * weight / 100
            bound = 4 * sqrt(expected * (1 - weight / 100))  # one in 16 000 is farther away by chance; and it is fixed
            assert abs(got.count(model) - expected) < bound, (name, model)


def test_second_choices_are_split_by_the_weights_too() -> None:
    """Those who may not use what they drew do not all land on one model."""
    among = [("a", 50), ("b", 25), ("c", 25)]
    orders = [ranked(who, "n", among) for who in CALLERS]
    left = [order[1] for order in orders if order[0] == 0]
    assert abs(left.count(1) - len(left) / 2) < 4 * sqrt(len(left) / 4)


def test_the_same_caller_gets_the_same_model_on_every_replica_and_after_every_restart() -> None:
    """Written down: another hash would move everybody at an upgrade."""
    among = [("a", 1), ("b", 1), ("c", 1)]
    got = "".join(first(("corp", f"user-{number}"), "n", among) for number in range(24))
    assert got == "aacaaaaababcacacabcabaca"


def test_names_that_run_together_are_different_callers() -> None:
    among = [("a", 1), ("b", 1)]
    pairs = [((f"c{number}", "x"), (f"c{number}x", "")) for number in range(200)]
    assert any(first(one, "n", among) != first(other, "n", among) for one, other in pairs)


@given(words, words, words, shares)
def test_each_model_is_ranked_once(provider: str, subject: str, name: str, among: list[tuple[str, int]]) -> None:
    assert sorted(ranked((provider, subject), name, among)) == list(range(len(among)))


@given(words, words, words, shares, st.data())
def test_the_order_of_the_configuration_does_not_matter(
    provider: str, subject: str, name: str, among: list[tuple[str, int]], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(among))
    assert first((provider, subject), name, among) == first((provider, subject), name, list(other))


@given(words, words, words, shares, st.data())
def test_a_change_of_a_weight_moves_callers_to_that_model_or_from_it_and_nobody_else(
    provider: str, subject: str, name: str, among: list[tuple[str, int]], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(among) - 1))
    model, before = among[place]
    after = data.draw(st.integers(1, 1000))
    changed = [*among[:place], (model, after), *among[place + 1 :]]
    old, new = first((provider, subject), name, among), first((provider, subject), name, changed)
    if old != new:
        assert (new if after > before else old) == model


@given(words, words, words, shares, words, st.integers(1, 1000))
def test_a_new_model_takes_callers_for_itself_alone(
    provider: str, subject: str, name: str, among: list[tuple[str, int]], added: str, weight: int
) -> None:
    if added not in dict(among):
        new = first((provider, subject), name, [*among, (added, weight)])
        assert new in {added, first((provider, subject), name, among)}

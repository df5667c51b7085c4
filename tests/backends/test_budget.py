"""The retry budget."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pools.budget import Budget
from tests.backends.made import built, up, wanted


@pytest.mark.parametrize(("active", "limit"), [(0, 3), (15, 3), (19, 3), (20, 4), (100, 20), (1000, 200)])
def test_a_fifth_of_the_active_calls_may_be_retries_and_three_always(active: int, limit: int) -> None:
    budget = Budget(lambda: active)
    places = [budget.try_take() for _ in range(limit)]
    assert None not in places
    assert budget.try_take() is None


def test_a_place_given_back_is_free_again() -> None:
    budget = Budget(lambda: 0)
    held = [budget.try_take() for _ in range(3)]
    assert held[0] is not None
    assert budget.try_take() is None
    held[0].release()
    assert budget.try_take() is not None


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(0, 100))
def test_the_count_never_passes_the_limit_nor_zero(steps: list[int], active: int) -> None:
    budget = Budget(lambda: active)
    places = []
    for step in steps:
        place = budget.try_take()
        if place is not None:
            places.append(place)
        if step < len(places):
            places[step].release()
            places[step].release()
        assert 0 <= budget.taken <= budget.limit
    for place in places:
        place.release()
    assert budget.taken == 0


def test_a_pool_measures_its_own_calls_and_a_reload_keeps_what_is_out() -> None:
    old = up(2)
    retry = old.budget.try_take()
    assert retry is not None
    new = built(wanted(3), old)
    assert new.budget.taken == 1
    with ExitStack() as calls:
        for _ in range(40):
            calls.enter_context(new.backends[0].hold())
        assert new.budget.limit == old.budget.limit == 8
    retry.release()
    assert new.budget.taken == 0

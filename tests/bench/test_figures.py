"""The arithmetic behind every figure that is printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Goal, Measure, Rounds, Spread, quantile, ratios, short, spread

positive = st.floats(min_value=1e-3, max_value=1e6)


def test_a_spread_is_least_median_and_greatest() -> None:
    assert spread([3.0, 9.0, 1.0, 2.0]) == Spread(1.0, 2.5, 9.0)


def test_a_spread_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        spread([])


def test_ratios_pair_what_was_measured_in_the_same_round() -> None:
    """The ratio of the medians would be 1; the machine was slow in the second round for both."""
    assert ratios([10.0, 40.0], [20.0, 80.0]) == Spread(0.5, 0.5, 0.5)


def test_ratios_need_as_many_rounds_on_both_sides() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0, 2.0], [1.0])


@given(st.lists(st.tuples(positive, positive), min_size=1))
def test_turning_a_ratio_round_turns_its_spread_round(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = ratios(ours, theirs), ratios(theirs, ours)
    assert there.low == pytest.approx(1 / back.high)
    assert there.high == pytest.approx(1 / back.low)


def test_quantiles_are_values_that_occurred() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1.0)) == (51.0, 100.0, 100.0)
    with pytest.raises(ValueError, match="nothing was measured"):
        quantile([], 0.5)


@given(st.lists(positive, min_size=1), st.floats(min_value=0, max_value=1))
def test_no_more_than_its_share_lies_below_a_quantile(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(value < found for value in values) <= share * len(values)


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1234"), (-17.26, "-17.3"), (5.678, "5.68"), (0.01234, "0.012"), (0.0, "0.000")]
)
def test_numbers_are_printed_with_about_three_digits(value: float, text: str) -> None:
    assert short(value) == text


def test_a_limit_itself_meets_the_goal_from_either_side() -> None:
    assert Goal("x", 1.5).met(1.5)
    assert not Goal("x", 1.5).met(1.51)
    assert Goal("x", 0.5, at_least=True).met(0.5)
    assert not Goal("x", 0.5, at_least=True).met(0.49)


def test_rounds_keep_the_order_and_the_keys_apart() -> None:
    kept = Rounds()
    for server, value in (("a", 1.0), ("b", 2.0), ("a", 3.0), ("b", 4.0)):
        kept.add("cpu", server, value)
    kept.add("rate", "a", 9.0)
    assert kept.measure("cpu", "CPU", "µs").values == {"a": (1.0, 3.0), "b": (2.0, 4.0)}


def test_a_server_that_missed_a_round_is_noticed() -> None:
    with pytest.raises(ValueError, match="every round"):
        Measure("cpu", "CPU", "µs", {"a": (1.0, 2.0), "b": (1.0,)})

"""Names that were hardly meant are paired with those that were, and names that people number or letter are not."""

from __future__ import annotations

import pytest

from gateway.policy.likenames import likely


@pytest.mark.parametrize(
    "odd",
    [
        "Data-Science",
        "data_science",
        "data science",
        "datascience",
        "d\u0430ta-science",
        "data-s\u0441ience",
        "data-science\u200b",
        "data-sciense",
        "data-scence",
        "dataa-science",
        "data-scienec",
    ],
)
def test_a_name_that_looks_like_one_used_more_is_paired_with_it(odd: str) -> None:
    assert list(likely({odd: 1, "data-science": 3})) == [(odd, "data-science")]


@pytest.mark.parametrize(
    ("one", "other"),
    [("team-a", "team-b"), ("vision1", "vision2"), ("vision", "vision2"), ("ops", "ops2"), ("eng", "end"),
     ("platform-operators", "platform-owners"), ("team-fr", "team-es")],
)  # fmt: skip
def test_names_that_are_two_are_left_alone(one: str, other: str) -> None:
    assert list(likely({one: 1, other: 5})) == []


def test_of_two_names_that_are_used_alike_a_slip_is_not_told() -> None:
    assert list(likely({"vision": 2, "visions": 2})) == []


def test_a_letter_of_another_script_is_the_odd_one_even_if_it_stands_first() -> None:
    assert list(likely({"v\u0456sion": 1, "vision": 1})) == [("v\u0456sion", "vision")]

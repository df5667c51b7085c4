"""How probes become health."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pools.ejection import FailureReason
from gateway.pools.vitals import Health, Standing, Vitals
from tests.backends.made import names, up


def after(probes: str, fall: int = 3, rise: int = 2) -> Health:
    standing = Standing()
    for probe in probes:
        standing.judge(probe == "+", fall, rise)
    return standing.health


@pytest.mark.parametrize(
    ("probes", "health"),
    [
        ("", Health.UNKNOWN),
        ("+", Health.UP),
        ("-", Health.DOWN),
        ("----+", Health.UP),
        ("+--", Health.UP),
        ("+---", Health.DOWN),
        ("+--+--+--", Health.UP),
        ("+---+", Health.DOWN),
        ("+---++", Health.UP),
        ("+---+-+-+-+", Health.DOWN),
        ("+-+-+-+-+-", Health.UP),
    ],
)
def test_three_bad_probes_take_a_backend_out_and_two_good_ones_bring_it_back(probes: str, health: Health) -> None:
    """B105."""
    assert after(probes) is health


@given(st.text("+-", max_size=40), st.integers(1, 5), st.integers(1, 5))
def test_the_verdict_follows_from_the_last_long_enough_row(probes: str, fall: int, rise: int) -> None:
    health = after(probes, fall, rise)
    if probes.endswith("+" * max(rise, 1)):
        assert health is Health.UP
    if probes.endswith("-" * fall):
        assert health is Health.DOWN
    if "+" not in probes:
        assert health is not Health.UP


@given(st.text("+-", max_size=40))
def test_a_change_is_reported_exactly_when_the_health_changes(probes: str) -> None:
    vitals = Vitals()
    for probe in probes:
        before = vitals.standing.health
        assert vitals.probed(probe == "+", 3, 2) == (vitals.standing.health is not before)
        assert (vitals.usable_from <= 0.0) == vitals.up


def test_a_server_that_went_down_has_to_show_its_models_again() -> None:
    pool = up(1, protocols=("kserve",))
    vitals = pool.backends[0].vitals
    for _ in range(3):
        vitals.probed(False, 3, 2)
    vitals.probed(True, 3, 2)
    vitals.probed(True, 3, 2)
    assert names(pool, 0.0) == []
    vitals.model_probed("m", True, 3, 2)
    assert names(pool, 0.0) == ["0"]


def test_coming_back_after_a_fall_ends_an_ejection() -> None:
    pool = up(2)
    for _ in range(5):
        pool.failed(pool.backends[0], FailureReason.RESET, 1.0)
    vitals = pool.backends[0].vitals
    assert names(pool, 2.0) == ["1"]
    vitals.probed(True, 3, 2)
    assert names(pool, 2.0) == ["1"]  # good probes alone do not: they were good all the time
    for probe in (False, False, False, True, True):
        vitals.probed(probe, 3, 2)
    assert sorted(names(pool, 2.0)) == ["0", "1"]


def test_a_model_that_fell_needs_as_many_good_probes_as_a_server() -> None:
    vitals = Vitals()
    vitals.model_probed("m", True, 3, 2)
    assert vitals.model_probed("m", False, 1, 2)
    assert not vitals.model_probed("m", True, 3, 2)
    assert vitals.model_probed("m", True, 3, 2)
    assert vitals.ready == {"m"}


def test_models_that_are_no_longer_configured_are_forgotten() -> None:
    vitals = Vitals()
    vitals.model_probed("m", True, 3, 2)
    vitals.model_probed("n", True, 3, 2)
    vitals.forget_models({"n"})
    assert vitals.ready == {"n"}
    assert vitals.knows({"n"})
    assert not vitals.knows({"m"})

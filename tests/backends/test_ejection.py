"""Passive ejection: what counts, for how long, and what it must never do."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import settings
from gateway.pools.backends import Pool
from gateway.pools.ejection import FailureReason, Strikes
from tests.backends.made import candidates, names, up

REASONS = st.sampled_from(sorted(FailureReason))


def fail(pool: Pool, which: int, times: int, now: float, reason: FailureReason = FailureReason.STATUS) -> bool:
    """True when one of these failures ejected."""
    ejected = [pool.failed(pool.backends[which], reason, now) for _ in range(times)]
    return any(ejected)


@pytest.mark.parametrize("reason", sorted(set(FailureReason) - {FailureReason.TRUNCATED}))
def test_five_failures_in_a_row_eject_for_half_a_minute(reason: FailureReason) -> None:
    pool = up()
    assert not fail(pool, 0, 4, 100.0, reason)
    assert "0" in names(pool, 100.0)
    assert fail(pool, 0, 1, 100.0, reason)
    assert "0" not in names(pool, 129.9)
    assert "0" in names(pool, 130.0)


def test_a_success_in_between_starts_the_count_again() -> None:
    pool = up()
    for _ in range(10):
        fail(pool, 0, 4, 100.0)
        pool.succeeded(pool.backends[0], 100.0)
    assert "0" in names(pool, 100.0)


def test_failures_long_past_are_forgotten() -> None:
    pool = up()
    fail(pool, 0, 4, 100.0)
    assert not fail(pool, 0, 4, 161.0)


def test_streams_that_broke_off_are_counted_for_the_operator_but_do_not_eject() -> None:
    pool = up()
    assert not fail(pool, 0, 20, 100.0, FailureReason.TRUNCATED)
    assert pool.backends[0].failures[FailureReason.TRUNCATED] == 20


def test_each_further_ejection_lasts_longer_up_to_five_minutes_and_good_service_shortens_it_again() -> None:
    strikes, now, spans = Strikes(), 1000.0, []
    for _ in range(12):
        spans.append(strikes.eject(now))
        now += spans[-1]
    assert spans[:4] == [30.0, 60.0, 90.0, 120.0]
    assert spans[-2:] == [300.0, 300.0]
    assert strikes.eject(now + 60.0 * 100) == 30.0


def test_two_minutes_of_service_take_two_steps_off() -> None:
    strikes = Strikes()
    for _ in range(4):
        strikes.eject(1000.0)
    assert strikes.eject(strikes.until + 120.0) == 30.0 * 3


def test_calls_that_fail_while_ejected_do_not_prolong_it() -> None:
    pool = up(8)
    fail(pool, 0, 5, 100.0)
    fail(pool, 0, 50, 110.0)
    assert pool.backends[0].ejections == 1
    assert "0" in names(pool, 130.0)


@pytest.mark.parametrize(("size", "out"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (8, 4)])
def test_at_most_half_of_a_pool_is_ejected(size: int, out: int) -> None:
    pool = up(size)
    for which in range(size):
        fail(pool, which, 10, 100.0)
    assert len(names(pool, 100.0)) == size - out


def test_the_last_backend_that_serves_a_model_is_not_ejected() -> None:
    models = (settings.Model("m"), settings.Model("n"))
    pool = up(4, protocols=("kserve",), models=models)
    for which in (1, 2, 3):
        pool.backends[which].vitals.model_probed("n", False, 1, 1)
    assert not fail(pool, 0, 50, 100.0)
    assert names(pool, 100.0, "n") == ["0"]


def test_an_ejected_backend_serves_again_when_the_others_go_down() -> None:
    pool = up(2)
    fail(pool, 0, 5, 100.0)
    assert names(pool, 101.0) == ["1"]
    for _ in range(3):
        pool.backends[1].vitals.probed(False, 3, 2)
    assert names(pool, 101.0) == ["0"]


def test_an_ejection_is_logged_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    pool = up()
    with caplog.at_level(logging.INFO):
        fail(pool, 0, 30, 100.0, FailureReason.FIRST_BYTE)
    assert [record.getMessage() for record in caplog.records] == [
        "backend_ejected pool=p backend=10.0.0.0:8000 reason=first_byte seconds=30"
    ]


Step = tuple[str, int, FailureReason, float]
STEPS = st.lists(
    st.tuples(st.sampled_from(["fail", "storm", "succeed", "down", "up", "rest"]), st.integers(0, 7), REASONS,
              st.floats(0, 40)),
    max_size=60,
)  # fmt: skip


@given(st.integers(1, 8), STEPS)
def test_whatever_happens_ejection_takes_half_at_most_and_never_the_last(size: int, steps: list[Step]) -> None:
    pool, now = up(size), 1000.0
    for what, which, reason, pause in steps:
        now += pause
        backend = pool.backends[which % size]
        if what in {"fail", "storm"}:
            usable_before = [each for each in pool.backends if each.usable("m", now)]
            ejected = fail(pool, which % size, 1 if what == "fail" else 9, now, reason)
            if ejected:
                assert [each for each in usable_before if each is not backend]
                assert any(each.usable("m", now) for each in pool.backends)
        elif what == "succeed":
            pool.succeeded(backend, now)
        elif what == "rest":
            backend.rest_until(now + pause, now)
        else:
            backend.vitals.probed(what == "up", 1, 1)
        assert sum(each.vitals.strikes.ejected(now) for each in pool.backends) <= size / 2
        offered = candidates(pool, "m", now)
        assert len(set(offered)) == len(offered)
        able = [each for each in pool.backends if each.serves("m") and each.vitals.resting_until <= now]
        assert bool(offered) == bool(able)

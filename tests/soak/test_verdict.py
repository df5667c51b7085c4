"""What a soak calls level, and what it does not."""

from __future__ import annotations

import pytest

from soak.gauges import CREEP, GROWTH, Reading, quarters, rows, table
from soak.tally import KEPT, Tally

LEVEL: Reading = {
    "resident MiB": 80.0, "descriptors": 16, "threads": 5, "tasks": 14, "calls in flight": 0, "calls on backends": 0,
    "client connections": 0, "backend connections": 0, "tokens remembered": 3, "decisions remembered": 4,
}  # fmt: skip
FLAT = [80.0] * 20


def faults(after: Reading, memory: list[float] = FLAT) -> set[str]:
    return {row.what for row in rows(LEVEL, LEVEL | after, 6, memory) if row.fault}


def test_what_is_where_it_was_is_level() -> None:
    assert faults({}) == set()
    assert "level" in table(rows(LEVEL, LEVEL, 6, FLAT))


@pytest.mark.parametrize(
    "name", sorted(LEVEL.keys() - {"resident MiB", "threads", "tokens remembered", "decisions remembered"})
)
def test_one_more_descriptor_task_call_or_connection_is_a_leak(name: str) -> None:
    assert faults({name: LEVEL[name] + 1}) == {name}


def test_memory_threads_and_caches_have_bounds() -> None:
    most = {"resident MiB": 80 + GROWTH, "threads": 11, "tokens remembered": 10_000, "decisions remembered": 10_000}
    assert faults(most) == set()
    assert faults({name: value + 1 for name, value in most.items()}) == set(most)


def test_memory_that_still_creeps_in_the_last_quarter_is_a_leak() -> None:
    creeping = [80.0] * 15 + [80.0 + CREEP + 1] * 5
    assert quarters(creeping) == (80.0, 81.0 + CREEP)
    assert faults({}, creeping) == {"resident MiB, third and fourth quarter"}
    assert faults({}, creeping[5:] + creeping[-1:] * 5) == set(), "it has come to rest"


def test_what_went_wrong_is_counted_always_and_told_a_few_times() -> None:
    tally = Tally()
    tally.ended("json", "200")
    tally.ended("bad token", "401")
    for _ in range(KEPT + 5):
        tally.went_wrong("json", ValueError("x"))
    assert (tally.acts, tally.refused, tally.wrong, len(tally.told)) == (KEPT + 7, 1, KEPT + 5, KEPT)
    assert tally.lines() == ["bad token: 1 401", f"json: 1 200, {KEPT + 5} UNEXPECTED"]

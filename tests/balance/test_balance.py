"""What every balancer promises, and what each one adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pools.backends import Backend
from gateway.pools.balance import BALANCERS, Balancer, LeastConnections, RoundRobin
from tests.backends.made import up


def backends(*weights: int) -> list[Backend]:
    return list(up(weights=weights).backends)


def first(balancer: Balancer, among: list[Backend]) -> Backend:
    return balancer.first(among)


def order(balancer: Balancer, among: list[Backend]) -> Iterator[Backend]:
    """Who a call is sent to that fails everywhere."""
    begun = balancer.first(among)
    yield begun
    yield from balancer.rest([each for each in among if each is not begun])


def shares(balancer: Balancer, among: list[Backend], calls: int) -> list[int]:
    """How many of `calls` that never overlap go first to each."""
    counted = Counter(first(balancer, among) for _ in range(calls))
    return [counted[backend] for backend in among]


ALL = pytest.mark.parametrize("name", sorted(BALANCERS))


@ALL
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.lists(st.integers(0, 20), min_size=8, max_size=8))
def test_each_backend_comes_exactly_once(name: str, weights: list[int], load: list[int]) -> None:
    among = backends(*weights)
    for backend, calls in zip(among, load, strict=False):
        backend.vitals.in_flight = calls
    balancer = BALANCERS[name](0)
    for _ in range(3):
        assert Counter(order(balancer, among)) == Counter(among)


@ALL
def test_three_thousand_calls_one_after_the_other_spread_exactly(name: str) -> None:
    """B102."""
    for count in shares(BALANCERS[name](0), backends(1, 1, 1), 3000):
        assert abs(count - 1000) <= 1


@ALL
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 50))
def test_one_call_after_the_other_spreads_by_weight_from_any_start(name: str, weights: list[int], seed: int) -> None:
    rounds = 20
    counts = shares(BALANCERS[name](seed), backends(*weights), rounds * sum(weights))
    assert counts == [rounds * weight for weight in weights]


@ALL
def test_workers_start_with_different_backends(name: str) -> None:
    """B102."""
    among = backends(1, 1, 1, 1)
    assert len({first(BALANCERS[name](seed), among) for seed in range(4)}) == 4


@ALL
def test_a_backend_left_out_skews_nobody_and_gets_no_burst_when_it_is_back(name: str) -> None:
    """B103."""
    balancer, among = BALANCERS[name](0), backends(1, 1, 1)
    shares(balancer, among, 10)
    a, b = shares(balancer, among[:2], 1000)
    assert abs(a - b) <= 2
    for count in shares(balancer, among, 30):
        assert abs(count - 10) <= 2


@ALL
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.data())
def test_whoever_comes_and_goes_calls_stay_within_one_round_of_fair(
    name: str, missing: list[int], data: st.DataObject
) -> None:
    balancer, among = BALANCERS[name](0), backends(1, 1, 1, 1, 1)
    for gone in missing:
        shares(balancer, among, data.draw(st.integers(0, 9)))
        shares(balancer, [each for each in among if each is not among[gone]], data.draw(st.integers(0, 9)))
    counts = shares(balancer, among, 100)
    assert max(counts) - min(counts) <= 4


@ALL
def test_calls_that_ask_for_everybody_still_begin_with_each_in_turn(name: str) -> None:
    among, balancer = backends(1, 1, 1), BALANCERS[name](0)
    begun = Counter(next(iter(list(order(balancer, among)))) for _ in range(300))
    assert [begun[each] for each in among] == [100, 100, 100]


@ALL
def test_what_a_dead_backend_leaves_to_others_is_spread_over_them(name: str) -> None:
    among, balancer = backends(1, 1, 1), BALANCERS[name](0)
    served: Counter[Backend] = Counter()
    for _ in range(300):
        tries = order(balancer, among)
        chosen = next(tries)
        served[next(tries) if chosen is among[0] else chosen] += 1
    assert abs(served[among[1]] - served[among[2]]) <= 2


@ALL
def test_nobody_is_left_where_nobody_was(name: str) -> None:
    assert list(BALANCERS[name](3).rest([])) == []


def test_round_robin_takes_turns_smoothly() -> None:
    among = backends(5, 1, 1)
    balancer = RoundRobin()
    turns = [among.index(first(balancer, among)) for _ in range(7)]
    assert turns == [0, 0, 1, 0, 2, 0, 0]


def test_round_robin_does_not_look_at_load() -> None:
    among = backends(1, 1)
    among[0].vitals.in_flight = 100
    assert shares(RoundRobin(), among, 10) == [5, 5]


def test_least_connections_takes_the_emptiest_for_its_weight() -> None:
    among = backends(1, 4, 1)
    for backend, calls in zip(among, (2, 6, 3), strict=True):
        backend.vitals.in_flight = calls
    assert [among.index(each) for each in order(LeastConnections(), among)] == [1, 0, 2]


def test_least_connections_among_those_that_tie_beside_a_busy_one_is_fair() -> None:
    among = backends(1, 1, 1)
    among[1].vitals.in_flight = 9
    assert shares(LeastConnections(), among, 100) == [50, 0, 50]


def test_least_connections_sends_a_slow_backend_a_fifth_at_most() -> None:
    """One of three takes ten times as long; calls arrive evenly and hold their backend meanwhile."""
    among, balancer = backends(1, 1, 1), LeastConnections()
    counts: Counter[int] = Counter()
    running: list[tuple[int, ExitStack]] = []
    for tick in range(3000):
        for ends, call in [each for each in running if each[0] <= tick]:
            call.close()
            running.remove((ends, call))
        backend = first(balancer, among)
        which = among.index(backend)
        counts[which] += 1
        call = ExitStack()
        call.enter_context(backend.hold())
        running.append((tick + (60 if which == 0 else 6), call))
    assert counts[0] <= 600
    for _, call in running:
        call.close()
    assert [backend.in_flight for backend in among] == [0, 0, 0]

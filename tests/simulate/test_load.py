"""Places, queue and turns to fail of a simulated server."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.simulate import load as load_module
from gateway.simulate.knobs import Knobs
from gateway.simulate.load import Load, QueueFull
from tests.simulate.conftest import until


@given(st.integers(0, 100), st.integers(1, 200))
def test_exactly_the_wished_share_of_calls_fails(percent: int, calls: int) -> None:
    load = Load(Knobs(failure_rate=percent / 100))
    failed = sum(load.arrived_to_fail() for _ in range(calls))
    assert failed == percent * calls // 100
    assert (load.requests, load.failed) == (calls, failed)


async def test_calls_beyond_the_places_wait_in_order_of_arrival() -> None:
    load, order, go = Load(Knobs(max_concurrency=1)), list[int](), asyncio.Event()

    async def call(number: int) -> None:
        async with load.place():
            order.append(number)
            await go.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(call(number))
        await until(lambda: load.waiting == 3)
        assert (load.running, order) == (1, [0])
        go.set()
    assert order == [0, 1, 2, 3]
    assert (load.running, load.waiting) == (0, 0)


async def test_a_caller_who_leaves_the_queue_gives_nobody_elses_place_away() -> None:
    load, go = Load(Knobs(max_concurrency=1)), asyncio.Event()

    async def call() -> None:
        async with load.place():
            await go.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(call())
        await until(lambda: load.running == 1)
        leaving, staying = group.create_task(call()), group.create_task(call())
        await until(lambda: load.waiting == 2)
        leaving.cancel()
        await until(lambda: load.waiting == 1)
        go.set()
        await staying
    assert (load.running, load.waiting) == (0, 0)


async def test_a_place_that_comes_in_the_moment_its_caller_leaves_is_passed_on() -> None:
    load, entered = Load(Knobs(max_concurrency=1)), list[str]()

    async def call(name: str) -> None:
        async with load.place():
            entered.append(name)

    async with asyncio.TaskGroup() as group:
        async with load.place():
            leaving, staying = group.create_task(call("leaving")), group.create_task(call("staying"))
            await until(lambda: load.waiting == 2)
        leaving.cancel()  # its place was given a moment ago, and it has not run since
        await staying
    assert entered == ["staying"]
    assert load.running == 0


async def test_more_places_let_the_waiting_in_at_once() -> None:
    load, go = Load(Knobs(max_concurrency=1)), asyncio.Event()

    async def call() -> None:
        async with load.place():
            await go.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(call())
        await until(lambda: load.waiting == 2)
        load.turn(Knobs(max_concurrency=0))
        assert (load.running, load.waiting) == (3, 0)
        go.set()


async def test_a_full_queue_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "QUEUE_LIMIT", 0)
    load = Load(Knobs(max_concurrency=1))
    async with load.place():
        with pytest.raises(QueueFull):
            async with load.place():
                pass

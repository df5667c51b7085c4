"""When backends are probed: at once, at their own pace, never twice at the same time, and across reloads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gateway import settings
from gateway.fetch import Fetch
from gateway.pools.backends import Pool
from gateway.pools.health import Prober
from gateway.pools.vitals import Health
from tests.health.made import TWO, pool_of, running, triton
from tests.health.servers import Server, deaf, serving, until


async def test_probes_of_one_backend_never_overlap(server: Server, fetch: Fetch) -> None:
    """B109."""
    server.hangs.add("/v1/health/ready")
    pool = pool_of(server.url, health=settings.HealthCheck(interval=0.005, timeout=0.05))
    async with running(Prober((pool,), fetch)):
        await until(lambda: len(server.asked) >= 5)
    assert server.most_at_once <= 2  # the server may notice the end of one a moment late


@pytest.fixture
def silent() -> Iterator[list[str]]:
    listeners = [deaf() for _ in range(49)]
    yield [url for _, url in listeners]
    for listener, _ in listeners:
        listener.close()


async def test_backends_that_hang_do_not_hold_up_the_probes_of_another(
    server: Server, fetch: Fetch, silent: list[str]
) -> None:
    """B109."""
    pool = pool_of(*silent, server.url, health=settings.HealthCheck(interval=0.02, timeout=60.0))
    async with running(Prober((pool,), fetch)):
        await until(lambda: len(server.asked) >= 5)
    assert [backend.health for backend in pool.backends] == [Health.UNKNOWN] * 49 + [Health.UP]


async def scheduled(pool: Pool, fetch: Fetch) -> list[float]:
    """How many seconds after the start each backend is asked first."""
    numbers = iter(i / 50 for i in range(10_000))
    prober = Prober((pool,), fetch, now=lambda: 100.0, chance=lambda: next(numbers) % 1)
    async with running(prober):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return [backend.vitals.next_probe - 100.0 for backend in pool.backends]


async def test_fifty_backends_that_join_later_are_asked_spread_over_a_second(fetch: Fetch) -> None:
    """B103."""
    urls = [f"http://127.0.0.1:{port}" for port in range(1, 52)]
    check = settings.HealthCheck()
    old = pool_of(urls[0], health=check)
    old.backends[0].vitals.probed(True, 3, 2)
    old.backends[0].vitals.next_probe = 103.0
    known, *joined = await scheduled(pool_of(*urls, previous=old, health=check), fetch)
    assert known == 3.0
    assert len({round(each, 3) for each in joined[1:]}) == 49
    assert 0.9 < max(joined[1:]) <= 1.0


async def test_intervals_vary_by_a_tenth(server: Server, fetch: Fetch) -> None:
    for chance, interval in ((0.0, 4.5), (0.5, 5.0), (1.0, 5.5)):
        pool = pool_of(server.url, health=settings.HealthCheck())
        backend = pool.backends[0]
        async with running(Prober((pool,), fetch, now=lambda: 100.0, chance=lambda chance=chance: chance)):  # type: ignore[misc]
            await until(lambda backend=backend: backend.health is Health.UP)  # type: ignore[misc]
        assert backend.vitals.next_probe == pytest.approx(100.0 + interval)


async def test_a_new_run_goes_on_with_what_the_last_one_knew(server: Server, fetch: Fetch) -> None:
    old = pool_of(server.url)
    async with running(Prober((old,), fetch)):
        await until(lambda: old.backends[0].health is Health.UP)
    async with serving() as second:
        new = pool_of(server.url, second.url, previous=old)
        assert [backend.health for backend in new.backends] == [Health.UP, Health.UNKNOWN]
        async with running(Prober((new,), fetch)):
            await until(lambda: new.backends[1].health is Health.UP)


def known(*urls: str, due: float, **changes: object) -> Pool:
    """A Triton pool that was probed before, with its next probe due at that time."""
    pool = triton(*urls, **changes)
    for backend in pool.backends:
        backend.vitals.probed(True, 3, 2)
        backend.vitals.next_probe = due
        for model in backend.checked:
            backend.vitals.model_probed(model, True, 3, 2)
    return pool


async def test_a_shorter_interval_holds_from_the_reload_on(fetch: Fetch) -> None:
    old = known("http://127.0.0.1:1", due=190.0, health=settings.HealthCheck(interval=100.0))
    new = triton("http://127.0.0.1:1", previous=old, health=settings.HealthCheck(interval=5.0))
    assert await scheduled(new, fetch) == [5.0]


async def test_a_model_that_a_reload_adds_is_asked_at_once(server: Server, fetch: Fetch) -> None:
    check = settings.HealthCheck(interval=100.0)
    old = known(server.url, due=float("inf"), models=TWO[:1], health=check)
    new = triton(server.url, previous=old, health=check)
    async with running(Prober((new,), fetch)):
        await until(lambda: new.backends[0].usable("large", 0.0))


async def test_a_model_that_was_taken_out_and_put_back_has_to_show_itself_again(fetch: Fetch) -> None:
    before = known("http://127.0.0.1:1", due=190.0)
    without = triton("http://127.0.0.1:1", previous=before, models=TWO[:1])
    await scheduled(without, fetch)
    again = triton("http://127.0.0.1:1", previous=without)
    assert again.backends[0].usable("small", 0.0)
    assert not again.backends[0].usable("large", 0.0)

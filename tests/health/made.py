"""Pools of servers on loopback, and a prober that runs while a test looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway import settings
from gateway.pools.backends import Pool
from gateway.pools.health import Prober
from tests.backends.made import built, wanted

FAST = settings.HealthCheck(interval=0.02, timeout=5.0)
TWO = (settings.Model("small"), settings.Model("large", backend_name="a/large b"))


def pool_of(*urls: str, previous: Pool | None = None, **changes: Any) -> Pool:
    return built(wanted(backends=tuple(map(settings.BackendAddress, urls)), **{"health": FAST, **changes}), previous)


def triton(*urls: str, **changes: Any) -> Pool:
    return pool_of(*urls, **{"protocols": ("kserve",), "models": TWO, **changes})


@asynccontextmanager
async def running(prober: Prober) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(prober.run())
        try:
            yield
        finally:
            task.cancel()

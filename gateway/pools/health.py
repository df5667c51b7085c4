"""Ask backends again and again whether they are ready, and turn what they say into health.

Knows: when to ask, which answers count. Must not know: how a backend is asked, balancing, ejection, callers. The state
is in `Backend.vitals`: a run may be cancelled and another started, with other pools, without losing any of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping

from gateway import settings
from gateway.fetch import Fetch
from gateway.pools.backends import Backend, Pool
from gateway.pools.readiness import Readiness, Seen, ask
from gateway.pools.vitals import Health

log = logging.getLogger(__name__)

#: Intervals vary by this share, so that many backends (and many gateways) do not ask in step.
JITTER = 0.1
#: Seconds over which each backend that joins later stretches the first round: 50 of them are asked within one second.
SPREAD = 0.02


class Prober:
    """Asks every backend of `pools`, each on its own clock. `on_change` is told of each backend whose health changed.

    `now` is monotonic seconds; `chance` gives numbers from 0 to 1.
    """

    def __init__(
        self,
        pools: tuple[Pool, ...],
        fetch: Fetch,
        now: Callable[[], float] = time.monotonic,
        on_change: Callable[[Backend], None] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._pools = pools
        self._fetch = fetch
        self._now = now
        self._on_change = on_change
        self._chance = chance

    async def run(self) -> None:
        """Probe until cancelled: one task a backend, so that none waits for another and none is asked twice at once."""
        async with asyncio.TaskGroup() as group:
            for pool, backend in self._scheduled():
                group.create_task(self._watch(pool, backend), name=f"probe {backend.name}")

    def _scheduled(self) -> list[tuple[Pool, Backend]]:
        """Every backend with its first probe set: at once at start-up, spread for those that join later."""
        both = [(pool, backend) for pool in self._pools for backend in pool.backends]
        fresh = [backend for _, backend in both if _is_new(backend)]
        joining = len(fresh) < len(both)
        now = self._now()
        for pool, backend in both:
            vitals, interval = backend.vitals, pool.settings.health.interval
            vitals.forget_models(backend.checked)
            if _is_new(backend):
                vitals.next_probe = now + (self._chance() * min(interval, SPREAD * len(fresh)) if joining else 0.0)
            else:
                vitals.next_probe = min(vitals.next_probe, now + interval)
        return both

    async def _watch(self, pool: Pool, backend: Backend) -> None:
        interval = pool.settings.health.interval
        while True:
            await asyncio.sleep(max(0.0, backend.vitals.next_probe - self._now()))
            swing = 1 + JITTER * (2 * self._chance() - 1)
            backend.vitals.next_probe = self._now() + interval * swing
            await self.probe(pool, backend)

    async def probe(self, pool: Pool, backend: Backend) -> None:
        """Ask one backend once, and judge what came: at most twice the probe's time-out."""
        check, began = pool.settings.health, self._now()
        seen = await ask(self._fetch, pool.settings, backend)
        if not seen.server.asked:
            return
        busy = backend.vitals.last_success >= began - check.interval
        changed = self._judge_models(check, backend, seen.models, busy)
        if self._judge(check, backend, seen, busy):
            changed = True
        if changed and self._on_change is not None:
            self._on_change(backend)

    def _judge(self, check: settings.HealthCheck, backend: Backend, seen: Readiness, busy: bool) -> bool:
        if seen.server.slow and busy:
            return False
        good = seen.serving
        if not backend.vitals.probed(good, check.fall, check.rise):
            return False
        if good:
            log.info("backend_up pool=%s backend=%s", backend.pool, backend.name)
        else:
            log.warning("backend_down pool=%s backend=%s because=%r", backend.pool, backend.name, seen.server.why)
        return True

    def _judge_models(
        self, check: settings.HealthCheck, backend: Backend, models: Mapping[str, Seen], busy: bool
    ) -> bool:
        changed = False
        for model, seen in models.items():
            if not seen.asked or (seen.slow and busy):
                continue
            if backend.vitals.model_probed(model, seen.ready, check.fall, check.rise):
                changed = True
                word = "model_ready" if seen.ready else "model_not_ready"
                level = logging.INFO if seen.ready else logging.WARNING
                facts = (word, backend.pool, backend.name, model, seen.why)
                log.log(level, "%s pool=%s backend=%s model=%s because=%r", *facts)
        return changed


def servable(pools: Iterable[Pool]) -> dict[str, dict[str, bool]]:
    """For each pool, which of its models some backend serves by its probes; an ejection never empties a pool."""
    return {
        pool.name: {
            model.name: any(backend.serves(model.name) for backend in pool.backends) for model in pool.settings.models
        }
        for pool in pools
    }


def _is_new(backend: Backend) -> bool:
    """True when it, or one of its models, was never probed."""
    return backend.health is Health.UNKNOWN or (
        backend.health is Health.UP and not backend.vitals.knows(backend.checked)
    )

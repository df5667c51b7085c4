"""Ask backends whether they are ready, and turn what they say into health.

Knows: readiness paths, when to ask, what counts as an answer. Must not know: balancing, ejection, callers. The state is
in `Backend.vitals`: a run may be cancelled and another started, with other pools, without losing any of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from gateway import settings
from gateway.fetch import Fetch, FetchFailed
from gateway.pools.backends import Backend, Pool
from gateway.pools.vitals import Health

log = logging.getLogger(__name__)

KSERVE_READY = "/v2/health/ready"
NIM_READY = "/v1/health/ready"

#: Intervals vary by this share, so that many backends (and many gateways) do not ask in step.
JITTER = 0.1
#: Seconds over which each backend that joins later stretches the first round: 50 of them are asked within one second.
SPREAD = 0.02
#: Only the status matters; a readiness page beyond this is not one.
BODY_LIMIT = 64 * 1024
#: Models of one server asked at the same time: a server with hundreds must not see hundreds of connections at once.
MODELS_AT_ONCE = 8
#: The client's own limit, in seconds beyond ours: ours must fire first, since it tells slow from unreachable.
GRACE = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What one question brought: `ready`; else whether the server `answered`, or was `slow`; `why` for the log."""

    ready: bool
    answered: bool
    slow: bool
    why: str


_SLOW = Seen(ready=False, answered=False, slow=True, why="no answer in time")


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
        server = await self._ask(backend, ready_path(pool.settings), check.timeout)
        models: Mapping[str, Seen] = {}
        if server.answered and backend.checked:
            models = await self._ask_models(pool, backend)
        busy = backend.vitals.last_success >= began - check.interval
        changed = self._judge_models(check, backend, models, busy)
        if self._judge(check, backend, server, any(seen.ready for seen in models.values()), busy):
            changed = True
        if changed and self._on_change is not None:
            self._on_change(backend)

    def _judge(self, check: settings.HealthCheck, backend: Backend, seen: Seen, serving: bool, busy: bool) -> bool:
        """The server as a whole. One with a ready model is up: strict readiness says no for the sake of any other."""
        if seen.slow and busy:
            return False
        good = seen.ready or serving
        if not backend.vitals.probed(good, check.fall, check.rise):
            return False
        if good:
            log.info("backend_up pool=%s backend=%s", backend.pool, backend.name)
        else:
            log.warning("backend_down pool=%s backend=%s because=%r", backend.pool, backend.name, seen.why)
        return True

    def _judge_models(
        self, check: settings.HealthCheck, backend: Backend, models: Mapping[str, Seen], busy: bool
    ) -> bool:
        changed = False
        for model, seen in models.items():
            if seen.slow and busy:
                continue
            if backend.vitals.model_probed(model, seen.ready, check.fall, check.rise):
                changed = True
                word = "model_ready" if seen.ready else "model_not_ready"
                level = logging.INFO if seen.ready else logging.WARNING
                facts = (word, backend.pool, backend.name, model, seen.why)
                log.log(level, "%s pool=%s backend=%s model=%s because=%r", *facts)
        return changed

    async def _ask_models(self, pool: Pool, backend: Backend) -> Mapping[str, Seen]:
        """Each configured model's own readiness, in one time-out for all; those that were not reached count as slow."""
        seen = dict.fromkeys((model.name for model in pool.settings.models), _SLOW)
        gate = asyncio.Semaphore(MODELS_AT_ONCE)
        timeout = pool.settings.health.timeout

        async def ask(model: settings.Model) -> None:
            name = quote(model.backend_name or model.name, safe="")
            async with gate:
                seen[model.name] = await self._ask(backend, f"/v2/models/{name}/ready", timeout)

        try:
            async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
                for model in pool.settings.models:
                    group.create_task(ask(model))
        except TimeoutError:
            pass
        return seen

    async def _ask(self, backend: Backend, path: str, timeout: float) -> Seen:  # noqa: ASYNC109  it is the setting
        url = f"{backend.scheme}://{backend.authority.decode()}{backend.base_path.decode()}{path}"
        fields = () if backend.credential is None else (backend.credential,)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._fetch.get(
                    url, timeout=timeout + GRACE, limit=BODY_LIMIT, fields=fields, tls=backend.tls
                )
        except TimeoutError:
            return _SLOW
        except FetchFailed as failed:
            return Seen(ready=False, answered=False, slow=False, why=str(failed))
        return Seen(200 <= answer.status < 300, answered=True, slow=False, why=f"status {answer.status}")


def ready_path(pool: settings.Pool) -> str:
    """Where a backend of this pool says whether it is ready."""
    return pool.health.path or (KSERVE_READY if "kserve" in pool.protocols else NIM_READY)


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

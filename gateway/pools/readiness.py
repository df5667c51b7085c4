"""Ask one backend whether it is ready, the way calls reach it: address, credential, TLS, name of the certificate.

Knows: readiness paths, what counts as ready. Must not know: when to ask, what follows from an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from gateway import settings
from gateway.fetch import Fetch, FetchFailed
from gateway.pools.backends import Backend

KSERVE_READY = "/v2/health/ready"
NIM_READY = "/v1/health/ready"

#: Only the status matters; a readiness page beyond this is not one.
BODY_LIMIT = 64 * 1024
#: Models of one server asked at the same time: a server with hundreds must not see hundreds of connections at once.
MODELS_AT_ONCE = 8
#: The client's own limit, in seconds beyond ours: ours must fire first, since it tells slow from unreachable.
GRACE = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What one question brought: `ready`; else whether the server `answered`, or was `slow`; `why` for the log.

    `asked` is False where nothing was left here to ask it with.
    """

    ready: bool
    answered: bool
    slow: bool
    why: str
    asked: bool = True


_SLOW = Seen(ready=False, answered=False, slow=True, why="no answer in time")


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a backend said of itself, and of each configured model where it is asked for them one by one."""

    server: Seen
    models: Mapping[str, Seen]

    @property
    def serving(self) -> bool:
        """True for one with a ready model as well: strict readiness says no for the sake of any other."""
        return self.server.ready or any(seen.ready for seen in self.models.values())


def ready_path(pool: settings.Pool) -> str:
    """Where a backend of this pool says whether it is ready."""
    return pool.health.path or (KSERVE_READY if "kserve" in pool.protocols else NIM_READY)


async def ask(fetch: Fetch, pool: settings.Pool, backend: Backend) -> Readiness:
    """Ask `backend` of `pool` once: at most twice the probe's time-out. Never fails."""
    server = await _ask(fetch, backend, ready_path(pool), pool.health.timeout)
    models = await _ask_models(fetch, pool, backend) if server.answered and backend.checked else {}
    return Readiness(server, models)


async def _ask_models(fetch: Fetch, pool: settings.Pool, backend: Backend) -> Mapping[str, Seen]:
    """Each configured model's own readiness, in one time-out for all; those that were not reached count as slow."""
    seen = dict.fromkeys((model.name for model in pool.models), _SLOW)
    gate = asyncio.Semaphore(MODELS_AT_ONCE)
    timeout = pool.health.timeout

    async def one(model: settings.Model) -> None:
        name = quote(model.backend_name or model.name, safe="")
        async with gate:
            seen[model.name] = await _ask(fetch, backend, f"/v2/models/{name}/ready", timeout)

    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            for model in pool.models:
                group.create_task(one(model))
    except TimeoutError:
        pass
    return seen


async def _ask(fetch: Fetch, backend: Backend, path: str, timeout: float) -> Seen:  # noqa: ASYNC109  it is the setting
    url = f"{backend.scheme}://{backend.authority.decode()}{backend.base_path.decode()}{path}"
    fields = () if backend.credential is None else (backend.credential,)
    try:
        async with asyncio.timeout(timeout):
            answer = await fetch.get(
                url,
                timeout=timeout + GRACE,
                limit=BODY_LIMIT,
                fields=fields,
                tls=backend.tls,
                server_name=backend.server_name,
            )
    except TimeoutError:
        return _SLOW
    except FetchFailed as failed:
        return Seen(ready=False, answered=False, slow=False, why=str(failed), asked=not failed.ours)
    return Seen(200 <= answer.status < 300, answered=True, slow=False, why=f"status {answer.status}")

"""Pools for tests: built as the gateway builds them, from settings."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import Any

from gateway import settings
from gateway.pools.backends import Backend, Pool, build_pools


def client_context(_: settings.ClientTls | None) -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def wanted(count: int = 3, weights: tuple[int, ...] = (), **changes: Any) -> settings.Pool:
    """Settings of the pool `p` with backends 10.0.0.0:8000 onwards and the model `m`."""
    weighed = weights or (1,) * count
    addresses = tuple(settings.BackendAddress(f"http://10.0.0.{i}:8000", weight) for i, weight in enumerate(weighed))
    pool = settings.Pool("p", ("openai",), (settings.Model("m"),), addresses)
    return replace(pool, **changes)


def built(pool: settings.Pool, previous: Pool | None = None) -> Pool:
    return build_pools((pool,), None if previous is None else (previous,), client_context)[0]


def up(count: int = 3, weights: tuple[int, ...] = (), **changes: Any) -> Pool:
    """A pool whose backends were all probed and found ready, with all their models."""
    pool = built(wanted(count, weights, **changes))
    for backend in pool.backends:
        backend.vitals.probed(True, 3, 2)
        for model in backend.checked:
            backend.vitals.model_probed(model, True, 3, 2)
    return pool


def candidates(pool: Pool, model: str, now: float) -> list[Backend]:
    """Who is tried for a call that fails everywhere, in order."""
    first = pool.first(model, now)
    return [] if first is None else [first, *pool.rest(model, now, first)]


def names(pool: Pool, now: float, model: str = "m") -> list[str]:
    """Last number of each candidate's address, in order."""
    return [backend.host.rpartition(".")[2] for backend in candidates(pool, model, now)]

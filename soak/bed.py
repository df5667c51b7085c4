"""Everything that is up during a soak: provider, backends of every kind, the gateway before them, all in one folder.

Knows: what is started and in which order. Must not know: actors, measurements.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gateway import devcerts
from gateway.devcerts import Paths
from soak import backends
from soak.operators import NOBODY, SPARE
from soak.site import ECHO, GOOD, ILL, KEEP_ALIVE, LLAMA, SIMULATED, TENSOR, Site
from soak.tokens import GROUP, Tokens
from tests.parts.client import trusting
from tests.parts.gateway import Config, Gateway, allow, oidc, pool
from tests.parts.llama import HEALTH, Llama
from tests.parts.process import PARTS, PARTS_PYTHON, ServerProcess, wait_until
from tests.parts.triton import Triton

#: Short, so that what is left behind is gone soon; those that a busy machine could hit are set longer at the pools.
TIMEOUTS = {
    "header": "5s",
    "connect": "2s",
    "first_byte": "30s",
    "idle": "5s",
    "write": "4s",
    "keep_alive": f"{KEEP_ALIVE:.0f}s",
    "pre_stop": "100ms",
    "drain": "10s",
}
GENEROUS = {"idle": "30s"}
#: Backends that stall are given up soon.
HASTY = {"first_byte": "1s", "idle": "1s"}
RULES = [allow("soakers", ["soak/*", TENSOR, ECHO], subjects={"groups": [GROUP]})]


@dataclass(frozen=True, slots=True)
class Bed:
    """`ports`: those of the backends, which the gateway's connections lead to."""

    gateway: Gateway
    site: Site
    certificates: tuple[Paths, Paths]
    ports: frozenset[int]


@asynccontextmanager
async def made(folder: Path, chance: Random, *, real: bool) -> AsyncIterator[Bed]:
    """Start everything; at the end the gateway is drained, and must not have written a traceback."""
    async with AsyncExitStack() as stack:
        tokens = Tokens()
        await stack.enter_async_context(tokens.provider)
        first, second = await asyncio.to_thread(_certificates, folder)
        shown = Paths(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
        shutil.copy(first.certificate, shown.certificate)
        shutil.copy(first.key, shown.key)
        shown.ca.write_bytes(first.ca.read_bytes() + second.ca.read_bytes())
        pools = await asyncio.to_thread(_pools, stack.enter_context(ExitStack()), folder, chance, real)
        issuers = [oidc(tokens.provider.issuer, algorithms=["ES256", "RS256"], cooldown="1s", refresh="5s")]
        gateway = Gateway(
            folder, shown, issuers, pools, RULES, start=False,
            limits={"timeouts": TIMEOUTS}, audit={"file": str(folder / "audit.jsonl")},
        )  # fmt: skip
        stack.push_async_callback(asyncio.to_thread, gateway.end)
        await asyncio.to_thread(_start, gateway, pools)
        engines = frozenset(name for one in pools for name in (LLAMA, ECHO) if {"name": name} in one["models"])
        ports = frozenset(int(each["url"].rpartition(":")[2]) for one in pools for each in one["backends"])
        yield Bed(gateway, Site(gateway.port, trusting(shown.ca), tokens, engines), (first, second), ports)


def _certificates(folder: Path) -> tuple[Paths, Paths]:
    return devcerts.make(folder / "certificates-1"), devcerts.make(folder / "certificates-2")


def _pools(stack: ExitStack, folder: Path, chance: Random, real: bool) -> list[Config]:
    good = [stack.enter_context(backends.stub(backends.well)).url for _ in range(2)]
    tensor = stack.enter_context(backends.stub(backends.tensor)).url
    ill = [stack.enter_context(backends.stub(backends.ill(Random(chance.random())))).url for _ in range(3)]
    nim = ServerProcess(
        [sys.executable, "-m", "gateway", "simulate", "nim", "--port", "0", "--model", SIMULATED], folder, name="nim"
    )
    stack.callback(nim.stop)
    pools = [
        pool("good", [GOOD], *good, balance="least_connections", **GENEROUS),
        _kserve("tensors", TENSOR, tensor),
        pool("ill", [ILL], *ill, **HASTY),
        pool("simulated", [SIMULATED], _said_url(nim), **GENEROUS),
        pool(SPARE, ["more/0/model"], NOBODY),
    ]
    return [*pools, *_real(stack, folder)] if real else pools


def _kserve(name: str, model: str, url: str) -> Config:
    return pool(name, [model], url, protocols=["kserve"], health={"path": "/v2/health/ready"}, **GENEROUS)


def _said_url(process: ServerProcess) -> str:
    wait_until(lambda: "ready at" in process.stdout.read_text(), 60, "the simulated NIM")
    (url,) = re.findall(r"http://\S+", process.stdout.read_text())
    return str(url)


def _real(stack: ExitStack, folder: Path) -> list[Config]:
    """Pools of the real servers that `make parts` has installed here."""
    pools = []
    if PARTS_PYTHON.exists() and (PARTS / "tiny.gguf").exists():
        engine = Llama(folder)
        stack.callback(engine.stop)
        pools.append(pool("llama", [LLAMA], engine.url, health=HEALTH, **GENEROUS))
    if PARTS_PYTHON.exists() and (PARTS / "tritonserver").exists():
        server = Triton(folder)
        stack.callback(server.stop)
        pools.append(_kserve("triton", ECHO, server.url))
    return pools


def _start(gateway: Gateway, pools: list[Config]) -> None:
    gateway.start()
    for one in (each for each in pools if each["name"] != SPARE):
        gateway.backends_up(one["name"], len(one["backends"]), 60)

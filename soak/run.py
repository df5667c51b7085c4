"""A soak from start to verdict: warm up, measure, let everybody loose, wait until all is quiet, measure again.

Knows: the order, the clock. Must not know: what actors do, what is measured.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from soak import bed
from soak.bed import RULES, Bed
from soak.callers import CALLERS, REAL, Act
from soak.gauges import Gauges, Reading, rows, table
from soak.operators import WORKS, Operator
from soak.site import Actor
from soak.spoilers import SPOILERS
from soak.tally import Tally

ACT_LIMIT = 120.0  # seconds that one act may take; more is a call that hangs
REPORT_EVERY = 10.0
SAMPLE_EVERY = 0.5  # seconds between two looks at resident memory
SETTLE_LIMIT = 40.0  # seconds until all is quiet: the longest limits the gateway was given, and room for a busy machine
SETTLE_WINDOW = 3.0
PAUSE_BETWEEN_WORKS = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds of warm-up and of the soak itself, the seed, who takes part, and where files stay, if they do."""

    warm_up: float
    seconds: float
    seed: int
    real: bool
    only: tuple[str, ...] = ()
    folder: Path | None = None

    def wants(self, name: str) -> bool:
        """Whether this actor takes part."""
        return not self.only or any(word in name for word in self.only)


def say(text: str) -> None:
    print(text, flush=True)


async def soak(plan: Plan) -> int:
    """0 when all came back to where it was and nobody got what he must not get, else 1."""
    say(f"soak of {plan.seconds:g} s, seed {plan.seed} (repeat with SOAK_SEED={plan.seed})")
    with tempfile.TemporaryDirectory(prefix="nim-gateway-soak-") as temporary:
        async with bed.made(plan.folder or Path(temporary), Random(plan.seed), real=plan.real) as made:
            gauges = Gauges(made.gateway, made.ports)
            tally = Tally()
            chance = Random(f"{plan.seed}/operator")
            operator = Operator(made.gateway, made.site.tokens, RULES, made.certificates, chance)
            await _Traffic(made, operator, tally, gauges, plan, f"{plan.seed}/warm-up").run(plan.warm_up)
            before = await asyncio.to_thread(gauges.settled, SETTLE_LIMIT, SETTLE_WINDOW)
            traffic = _Traffic(made, operator, tally, gauges, plan, f"{plan.seed}")
            await traffic.run(plan.seconds)
            after = await asyncio.to_thread(gauges.settled, SETTLE_LIMIT, SETTLE_WINDOW)
    return _verdict(before, after, traffic.memory, tally)


def _verdict(before: Reading, after: Reading, memory: list[float], tally: Tally) -> int:
    # asyncio's own pool for blocking work; a thread of it stays once it was needed.
    threads = min(32, (os.cpu_count() or 1) + 4)
    found = rows(before, after, threads, memory)
    for line in tally.lines():
        say(f"  {line}")
    say(table(found))
    for line in tally.told:
        say(f"unexpected: {line}")
    faults = sum(bool(row.fault) for row in found)
    good = not faults and not tally.wrong
    say(f"{tally.acts} acts, {tally.wrong} unexpected, {faults} not level: {'passed' if good else 'FAILED'}")
    return 0 if good else 1


class _Traffic:
    """All actors at once, for so many seconds."""

    def __init__(self, made: Bed, operator: Operator, tally: Tally, gauges: Gauges, plan: Plan, seed: str) -> None:
        self._bed, self._operator, self._tally, self._gauges = made, operator, tally, gauges
        self._plan, self._seed = plan, seed
        self._until = 0.0
        self._acting: Counter[str] = Counter()
        self.memory: list[float] = []

    async def run(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self._watch())
            async with asyncio.TaskGroup() as actors:
                for name, act, count, pause in self._cast():
                    for number in range(count):
                        actors.create_task(self._play(f"{name} {number}", name, act, pause))
                actors.create_task(self._operate())
            watcher.cancel()

    def _cast(self) -> list[tuple[str, Act, int, float]]:
        cast = [(name, act, count, pause) for name, (act, count, pause) in (CALLERS | SPOILERS).items()]
        there = self._bed.site.real
        cast += [(name, act, count, pause) for name, (model, act, count, pause) in REAL.items() if model in there]
        return [row for row in cast if self._plan.wants(row[0])]

    async def _play(self, name: str, role: str, act: Act, pause: float) -> None:
        chance = Random(f"{self._seed}/{name}")
        site = self._bed.site
        actor = Actor(name, site, chance, site.tokens.good(name))
        await asyncio.sleep(chance.random())
        while time.monotonic() < self._until:
            await self._count(role, partial(act, actor))
            await asyncio.sleep(chance.expovariate(1 / pause))
        actor.end()

    async def _operate(self) -> None:
        operator = self._operator
        while time.monotonic() < self._until:
            for name in operator.chance.sample(list(WORKS), len(WORKS)):
                if time.monotonic() < self._until and self._plan.wants(f"operator, {name}"):
                    await self._count(f"operator, {name}", partial(WORKS[name], operator))
                await asyncio.sleep(PAUSE_BETWEEN_WORKS)

    async def _count(self, role: str, act: Callable[[], Awaitable[str]]) -> None:
        self._acting[role] += 1
        try:
            async with asyncio.timeout(ACT_LIMIT):
                self._tally.ended(role, await act())
        except Exception as error:  # noqa: BLE001  whatever it is, it is told at the end, and the soak goes on
            self._tally.went_wrong(role, error)
        finally:
            self._acting[role] -= 1

    async def _watch(self) -> None:
        began = reported = time.monotonic()
        while True:
            await asyncio.sleep(SAMPLE_EVERY)
            reading = await asyncio.to_thread(self._gauges.read)
            self.memory.append(reading["resident MiB"])
            if time.monotonic() - reported >= REPORT_EVERY:
                reported = time.monotonic()
                self._report(reported - began, reading)

    def _report(self, since: float, reading: Reading) -> None:
        tally = self._tally
        say(
            f"{since:6.0f} s  {tally.acts} acts, {tally.refused} not 200 by rights, {tally.wrong} unexpected; "
            f"{reading['resident MiB']:.1f} MiB, {reading['descriptors']:.0f} descriptors, "
            f"{reading['tasks']:.0f} tasks, {reading['calls in flight']:.0f} in flight"
            + (f"; waiting for {', '.join(sorted(+self._acting))}" if time.monotonic() > self._until else "")
        )

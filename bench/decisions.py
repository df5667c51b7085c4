"""`python -m bench.decisions`: how long the rules take to decide, by how many there are and what they hang on.

Each call is timed by itself: which rules hold now for its address, and the decision. One that was decided before asks
the memory of decisions; an unseen one is of a caller, an address and a model that were never asked for. The clock that
the rules see goes on by a second per call, so that minutes begin as they would.
Knows: what is measured and the page. Must not know: how rules decide.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import product
from pathlib import Path
from typing import Any

from bench.figures import quantile, short
from bench.report import table
from gateway.call import ModelRef, Operation, Principal
from gateway.policy.conditions import Window
from gateway.policy.engine import Policy
from gateway.policy.rules import Effect, Rule

PAGE = Path(__file__).with_name("decisions.md")
COUNTS = (10, 100, 1000)
CALLS = 20_000
LIMIT = 100.0  # µs: the goal for the 99th percentile of unseen ones
BEGIN = 1_796_126_400.0  # UNIX time that the rules see first: a Tuesday, noon in UTC
ZONES = ("UTC", "Europe/Madrid", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")

#: What the caller waits for: UNIX time, address, who, what.
Ask = Callable[[float, str, Principal, ModelRef], object]


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of each call, by kind."""

    rules: int
    conditional: bool
    unseen: list[float]
    remembered: list[float]


def main(given: Sequence[str]) -> int:
    """Print the page, write it with `--write`; 0 when the goal is met, 1 when not."""
    parser = argparse.ArgumentParser("python -m bench.decisions", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(given)
    rows = [measured(count, conditional=conditional) for conditional, count in product((False, True), COUNTS)]
    missed = misses(rows)
    page = written(rows, missed)
    print(page)
    if options.write:
        PAGE.write_text(page)
    return 1 if missed else 0


def made(count: int, *, conditional: bool) -> list[Rule]:
    """Rules for teams of which every caller is in three; each seventh denies. With conditions each has its own."""
    return [
        Rule(
            id=f"r{n}",
            file="p.yaml",
            line=n + 1,
            effect=Effect.DENY if n % 7 == 6 else Effect.ALLOW,
            models=(f"org{n % 9}/model-{n}", f"org{n % 9}/*-{n % 10}"),
            groups=frozenset({f"team{n}", f"floor{n % 40}"}),
            **(_conditions(n) if conditional else {}),
        )
        for n in range(count)
    ]


def _conditions(n: int) -> dict[str, Any]:
    window = Window(ZONES[n % len(ZONES)], frozenset({n % 7, (n + 1) % 7, (n + 2) % 7}), n % 1440, (n + 700) % 1440 + 1)
    texts = (f"10.{n // 256}.{n % 256}.0/{24 + n % 9}", f"10.0.0.0/{8 + n % 5}", f"2001:db8:{n:x}::/48")
    return {"window": window, "networks": tuple(ip_network(text, strict=False) for text in texts)}


def measured(count: int, *, conditional: bool) -> Row:
    """One policy, asked by callers it never saw, then again by one."""
    policy = Policy(made(count, conditional=conditional))

    def ask(at: float, peer: str, who: Principal, what: ModelRef) -> bool:
        return policy.may(who, what, policy.holding(at, peer))

    unseen, remembered = [], []
    gc.collect()
    for number in range(CALLS):
        (at, peer), who, what = _where(number), _caller(number, count), _model(number)
        unseen.append(_timed(ask, at, peer, who, what))
        # As a kept connection does: the same values again, a moment later.
        remembered.append(_timed(ask, at, peer, who, what))
    return Row(count, conditional, unseen, remembered)


def _caller(number: int, count: int) -> Principal:
    groups = {f"team{number % count}", f"team{number * 7 % count}", f"floor{number % 40}", "staff", "everybody"}
    return Principal(f"user-{number}", "https://idp.test", "corp", frozenset(groups), client="app")


def _model(number: int) -> ModelRef:
    return ModelRef(f"org{number % 9}/model-{number % 1999}", Operation.INFER)


def _where(number: int) -> tuple[float, str]:
    return BEGIN + number, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _timed(ask: Ask, at: float, peer: str, who: Principal, what: ModelRef) -> float:
    begin = time.perf_counter_ns()
    ask(at, peer, who, what)
    return (time.perf_counter_ns() - begin) / 1000


def misses(rows: Sequence[Row]) -> list[str]:
    """The goals that were not reached."""
    return [
        f"{row.rules} rules{' with conditions' if row.conditional else ''}: p99 of unseen ones is {short(slow)} µs"
        for row in rows
        if (slow := quantile(row.unseen, 0.99)) > LIMIT
    ]


def written(rows: Sequence[Row], missed: Sequence[str]) -> str:
    """The page."""
    cells = [
        [str(row.rules), "yes" if row.conditional else "no", _quantiles(row.unseen), _quantiles(row.remembered)]
        for row in rows
    ]
    verdict = "\n".join(f"- **missed**: {what}" for what in missed) or "- met"
    return f"""# Decisions

Written by `python -m bench.decisions --write`. Times are p50 / p99 / greatest, in microseconds.

- date: {time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
- machine: {os.cpu_count()} cores, Linux {platform.release()}; load average {os.getloadavg()[0]:.2f}
- Python {platform.python_version()}; the checkout, not compiled
- {CALLS} callers, each with an address and five groups of their own, one second after the other

{table(["rules", "with `when` and `from`", "unseen (µs)", "remembered (µs)"], cells)}

With conditions every rule has hours of its own, in one of {len(ZONES)} zones, and three networks of its own.

Goal: p99 of unseen ones at most {LIMIT:.0f} µs.

{verdict}
"""


def _quantiles(values: Sequence[float]) -> str:
    return f"{short(quantile(values, 0.5))} / {short(quantile(values, 0.99))} / {short(max(values))}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What is looked at before and after: memory, descriptors, threads, tasks, calls, connections, caches; and the verdict.

Knows: /proc, the names of metrics, what may differ and why. Must not know: what went on between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.parts.gateway import Gateway

MIB = 1024 * 1024
TIME_WAIT = "06"  # the kernel's, no longer of any process
LISTEN = "0A"

#: MiB of resident memory from the third quarter of the soak to the fourth. Caches have filled by then or are forgotten
#: at each reload; what remains is the noise of the allocator and of bodies under way.
CREEP = 8.0
#: MiB from the first measurement to the last: what the bounded caches may hold (30 of tokens, a few of decisions) and
#: what the allocator keeps of the busiest moment.
GROWTH = 64.0
#: Entries that a cache may hold; `gateway_cache_entries` is never above.
CACHE_LIMIT = 10_000

#: What has to be over before anything is compared.
QUIET = ("client connections", "calls in flight", "backend connections")

Reading = dict[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what it is, before and after, and what may not be."""

    what: str
    before: float
    after: float
    fault: str = ""


class Gauges:
    """Reads one gateway. `ports`: those of its backends."""

    def __init__(self, gateway: Gateway, ports: Iterable[int]) -> None:
        self._gateway = gateway
        self._ports = frozenset(ports)

    def read(self) -> Reading:
        """Everything now."""
        process, samples = self._gateway.process, self._gateway.samples()

        def total(name: str, **labels: str) -> float:
            return sum(value for have, value in samples.get(name, []) if labels.items() <= have.items())

        status = Path(f"/proc/{process.pid}/status").read_text()
        return {
            "resident MiB": process.resident_bytes() / MIB,
            "descriptors": process.open_files(),
            "threads": float(next(line.split()[1] for line in status.splitlines() if line.startswith("Threads:"))),
            "tasks": total("gateway_tasks"),
            "calls in flight": total("gateway_in_flight_requests"),
            "calls on backends": total("gateway_backend_in_flight_requests"),
            "client connections": total("gateway_connections"),
            "backend connections": self._backend_connections(process.pid),
            "tokens remembered": total("gateway_cache_entries", cache="tokens"),
            "decisions remembered": total("gateway_cache_entries", cache="decisions"),
        }

    def _backend_connections(self, pid: int) -> int:
        """The kernel's count, so that one that the gateway has forgotten counts as well."""
        rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        gone = (TIME_WAIT, LISTEN)
        return sum(int(row[2].rpartition(":")[2], 16) in self._ports and row[3] not in gone for row in rows)

    def settled(self, limit: float, window: float) -> Reading:
        """The least of each over `window` seconds, once no connection is left or `limit` seconds are over.

        The least, because probes of backends and fetches of keys come and go.
        """
        until = time.monotonic() + limit
        while time.monotonic() < until and any(self.read()[name] for name in QUIET):
            time.sleep(0.2)
        return least(self.read, window)


def least(read: Callable[[], Reading], window: float) -> Reading:
    """The least of each over so many seconds."""
    found = read()
    until = time.monotonic() + window
    while time.monotonic() < until:
        time.sleep(0.1)
        now = read()
        found = {name: min(value, now[name]) for name, value in found.items()}
    return found


def rows(before: Reading, after: Reading, threads: int, memory: Sequence[float]) -> list[Row]:
    """The table. `threads`: those that a pool may have started by the end; `memory`: MiB, sampled evenly."""
    table = []
    for name, value in after.items():
        was = before[name]
        fault = "not where it was" if value != was else ""
        if name == "resident MiB":
            fault = f"grew by more than {GROWTH:g}" if value - was > GROWTH else ""
        elif name == "threads":
            fault = f"more than {threads} more" if value - was > threads else ""
        elif name.endswith("remembered"):
            fault = f"above {CACHE_LIMIT}" if value > CACHE_LIMIT else ""
        table.append(Row(name, was, value, fault))
    third, fourth = quarters(memory)
    creep = f"crept by more than {CREEP:g}" if fourth - third > CREEP else ""
    return [*table, Row("resident MiB, third and fourth quarter", third, fourth, creep)]


def quarters(memory: Sequence[float]) -> tuple[float, float]:
    """The medians of the third and of the fourth quarter."""
    size = max(1, len(memory) // 4)
    return median(memory[-2 * size : -size] or memory), median(memory[-size:])


def table(lines: Iterable[Row]) -> str:
    """For people."""
    shown = [("what", "start", "end", "verdict")]
    shown += [(row.what, f"{row.before:.5g}", f"{row.after:.5g}", row.fault or "level") for row in lines]
    widths = [max(len(line[column]) for line in shown) for column in range(4)]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in shown)

"""What is measured: five sections, each a function from test bed and size of the run to measures.

In each round every server is measured once, one after the other, so that a ratio compares neighbours in time.
Knows: loads, servers, what to divide by what. Must not know: goals, how results are printed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import uvloop

from bench import steady, streams, uploads
from bench.bed import Bed, Target
from bench.figures import Measure, Rounds, quantile
from bench.load import flat_out
from bench.process import Running
from bench.work import CHAT_PATH, TENSOR_PATH, chat_body, request, stream_body

MIB = 1024 * 1024
KIB = 1024
SHAKY = "above about 2 ms the machine was too busy for the latencies to mean anything"
BUNCHED = "well above 1 the machine was too busy to keep the pace, and every server looks cheaper than it is"
WARM_UP = 3.0  # seconds: the slowest peer answers its first calls after two
RATE_LIMIT = 8000.0  # calls a second that the generator sends without being late itself


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything. Times in seconds."""

    rounds: int = 5
    few_rounds: int = 3
    calls: float = 3
    streams: int = 200
    window: float = 3
    rate: float = 2
    busy_streams: int = 500
    probes: int = 200
    idle: int = 5000
    open: int = 2000
    tensor: int = 64 * MIB
    at_once: int = 8


FULL = Size()
QUICK = Size(
    rounds=2,
    few_rounds=1,
    calls=1,
    window=1.5,
    rate=1,
    probes=80,
    idle=500,
    open=300,
    busy_streams=200,
    tensor=16 * MIB,
)
Say = Callable[[str], None]


def _tls(bed: Bed, target: Target) -> ssl.SSLContext | None:
    if target.running is None or not target.tls:
        return None
    return ssl.create_default_context(cafile=str(bed.folder / "tls.crt"))


def _process(target: Target) -> Running:
    if target.running is None:
        raise ValueError("the direct call has no server to measure")
    return target.running


def _turns(rounds: int, targets: Iterable[Target], say: Say, what: str) -> Iterable[Target]:
    """Each target once a round, with a word about progress."""
    order = list(targets)
    for number in range(rounds):
        for target in order:
            say(f"{what}: round {number + 1} of {rounds}, {target.name}")
            yield target


def calls(bed: Bed, names: Sequence[str], size: Size, say: Say) -> list[Measure]:
    """JSON calls as fast as they go: CPU a call, and how many."""
    kept = Rounds()
    with bed.serving(names) as targets:
        for target in targets.values():
            flat_out(bed, target, WARM_UP)
        for target in _turns(size.rounds, targets.values(), say, "json"):
            before = _process(target).cpu()
            done = flat_out(bed, target, size.calls)
            kept.add("json.cpu", target.name, (_process(target).cpu() - before) / done.count * 1e6)
            kept.add("json.rate", target.name, done.count / done.seconds)
    return [
        kept.measure("json.cpu", "One JSON call: CPU of the server", "µs"),
        kept.measure("json.rate", "JSON calls: throughput", "calls/s", "generator and backends share the other core"),
    ]


def events(bed: Bed, names: Sequence[str], size: Size, say: Say) -> list[Measure]:
    """Open streams with an event every 20 ms: CPU an event."""
    kept = Rounds()
    with bed.serving(names) as targets:
        for target in _turns(size.few_rounds, targets.values(), say, "sse"):
            seen, reads, cpu = uvloop.run(_event_window(bed, target, size))
            kept.add("sse.cpu", target.name, cpu / seen * 1e6)
            kept.add("sse.rate", target.name, seen / size.window)
            kept.add("sse.bunched", target.name, seen / reads)
    return [
        kept.measure("sse.cpu", f"One relayed event, {size.streams} streams, 20 ms apart: CPU of the server", "µs"),
        kept.measure("sse.rate", "Events relayed (50 a second and stream were due)", "events/s"),
        kept.measure("sse.bunched", "Events in one read of the client", "events", BUNCHED),
    ]


async def _event_window(bed: Bed, target: Target, size: Size) -> tuple[int, int, float]:
    """Events seen, reads they came in, and CPU seconds used while all streams were open."""
    asked = request(CHAT_PATH, target.token, stream_body(20, 100_000))
    async with streams.crowd(target.port, _tls(bed, target)) as made:
        await streams.open_streams(made, asked, size.streams)
        await asyncio.sleep(0.3)
        tally = made.tally
        seen, reads, cpu = tally.events, tally.reads, _process(target).cpu()
        await asyncio.sleep(size.window)
        made.check()
        return tally.events - seen, tally.reads - reads, _process(target).cpu() - cpu


def latency(bed: Bed, names: Sequence[str], size: Size, say: Say) -> list[Measure]:
    """What a server adds to a call at half of its own peak rate, and to the first event while many streams are open."""
    kept = Rounds()
    with bed.serving(names) as targets:
        peaks = {}
        for target in targets.values():
            say(f"latency: peak of {target.name}")
            flat_out(bed, target, 1)
            done = flat_out(bed, target, max(1, size.calls / 2))
            peaks[target.name] = done.count / done.seconds
        for target in _turns(size.few_rounds, targets.values(), say, "latency"):
            rate = min(peaks[target.name] / 2, RATE_LIMIT)
            _add_latency(bed, target, size, rate, kept)
        base: list[float] = []
        for target in _turns(size.few_rounds, [bed.direct, *targets.values()], say, "first event"):
            times = uvloop.run(_first(bed, target, size))
            if target.running is None:
                base = times
            else:
                _add_difference(kept, "first", target.name, base, times)
    at = f"at half of its own peak, at most {RATE_LIMIT:.0f} calls/s"
    busy = f"{size.busy_streams} streams open"
    return [
        kept.measure("latency.rate", "Rate of the calls timed below", "calls/s"),
        kept.measure("latency.direct", "The same calls without a server between, without TLS: p99", "ms", SHAKY),
        kept.measure("latency.p50", f"Added to a call, {at}: p50", "ms", compared=False),
        kept.measure("latency.p99", f"Added to a call, {at}: p99", "ms", compared=False),
        kept.measure("first.p50", f"Added to the first event, {busy}: p50", "ms", compared=False),
        kept.measure("first.p99", f"Added to the first event, {busy}: p99", "ms", compared=False),
    ]


def _add_latency(bed: Bed, target: Target, size: Size, rate: float, kept: Rounds) -> None:
    asked = request(CHAT_PATH, bed.token, chat_body())
    base, through = (steady.at_rate(one.port, _tls(bed, one), asked, rate, size.rate) for one in (bed.direct, target))
    kept.add("latency.rate", target.name, rate)
    kept.add("latency.direct", target.name, quantile(base, 0.99))
    _add_difference(kept, "latency", target.name, base, through)


def _add_difference(kept: Rounds, what: str, server: str, base: Sequence[float], through: Sequence[float]) -> None:
    """What was added to the direct call: the difference of medians, and of the 99th percentiles."""
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        kept.add(f"{what}.{name}", server, quantile(through, share) - quantile(base, share))


async def _first(bed: Bed, target: Target, size: Size) -> list[float]:
    """Milliseconds to the first event of probes, beside open streams with an event every 100 ms."""
    tls = _tls(bed, target)
    standing = request(CHAT_PATH, bed.token, stream_body(100, 100_000))
    probe = request(CHAT_PATH, bed.token, stream_body(5, 2))
    async with streams.crowd(target.port, tls) as made:
        await streams.open_streams(made, standing, size.busy_streams)
        times = await streams.first_events(target.port, tls, probe, size.probes, 0.02)
        made.check()
        return times


def memory(bed: Bed, names: Sequence[str], size: Size, say: Say) -> list[Measure]:
    """Resident memory that one connection costs, at rest and with a stream on it; each in a fresh process."""
    kept = Rounds()
    for name in names:
        with bed.serving([name]) as targets:
            say(f"memory: {size.idle} idle connections, {name}")
            kept.add("memory.base", name, _process(targets[name]).resident() / MIB)
            kept.add("memory.idle", name, uvloop.run(_idle_growth(bed, targets[name], size)) / KIB)
        with bed.serving([name]) as targets:
            say(f"memory: {size.open} streams, {name}")
            kept.add("memory.stream", name, uvloop.run(_stream_growth(bed, targets[name], size)) / KIB)
    return [
        kept.measure("memory.base", "Resident after start", "MiB"),
        kept.measure("memory.idle", f"{size.idle} idle TLS connections, one call made on each: resident each", "KiB"),
        kept.measure("memory.stream", f"{size.open} open streams, an event a second: resident each", "KiB"),
    ]


async def _idle_growth(bed: Bed, target: Target, size: Size) -> float:
    asked = request(CHAT_PATH, bed.token, chat_body())
    async with streams.crowd(target.port, _tls(bed, target)) as made:
        await streams.open_idle(made, asked, 50)  # what the first connections of all cost is not theirs
        before = _process(target).resident()
        await streams.open_idle(made, asked, size.idle)
        await asyncio.sleep(1)
        made.check()
        return (_process(target).resident() - before) / size.idle


async def _stream_growth(bed: Bed, target: Target, size: Size) -> float:
    asked = request(CHAT_PATH, bed.token, stream_body(1000, 100_000))
    async with streams.crowd(target.port, _tls(bed, target)) as made:
        await streams.open_streams(made, asked, 50)
        before = _process(target).resident()
        await streams.open_streams(made, asked, size.open)
        await asyncio.sleep(1.5)
        made.check()
        return (_process(target).resident() - before) / size.open


def upload(bed: Bed, names: Sequence[str], size: Size, say: Say) -> list[Measure]:
    """Big tensors at once: throughput, CPU, and how far resident memory grows meanwhile."""
    kept = Rounds()
    tensor = memoryview(bytes(size.tensor))
    head = request(TENSOR_PATH, bed.token, b"", size.tensor)
    sent = size.tensor * size.at_once / MIB
    with bed.serving(names) as targets:
        at_start = {name: _process(target).resident() for name, target in targets.items()}
        for target in _turns(size.few_rounds, targets.values(), say, "upload"):
            server = _process(target)
            server.forget_peak()
            cpu = server.cpu()
            took = uploads.send_all(target.port, _tls(bed, target), head, tensor, size.at_once)
            kept.add("upload.rate", target.name, sent / took)
            kept.add("upload.cpu", target.name, (server.cpu() - cpu) / sent * 1e3)
            kept.add("upload.growth", target.name, (server.peak() - at_start[target.name]) / MIB)
    what = f"{size.at_once} uploads of {size.tensor // MIB} MiB at once"
    return [
        kept.measure("upload.rate", f"{what}: throughput", "MiB/s", "generator and sink share the other core"),
        kept.measure("upload.cpu", f"{what}: CPU of the server for a MiB", "ms"),
        kept.measure("upload.growth", f"{what}: resident memory above that at start", "MiB", compared=False),
    ]


SECTIONS: dict[str, Callable[[Bed, Sequence[str], Size, Say], list[Measure]]] = {
    "json": calls,
    "sse": events,
    "latency": latency,
    "memory": memory,
    "upload": upload,
}

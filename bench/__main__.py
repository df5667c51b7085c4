"""`python -m bench`: run the sections asked for, print the page, write it with `--write`.

Knows: arguments, the machine's description. Must not know: what a section does.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from bench import report, servers
from bench.bed import Bed, made_up
from bench.figures import Measure
from bench.load import LoadFailedError
from bench.process import StartFailedError
from bench.report import OURS
from bench.sections import FULL, QUICK, SECTIONS, Say

RESULTS = Path(__file__).with_name("results.md")
SERVERS_HELP = f"comma-separated, of {', '.join(servers.KINDS)}; default: {', '.join(servers.STANDARD)}"
DESCRIPTORS = 20_000  # twice what 9 000 connections, the most a server is configured for, need


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser("python -m bench", description="Measure the gateway beside its peers.")
    parser.add_argument("sections", nargs="*", metavar="section", help=f"any of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small and imprecise, about a minute")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}; needs a full run")
    parser.add_argument("--servers", help=SERVERS_HELP)
    options = parser.parse_args(given)
    options.chosen = options.servers is not None
    options.servers = options.servers.split(",") if options.chosen else list(servers.STANDARD)
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}: there are {', '.join(SECTIONS)}")
    if unknown := [name for name in options.servers if name not in servers.KINDS]:
        parser.error(f"no server {', '.join(unknown)}: there are {', '.join(servers.KINDS)}")
    if options.write and (options.quick or options.sections or set(options.servers) != set(servers.STANDARD)):
        parser.error("--write keeps a full run only: no sections, no --servers, no --quick")
    options.sections = options.sections or list(SECTIONS)
    return options


def facts(bed: Bed, names: Sequence[str], absent: Iterable[str], quick: bool) -> list[tuple[str, str]]:
    """What a reader must know to judge the figures."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return [
        ("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        ("machine", f"{os.cpu_count()} cores, {cpu.partition(': ')[2]}, Linux {platform.release()}"),
        ("pinned", f"server under test to core {bed.cores.server}; load and backends to core {bed.cores.load}"),
        ("load average before", f"{os.getloadavg()[0]:.2f}" + (" (quick run)" if quick else "")),
        ("libraries", f"uvloop {version('uvloop')}, httptools {version('httptools')}"),
        *((name, servers.KINDS[name].version()) for name in names),
        *((name, report.ABSENT) for name in absent),
    ]


def run(bed: Bed, options: argparse.Namespace, say: Say) -> tuple[list[Measure], list[str]]:
    """The measures of all sections, and what went wrong."""
    measures: list[Measure] = []
    failures: list[str] = []
    for section in options.sections:
        try:
            names = [name for name in options.servers if section in servers.KINDS[name].sections]
            measures += SECTIONS[section](bed, names, QUICK if options.quick else FULL, say)
        except* (LoadFailedError, StartFailedError, TimeoutError) as errors:
            failures += [f"{section}: {str(error) or type(error).__name__}" for error in leaves(errors)]
    return measures, failures


def leaves(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The single errors of a group of groups, the first five."""
    found: list[BaseException] = []
    for error in errors.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found[:5]


def main(given: Sequence[str]) -> int:
    """0 when everything asked for was measured, 1 when not, 2 when something is not installed."""
    options = arguments(given)
    lacking = servers.missing(options.servers)
    if lacking:
        print(f"bench: not installed: {', '.join(lacking)}; bench/install.sh installs it", file=sys.stderr)
    if (options.chosen and lacking) or {OURS, "wrk"} & set(lacking):
        return 2
    absent = {name: servers.KINDS[name].sections for name in lacking}
    options.servers = [name for name in options.servers if name not in absent]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, DESCRIPTORS), most))
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", file=sys.stderr, flush=True)

    with made_up() as bed:
        known = facts(bed, options.servers, absent, options.quick)
        measures, failures = run(bed, options, say)
    page = report.page(known, measures, absent)
    print(page)
    for failure in failures:
        print(f"bench: not measured: {failure}", file=sys.stderr)
    if options.write and not failures:
        RESULTS.write_text(page)
        say(f"wrote {RESULTS}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m fuzz`: search with every harness in turn, or show what one makes of a file.

Knows: how long, how a search is started and what it prints, where inputs are kept.
Must not know: what a harness checks.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.harnesses import HARNESSES, Harness

ROOT = Path(__file__).parent.parent

LONGEST_TRY = 20  # seconds of one input; far above what the slowest takes on a busy machine
MOST_MEMORY = 1024  # MiB of one search
PROGRESS = 10.0  # seconds between two lines

# libFuzzer: "#1234\tNEW    cov: 10 ft: 20 corp: 3/4b …", and "stat::number_of_executed_units: 1234" at the end.
STATUS = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+) ft: \d+ corp: (\d+)/")
EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
NOISE = re.compile(r"#\d+\s|INFO: |WARNING: Failed to find function|stat::|\"|######")


@dataclass(slots=True)
class Search:
    """What is known of one search while it runs. `told`: what is worth showing if it finds something."""

    harness: Harness
    runs: int = 0
    ways: int = 0
    kept: int = 0
    told: list[str] = field(default_factory=list)
    shown: float = field(default_factory=time.monotonic)

    def take(self, line: str) -> None:
        """One line of libFuzzer."""
        if (status := STATUS.match(line)) is not None:
            self.runs, self.ways, self.kept = map(int, status.groups())
        elif (executed := EXECUTED.match(line)) is not None:
            self.runs = int(executed[1])
        elif not NOISE.match(line):
            self.told.append(line)
        if time.monotonic() - self.shown >= PROGRESS:
            self.show("…")

    def show(self, end: str) -> None:
        """A line for who waits."""
        self.shown = time.monotonic()
        print(f"{self.harness.name:<10}{self.runs:>10} runs{self.ways:>7} ways{self.kept:>6} inputs  {end}", flush=True)


def arguments() -> argparse.ArgumentParser:
    """What may be said on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Search for inputs that the gateway reads wrong."
    )
    parser.add_argument("harness", nargs="*", help=f"some of {', '.join(HARNESSES)}; all of them, if none is named")
    parser.add_argument("--seconds", type=int, default=600, help="of all searches together (default: 600)")
    parser.add_argument("--runs", action="store_true", help="so many runs as the table says, from the same seed")
    parser.add_argument("--file", type=Path, help="only try this one input")
    return parser


def main() -> int:
    """1 if a harness found something, else 0."""
    parser = arguments()
    said = parser.parse_args()
    names = said.harness or list(HARNESSES)
    if unknown := set(names) - set(HARNESSES):
        parser.error(f"no harness is called {', '.join(sorted(unknown))}; there are {', '.join(HARNESSES)}")
    if said.file is not None:
        for name in names:
            HARNESSES[name].check(said.file.read_bytes())
            print(f"{name}: nothing is wrong with {said.file}")
        return 0
    seconds = None if said.runs else max(1, said.seconds // len(names))
    failed = [name for name in names if not searched(HARNESSES[name], seconds)]
    return 1 if failed else 0


def searched(harness: Harness, seconds: int | None) -> bool:
    """True if a search found nothing wrong.

    Without `seconds` it does as many tries as the table says, from the same seed, and keeps nothing that is merely new.
    """
    harness.crashers.mkdir(parents=True, exist_ok=True)
    harness.found.mkdir(parents=True, exist_ok=True)
    search = Search(harness)
    watched = ",".join(("gateway", *harness.watched))
    with TemporaryDirectory() as scratch:  # what is new goes into the first folder
        kind = _short(harness, scratch) if seconds is None else _long(harness, seconds)
        with _started([harness.module, watched, *_options(harness), *kind]) as (lines, process):
            for line in lines:
                search.take(line.rstrip("\n"))
    good = process.returncode == 0
    search.show("done" if good else "FOUND SOMETHING")
    if not good:
        _tell(search)
    return good


def _options(harness: Harness) -> list[str]:
    # libFuzzer reads the most that a process ever had (getrusage(2)): what whoever started it had counts as its own.
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return [
        *([f"-dict={harness.words}"] if harness.words.exists() else []),
        f"-artifact_prefix={harness.crashers}/",
        f"-max_len={harness.longest}",
        f"-timeout={LONGEST_TRY}",
        f"-rss_limit_mb={MOST_MEMORY + inherited}",
        "-print_final_stats=1",
    ]


def _short(harness: Harness, scratch: str) -> list[str]:
    """Seeds are named in order, because a folder has none that is the same everywhere."""
    seeds = ",".join(map(str, sorted(harness.corpus.iterdir())))
    return ["-seed=1", "-reload=0", f"-runs={harness.runs}", f"-seed_inputs={seeds}", scratch]


def _long(harness: Harness, seconds: int) -> list[str]:
    return [f"-max_total_time={seconds}", str(harness.found), str(harness.corpus)]


@contextmanager
def _started(words: Sequence[str]) -> Iterator[tuple[Iterator[str], subprocess.Popen[str]]]:
    """A search as a process of its own, ended with the block; texts hash alike, so that the same seed does the same."""
    process = subprocess.Popen(  # noqa: S603  our own interpreter and modules
        [sys.executable, "-m", "fuzz.engine", *words],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield iter(process.stdout), process
        process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _tell(search: Search) -> None:
    """What was found, where it is kept, and how to see it again."""
    name = search.harness.name
    print(*search.told, sep="\n")
    for file in sorted(search.harness.crashers.iterdir()):
        print(f"\n  again:  {sys.executable} -m fuzz {name} --file {os.path.relpath(file)}")
    print(f"  once mended:  cp it to {os.path.relpath(search.harness.corpus)}/, under a name that says what it was")


if __name__ == "__main__":
    sys.exit(main())

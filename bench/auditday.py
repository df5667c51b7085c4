"""`python -m bench.auditday`: a day of audit lines, and how long the commands take that read them.

The lines are the gateway's own: decided by the policy of the time, in the files of a day that was rotated every few
hours, chained. Their policies are kept beside them as a running gateway keeps them, so that each can be decided again.
Knows: who calls for what, the commands, the page. Must not know: how a line is written, what the commands do.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Semaphore

from bench.report import table
from gateway.accounting.appender import Appender
from gateway.accounting.audit import Clock, Lines
from gateway.call import Call, Channel, ModelRef, Operation, Outcome, Principal
from gateway.cli.policy import ACTIONS
from gateway.errors import Refusal
from gateway.policy import files, history
from gateway.policy.engine import Policy
from gateway.settings import Audit

PAGE = Path(__file__).with_name("auditday.md")
COUNT = 1_000_000
DAY = 86_400.0
BEGIN = 1_796_083_200.0  # UNIX time of the first line: a Tuesday in UTC, from midnight on
GENERATIONS = 8  # a policy every three hours, and a file of lines with it
RULES = 50
CALLERS = 500
MODELS = 60
TOGETHER = 20  # lines that are written together, at most
WAITING = 64  # of those that wait for the disk
GOALS = {"verify": 30.0, "explain": 120.0, "diff": 120.0}  # seconds for a million lines


@dataclass(frozen=True, slots=True)
class Day:
    """Where it lies: files of lines, oldest first, kept policies, and the first and the last policy."""

    lines: tuple[Path, ...]
    kept: Path
    policies: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One command: its words, seconds, the greatest resident memory in MiB, its exit code."""

    words: tuple[str, ...]
    seconds: float
    memory: float
    code: int


def main(given: Sequence[str]) -> int:
    """Print the page, write it with `--write`; 0 when every goal is met, 1 when not."""
    parser = argparse.ArgumentParser("python -m bench.auditday", description=__doc__)
    parser.add_argument("--lines", type=int, default=COUNT, help="how many; %(default)s")
    parser.add_argument(
        "--keep", type=Path, help="an empty folder for the day, which stays; default: one that does not"
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        began = time.monotonic()
        day = made(folder, options.lines)
        print(f"{options.lines} lines written in {time.monotonic() - began:.0f} s", file=sys.stderr)
        runs = [run(words) for words in commands(day)]
        size = sum(file.stat().st_size for file in day.lines)
    missed = misses(runs, options.lines)
    page = written(runs, missed, options.lines, size)
    print(page)
    if options.write:
        PAGE.write_text(page)
    return 1 if missed else 0


def made(folder: Path, count: int, seed: int = 1) -> Day:
    """`count` lines in `folder`; the same ones for the same `seed`, but for the times of the file's own lines."""
    chance = random.Random(seed)
    policies, lines, kept = folder / "policies", folder / "lines", folder / "kept"
    for each in (policies, lines):
        each.mkdir(parents=True)
    current = lines / "audit.jsonl"
    appender = Appender(Audit(str(current), fsync="never"))
    room = Semaphore(WAITING)
    rotated: list[Path] = []
    for number in range(GENERATIONS):
        file = policies / f"{number}.yaml"
        file.write_text(policy_text(number))
        policy = files.read(file)
        history.keep(kept, policy, GENERATIONS, lambda policy=policy: policy.digest)  # type: ignore[misc]  # the type of a default is not inferred
        if number:
            rotated.append(current.rename(lines / f"audit.jsonl.{GENERATIONS - number}"))
            appender.reopen(lambda: None)
        share = range(number * count // GENERATIONS, (number + 1) * count // GENERATIONS)
        for batch in batches(decided(Policy(policy.rules, digest=policy.digest), number + 1, share, count), chance):
            room.acquire()
            appender.append(batch, room.release)
    if not appender.close(60.0):
        raise SystemExit("bench: the lines were not written within a minute")
    return Day((*rotated, current), kept, tuple(sorted(policies.iterdir())))


def policy_text(number: int) -> str:
    """The rules of the `number`th policy of the day: each differs from the last in one rule."""
    rules = []
    for rule in range(RULES):
        models = f"team-{rule}/*" if rule >= number else f"team-{rule}/model-0"
        window = "    when: {days: [mon, tue, wed, thu, fri], hours: '06:00-20:00', timezone: Europe/Madrid}\n"
        rules.append(
            f"  - id: team-{rule}\n    effect: allow\n    subjects: {{groups: [team-{rule}]}}\n"
            f"    models: ['{models}']\n{window if rule % 5 == 0 else ''}"
        )
    deny = "  - id: contractors\n    effect: deny\n    subjects: {groups: [contractors]}\n    models: ['*/model-0']\n"
    return f"version: 1\nrules:\n{''.join(rules)}{deny}"


def decided(policy: Policy, generation: int, share: range, count: int) -> Iterator[bytes]:
    """The lines of a share of the day, under one policy."""
    chance = random.Random(generation)
    rulebook = policy.rulebook(generation)
    lines = Lines()
    for number in share:
        at = BEGIN + number * DAY / count
        outcome = Outcome(_call(number, chance.randrange(CALLERS)))
        outcome.principal = principal = _caller(chance.randrange(CALLERS))
        outcome.model = model = _model(chance.randrange(RULES) if chance.random() < 0.2 else _team(principal), chance)
        outcome.pool, outcome.rulebook = "nim", rulebook
        outcome.mark = b"%016x-" % generation
        outcome.decided_at = int(at)
        try:
            outcome.grant = policy.authorize(principal, model, policy.holding(float(int(at)), outcome.call.peer))
            outcome.backend, outcome.attempts, outcome.status, outcome.sent = "10.0.0.1:8000", 1, 200, 2048
            outcome.tokens_in, outcome.tokens_out = chance.randrange(4000), chance.randrange(1000)
            outcome.first_byte = 0.2
        except Refusal as refusal:
            outcome.refusal, outcome.status = refusal, refusal.status
        yield lines.write(outcome, Clock(lambda at=at: at).stamp(), 1.5)  # type: ignore[misc]  # the type of a default is not inferred


def batches(lines: Iterator[bytes], chance: random.Random) -> Iterator[list[bytes]]:
    """As they come in twentieths of a second: few or many."""
    batch: list[bytes] = []
    most = 1
    for line in lines:
        batch.append(line)
        if len(batch) >= most:
            yield batch
            batch, most = [], chance.randint(1, TOGETHER)
    if batch:
        yield batch


def _call(number: int, caller: int) -> Call:
    peer = f"10.{caller // 250}.{caller % 250}.7"
    return Call(f"{number:032x}", Channel.HTTP, "POST", "/v1/chat/completions", None, (), peer, 0.0)


@cache
def _caller(number: int) -> Principal:
    groups = {f"team-{number % RULES}", "everybody", *({"contractors"} if number % 7 == 0 else ())}
    return Principal(f"caller-{number}", "https://login.example.com", "corp", frozenset(groups))


def _team(principal: Principal) -> int:
    return int(next(group for group in principal.groups if group.startswith("team-")).removeprefix("team-"))


def _model(team: int, chance: random.Random) -> ModelRef:
    return ModelRef(f"team-{team}/model-{chance.randrange(MODELS // 10)}", Operation.INFER)


def commands(day: Day) -> Iterator[tuple[str, ...]]:
    """What reads all of the day; a command that there is not is left out."""
    lines = tuple(map(str, day.lines))
    yield ("audit", "verify", "--complete", *lines)
    if "explain" in ACTIONS:
        yield ("policy", "explain", "--policies", str(day.policies[-1]), "--history", str(day.kept), "--audit", *lines)
    if "diff" in ACTIONS:
        yield ("policy", "diff", str(day.policies[0]), str(day.policies[-1]), "--audit", *lines)


def run(words: tuple[str, ...]) -> Run:
    """The command in a process of its own; what it says is seen, so is its progress."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "gateway", *words])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Run(words, time.monotonic() - began, used.ru_maxrss / 1024, process.returncode)


def misses(runs: Sequence[Run], count: int) -> list[str]:
    """Goals that are missed; `diff` ends with 1 where the policies differ."""
    missed = []
    for each in runs:
        limit = GOALS[each.words[1]] * count / COUNT + 5.0  # to start
        if each.seconds > limit:
            missed.append(f"{' '.join(each.words[:2])} took {each.seconds:.1f} s, not {limit:.0f}")
        if each.code not in ((0, 1) if each.words[1] == "diff" else (0,)):
            missed.append(f"{' '.join(each.words[:2])} ended with {each.code}")
    return missed


def written(runs: Sequence[Run], missed: Sequence[str], count: int, size: int) -> str:
    """The page."""
    head = ("command", "seconds", "lines a second", "memory at most (MiB)")
    rows = [
        (f"`{' '.join(each.words[:2])}`", f"{each.seconds:.1f}", f"{count / each.seconds:,.0f}", f"{each.memory:.0f}")
        for each in runs
    ]
    verdict = "\n".join(f"- **missed**: {each}" for each in missed) or "- met"
    goals = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in GOALS.items())
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    busy = f"; it was busy with other work, {load / cores:.1f} times what it has cores for" if load > 2 * cores else ""
    machine = f"{cores} cores, Linux {platform.release()}, Python {platform.python_version()}"
    policies = f"{CALLERS} callers under {GENERATIONS} policies of {RULES + 1} rules"
    return f"""# A day of audit lines

Written by `python -m bench.auditday --write`.

- date: {time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
- machine: {machine}; load average {load:.2f}{busy}
- lines: {count:,} in {GENERATIONS} files, {size / 2**20:,.0f} MiB, chained, of {policies}

{table(head, rows)}

Goals, for a million lines: {goals}.

{verdict}
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

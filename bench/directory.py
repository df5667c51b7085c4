"""`python -m bench.directory`: what calls with tokens notice of an LDAP directory that hangs.

Calls with tokens come at a steady rate, and health calls, which need nothing but the event loop, beside them: what
those take is no less than the loop lags. Then the same while callers with passwords wait for a directory.
Knows: what is measured and the page. Must not know: how loads are made.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import platform
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import configs, servers
from bench.bed import Bed, Target, made_up
from bench.configs import Site
from bench.figures import quantile, short
from bench.report import table
from bench.slowldap import SlowLdap
from bench.steady import at_rate
from bench.work import CHAT_PATH, chat_body, request

PAGE = Path(__file__).with_name("directory.md")
CALLERS = 50  # with names and passwords, each on a connection of its own
TIMEOUT = 3.0  # seconds that a login may take here; 5 s where nothing is configured, which would take longer to see
SECONDS = 7.0  # of each window, a little more than two timeouts
REST = 0.5  # seconds between an answer and the caller's next try
CALL_RATE, HEALTH_RATE = 400.0, 100.0  # a second; a fraction of what the gateway can do, so that nothing queues
LAG = 20.0  # ms: the goal for the 99th percentile
GRACE = 0.5  # seconds beyond its time limit in which a caller has to have his answer
HEALTH = b"GET /v1/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Window:
    """What was seen in one window: milliseconds of calls and of health calls, and how each login ended.

    `starved`: milliseconds that the gateway's loop was ready to run and had no core.
    """

    name: str
    calls: list[float]
    health: list[float]
    starved: float
    logins: list[tuple[int, float]] = field(default_factory=list)


def main(given: Sequence[str]) -> int:
    """Print the page, write it with `--write`; 0 when the goals are met, 1 when not, 2 when there is no gateway."""
    parser = argparse.ArgumentParser("python -m bench.directory", description=__doc__)
    parser.add_argument("--server", choices=("gateway", "checkout"), default="gateway", help="as delivered, or as here")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(given)
    if options.server == "gateway" and servers.missing([options.server])[:1] == ["gateway"]:
        print("bench: bench/install.sh installs the gateway; --server checkout takes the one here", file=sys.stderr)
        return 2
    with made_up() as bed, _loads() as loads:
        windows = [_quiet(bed, options.server, loads)]
        for name, pause in (("answers after a second", 1.0), ("says nothing", None)):
            windows.append(_beside(bed, options.server, loads, name, pause))
    missed = misses(windows)
    page = written(options.server, windows, missed)
    print(page)
    if options.write:
        PAGE.write_text(page)
    return 1 if missed else 0


def misses(windows: Sequence[Window]) -> list[str]:
    """The goals that were not reached."""
    found = []
    for window in windows:
        if (lag := quantile(window.health, 0.99)) >= LAG:
            found.append(f"{window.name}: p99 of the health calls is {short(lag)} ms")
        if window.logins and (longest := max(took for _, took in window.logins)) > TIMEOUT + GRACE:
            found.append(f"{window.name}: a login was answered after {short(longest)} s")
    silent = windows[-1].logins
    if not silent or {status for status, _ in silent} != {503}:
        found.append(f"{windows[-1].name}: logins were not all answered with 503")
    return found


def written(server: str, windows: Sequence[Window], missed: Sequence[str]) -> str:
    """The page."""
    rows = [
        [
            window.name,
            _quantiles(window.health),
            _quantiles(window.calls),
            ", ".join(f"{count} x {status}" for status, count in sorted(Counter(s for s, _ in window.logins).items())),
            _quantiles([took for _, took in window.logins]) if window.logins else "",
            short(window.starved),
        ]
        for window in windows
    ]
    head = ["directory", "health call (ms)", "call with a token (ms)", "logins", "login (s)", "without a core (ms)"]
    verdict = "\n".join(f"- **missed**: {what}" for what in missed) or "- met"
    return f"""# Calls with tokens beside a directory that hangs

Written by `python -m bench.directory --write`. Times are p50 / p99 / greatest.

- date: {time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
- machine: {os.cpu_count()} cores, Linux {platform.release()}; load average {os.getloadavg()[0]:.2f}
- gateway: {server}, pinned to the first core; load, backends and directory on the last
- load: {CALL_RATE:.0f} calls with tokens and {HEALTH_RATE:.0f} health calls a second for {SECONDS:.0f} s; beside them \
{CALLERS} callers with a name and a password of their own each time, {REST} s after each answer; a login may take \
{TIMEOUT:.0f} s

{table(head, rows)}

The health call needs nothing but the event loop: its time is no less than the loop lags. Where the gateway was without
a core for more than some tens of milliseconds the machine was too busy for its figures to mean anything.

Goals: p99 of the health call below {LAG:.0f} ms in every window; each login answered within its limit and {GRACE} s; \
where the directory says nothing with 503, and after the first at once, because it is known to be away.

{verdict}
"""


def _quantiles(values: Sequence[float]) -> str:
    return f"{short(quantile(values, 0.5))} / {short(quantile(values, 0.99))} / {short(max(values))}"


@contextlib.contextmanager
def _loads() -> Iterator[ProcessPoolExecutor]:
    """Two processes that make calls, so that neither holds up the other."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as loads:
        list(loads.map(time.sleep, [0.2, 0.2]))  # both are up before the first window
        yield loads


def _quiet(bed: Bed, server: str, loads: ProcessPoolExecutor) -> Window:
    """Nobody logs in."""
    with _serving(bed, server, 1) as target:
        return _window("nobody asks it", bed, loads, target, [])


def _beside(bed: Bed, server: str, loads: ProcessPoolExecutor, name: str, pause: float | None) -> Window:
    directory = SlowLdap(pause)
    logins: list[tuple[int, float]] = []
    try:
        with _serving(bed, server, directory.port) as target:
            until = time.monotonic() + SECONDS
            callers = [
                threading.Thread(target=_caller, args=(target.port, each, until, logins)) for each in range(CALLERS)
            ]
            for caller in callers:
                caller.start()
            window = _window(name, bed, loads, target, logins)
            for caller in callers:
                caller.join()
            return window
    finally:
        directory.close()


def _window(name: str, bed: Bed, loads: ProcessPoolExecutor, target: Target, logins: list[tuple[int, float]]) -> Window:
    before = _starved(target)
    calls = loads.submit(_steadily, target.port, request(CHAT_PATH, bed.token, chat_body()), CALL_RATE)
    health = loads.submit(_steadily, target.port, HEALTH, HEALTH_RATE)
    return Window(name, calls.result(), health.result(), _starved(target) - before, logins)


def _starved(target: Target) -> float:
    """Milliseconds that the first thread of the gateway has waited for a core (Linux, Documentation/scheduler)."""
    assert target.running is not None
    pid = target.running.pid
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e6


@contextlib.contextmanager
def _serving(bed: Bed, server: str, directory: int) -> Iterator[Target]:
    """A gateway that asks the directory at this port."""

    def write(site: Site) -> dict[str, str]:
        files = configs.gateway(site)
        config = json.loads(files["gateway.yaml"])
        config["identity"]["ldap"] = [
            {
                "name": "directory",
                "servers": [f"ldap://127.0.0.1:{directory}"],
                "allow_insecure": True,
                "timeout": f"{TIMEOUT:.0f}s",
                "users": {"dn_template": "uid={username},dc=bench"},
            }
        ]
        return files | {"gateway.yaml": json.dumps(config)}

    def here(folder: Path) -> Sequence[str]:
        return [sys.executable, "-m", "gateway", "serve", "--config", str(folder / "gateway.yaml")]

    kind = servers.KINDS["gateway"]
    command = here if server == "checkout" else kind.command
    servers.KINDS["beside"] = replace(kind, write=write, command=command)
    with bed.serving(["beside"]) as started:
        yield started["beside"]


def _steadily(port: int, ask: bytes, rate: float) -> list[float]:
    return at_rate(port, _trusting(), ask, rate, SECONDS)


def _caller(port: int, number: int, until: float, logins: list[tuple[int, float]]) -> None:
    """Log in again and again, as somebody else each time, so that nothing is remembered."""
    line = http.client.HTTPSConnection("127.0.0.1", port, timeout=4 * TIMEOUT, context=_trusting())
    with contextlib.closing(line):
        for tries in itertools.count():
            credential = base64.b64encode(f"user{number}-{tries}:password".encode()).decode()
            began = time.monotonic()
            if began > until:
                return
            line.request("GET", "/v1/models", headers={"Authorization": f"Basic {credential}"})
            answer = line.getresponse()
            answer.read()
            logins.append((answer.status, time.monotonic() - began))
            time.sleep(REST)


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback: the certificate is not what is measured
    return context


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

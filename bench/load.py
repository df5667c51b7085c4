"""As many chat calls as go: `wrk` with a small script.

Knows: its command line and what it prints. Must not know: which server is asked.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from bench.bed import Bed, Target
from bench.work import CHAT_PATH, chat_body

CONNECTIONS = 32
PATIENCE = 20  # seconds that a call may take: the slowest peer is given 32 at once and takes one after the other
WRK_SCRIPT = """
wrk.method = "POST"
wrk.body = %s
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
function done(summary, latency, requests)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.timeout + e.status
  io.write(string.format("counted %%d %%d %%d\\n", summary.requests, summary.duration, failed))
end
"""


class LoadFailedError(Exception):
    """A load generator failed, or some calls were not answered with 200."""


@dataclass(frozen=True, slots=True)
class Calls:
    """What `wrk` did: whole calls, seconds."""

    count: int
    seconds: float


def flat_out(bed: Bed, target: Target, seconds: float) -> Calls:
    """Chat calls on CONNECTIONS kept connections, one after the other on each, for whole `seconds`.

    LoadFailedError when one of them was not answered well.
    """
    script = bed.folder / "wrk.lua"
    script.write_text(WRK_SCRIPT % (json.dumps(chat_body().decode()), target.token))
    url = f"{'https' if target.tls else 'http'}://127.0.0.1:{target.port}{CHAT_PATH}"
    command = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{max(1, round(seconds))}s",
        f"--timeout={PATIENCE}s",
        "-s",
        str(script),
        url,
    ]
    return parse_wrk(_output(command, seconds), target.name)


def parse_wrk(text: str, name: str) -> Calls:
    """Read the line that the script adds; LoadFailedError when it is missing or counts a failed call."""
    line = next((line for line in text.splitlines() if line.startswith("counted ")), "")
    if not line:
        raise LoadFailedError(f"{name}: wrk said: {text.strip()[-300:]}")
    count, microseconds, failed = map(int, line.split()[1:])
    if failed or not count:
        raise LoadFailedError(f"{name}: {failed} of {count} calls failed")
    return Calls(count, microseconds / 1e6)


def _output(command: list[str], seconds: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 20, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise LoadFailedError(f"{command[0]}: {error}: {error.output!r} {error.stderr!r}") from error
    return done.stdout

"""`python -m bench.instructions`: instructions of the gateway for one JSON call, counted by valgrind's callgrind.

Without the kernel's. The count hardly depends on what else the machine does, so a change of one per cent is seen where
times would drown it. Timers and probes that run meanwhile are in it: a second run differs by some thousands.
Knows: callgrind. Must not know: what a call costs in time.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import process, servers
from bench.bed import made_up
from bench.process import Running
from bench.steady import complete
from bench.work import CHAT_PATH, chat_body, request

CALLS = 3200
LINES = 8  # connections, each with a call under way, so that turns of the loop have something to share
WARM = 320
SLOWDOWN = 6  # what valgrind's start-up takes longer


def main(given: Sequence[str]) -> int:
    """Print the count; 2 when valgrind is not installed."""
    parser = argparse.ArgumentParser("python -m bench.instructions", description=__doc__)
    parser.add_argument("--server", choices=("gateway", "plain"), default="gateway")
    parser.add_argument("--out", type=Path, default=Path("callgrind.out"), help="for callgrind_annotate; %(default)s")
    options = parser.parse_args(given)
    if not shutil.which("valgrind"):
        print("bench: valgrind is not installed", file=sys.stderr)
        return 2
    out = options.out.resolve()
    kind = servers.KINDS[options.server]
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    servers.KINDS["counted"] = replace(kind, command=lambda folder: [*valgrind, *_unwrapped(kind.command(folder))])
    process.START_LIMIT *= SLOWDOWN
    with made_up() as bed, bed.serving(["counted"]) as started:
        target = started["counted"]
        assert target.running is not None
        lines = [_line(target.port) for _ in range(LINES)]
        ask = request(CHAT_PATH, bed.token, chat_body())
        _rounds(lines, ask, WARM // LINES)
        _collect(target.running, "on")
        _rounds(lines, ask, CALLS // LINES)
        _collect(target.running, "off")
    total = next(int(line.split()[1]) for line in out.read_text().splitlines() if line.startswith("totals:"))
    print(f"{options.server}: {total / CALLS:,.0f} instructions for a call, in {CALLS} calls")
    return 0


def _unwrapped(command: Sequence[str]) -> Sequence[str]:
    """Callgrind wants the interpreter, not a script that starts it."""
    return command if command[0].endswith("python") else [str(servers.INSTALLED / "python"), *command]


def _line(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback: the certificate is not what is measured
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))


def _rounds(lines: Sequence[ssl.SSLSocket], ask: bytes, count: int) -> None:
    for _ in range(count):
        for line in lines:
            line.sendall(ask)
        for line in lines:
            got = b""
            while not complete(got):
                got += line.recv(65536)


def _collect(server: Running, word: str) -> None:
    subprocess.run(["callgrind_control", "-i", word, str(server.pid)], capture_output=True, timeout=60, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

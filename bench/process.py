"""Processes that the benchmark starts: pinned to a core, watched in /proc, ended by their own id.

Knows: Linux' /proc, affinity, signals. Must not know: what the processes do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

START_LIMIT = 60.0  # seconds until a server must listen: Envoy takes under one, the gateway two, LiteLLM ten
STOP_LIMIT = 3.0  # seconds for each of: asked once, asked twice
TICKS = os.sysconf("SC_CLK_TCK")


class StartFailedError(Exception):
    """A process ended, or did not listen in time; the text has the end of its log."""


class Running:
    """One started process and all that it started."""

    __slots__ = ("_process", "log", "name")

    def __init__(self, name: str, command: Sequence[str], core: int, log: Path, cwd: Path) -> None:
        self.name, self.log = name, log
        with pinned(core), log.open("ab") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd)

    def __repr__(self) -> str:
        return f"<Running {self.name} {self._process.pid}>"

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    def await_port(self, port: int) -> None:
        """Return once something accepts on `port` of loopback; StartFailedError after START_LIMIT or when it ended."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.02)
        raise StartFailedError(f"{self.name} does not listen on {port}: {self.last_words()}")

    def last_words(self) -> str:
        """The end of what it wrote."""
        return self.log.read_text(errors="replace")[-1500:].strip() or "(it wrote nothing)"

    def cpu(self) -> float:
        """Seconds of user and system time so far, with all children, also those that ended."""
        return sum(_ticks(pid) for pid in tree(self._process.pid)) / TICKS

    def resident(self) -> int:
        """Bytes of resident memory, children included."""
        return sum(_status(pid, "VmRSS") for pid in tree(self._process.pid))

    def forget_peak(self) -> None:
        """Begin anew with `peak` (proc(5), clear_refs)."""
        for pid in tree(self._process.pid):
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak(self) -> int:
        """Bytes of the highest resident memory since `forget_peak`, summed over the processes."""
        return sum(_status(pid, "VmHWM") for pid in tree(self._process.pid))

    def stop(self) -> None:
        """End it and its children: asked, asked again, killed."""
        family = tree(self._process.pid)
        for word in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                break
            self._process.send_signal(word)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_LIMIT)
        for pid in family[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """This thread, and what it starts meanwhile, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def tree(pid: int) -> list[int]:
    """`pid` and its living descendants, parents first."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread or a process that ended hides no other one
                found += [int(child) for child in task.read_text().split()]
    return found


def _ticks(pid: int) -> int:
    """utime, stime, cutime and cstime of /proc/PID/stat, added; 0 for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return sum(int(word) for word in text.rpartition(")")[2].split()[11:15])


def _status(pid: int, name: str) -> int:
    """A size of /proc/PID/status in bytes; 0 for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{name}:")), 0)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]

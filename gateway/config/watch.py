"""Notice that files changed, by what is in them, and that whoever wrote them is done.

Modification times, sizes and directory events all miss some way to replace a file (a swapped symbolic link to its
folder, a bind mount of a single file), so the content is read again and again; configuration is small.
Knows: files, folders of policies. Must not know: what is in them, what a change is good for.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from gateway.config.folder import policies_in

LARGEST: Final = 16 * 1024 * 1024  # bytes read of one file; none that is of use is larger


class Pace(NamedTuple):
    """All in seconds. `interval`: between two looks. How long a change must rest before it is told: `whole`, where each
    changed file took the place of another, as renames and swapped links do, or is gone; `written`, where one is new or
    was written in place, so that nobody can tell its first half from all of it.

    Both are a little less than a whole number of intervals, so that a timer that fires early costs no further look.
    A change is told at most an interval after it has rested: 1.25 and 1.75 s, which leaves time to read it within 2.
    """

    interval: float = 0.25
    whole: float = 0.9
    written: float = 1.4


@dataclass(frozen=True, slots=True)
class Content:
    """What a file, or a folder's policies, held: equal for equal content. `stored`: digest and place of each file."""

    digest: bytes
    stored: Mapping[str, tuple[bytes, tuple[int, int]]] = field(default_factory=dict, compare=False, repr=False)

    def written_since(self, before: Content) -> bool:
        """True if a file of it is new, or has another content than `before` in the same place."""
        return any(
            name not in before.stored or (before.stored[name][0] != digest and before.stored[name][1] == place)
            for name, (digest, place) in self.stored.items()
        )


#: What nothing that is looked at is equal to.
UNKNOWN: Final = Content(b"")


def contents(paths: Iterable[Path]) -> dict[Path, Content]:
    """What each of them holds: a file its bytes, a folder what is read of it, by name. Blocks; never raises."""
    return {path: _one(path) for path in paths}


def _one(path: Path) -> Content:
    stored: dict[str, tuple[bytes, tuple[int, int]]] = {}
    try:
        if not path.is_dir():
            return Content(_content(path, stored), stored)
        inner = [(entry.name.encode(errors="surrogateescape"), _content(entry, stored)) for entry in policies_in(path)]
    except (OSError, ValueError) as error:
        return Content(_mark(b"folder", type(error).__name__.encode()))
    return Content(_mark(b"folder", *(part for pair in inner for part in pair)), stored)


def _content(path: Path, stored: dict[str, tuple[bytes, tuple[int, int]]]) -> bytes:
    """A digest of one file, noted in `stored` if there is such a file."""
    try:
        # A pipe or device would block or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            return _mark(b"special")
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            digest = _mark(b"file", file.read(LARGEST))
    except (OSError, ValueError) as error:
        return _mark(b"none", type(error).__name__.encode())
    stored[path.name] = digest, (found.st_dev, found.st_ino)
    return digest


def _mark(kind: bytes, *parts: bytes) -> bytes:
    """A digest in which no two lists of parts look the same."""
    each = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(kind + b"\0" + each).digest()


class Settling:
    """When a change is over: once it has rested as long as `Pace` says, and is not what was told last."""

    __slots__ = ("_before", "_pace", "_since", "_told", "_written")

    def __init__(self, told: Mapping[Path, Content], pace: Pace) -> None:
        self._pace = pace
        self._told = self._before = dict(told)
        self._since = 0.0
        self._written = False  # something since what was told: a file may be half of what it becomes

    def see(self, now: Mapping[Path, Content], began: float, ended: float, *, asked: bool = False) -> bool:
        """True if `now`, which was read from `began` to `ended` (seconds of any clock), is to be told.

        `asked`: what was told last is told again, if this look and the one before agree on it.
        """
        if now != self._before:
            self._written |= any(content.written_since(self._before[path]) for path, content in now.items())
            self._before, self._since = dict(now), ended
            return False
        if now == self._told:
            self._written = False
            return asked
        if began - self._since < (self._pace.written if self._written else self._pace.whole):
            return False
        self._told, self._written = self._before, False
        return True

    @property
    def told(self) -> Mapping[Path, Content]:
        """What was told last."""
        return self._told


class Watcher:
    """Tells that something among the files changed and is complete."""

    def __init__(self, files: Mapping[Path, Content], pace: Pace | None = None) -> None:
        """`files`: those to watch, with what they held when they were read; anything else is a change."""
        self._pace = pace or Pace()
        self._settling = Settling(files, self._pace)
        self._asked = False
        self._soon = asyncio.Event()

    @property
    def told(self) -> Mapping[Path, Content]:
        """What the files held when they were told last; those that nothing was told of, as they were given."""
        return self._settling.told

    def set_files(self, files: Mapping[Path, Content]) -> None:
        """Watch these from now on, as at the beginning."""
        self._settling = Settling(files, self._pace)

    def ask(self) -> None:
        """Look now, and tell even if nothing changed: at once if two looks agree, with a change once it is complete."""
        self._asked = True
        self._soon.set()

    async def changes(self) -> AsyncIterator[None]:
        """One item for each change, once it is complete. Never ends by itself; files are read in a thread."""
        clock = asyncio.get_running_loop().time
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.interval):
                    await self._soon.wait()
            self._soon.clear()
            settling, asked, began = self._settling, self._asked, clock()
            now = await asyncio.to_thread(contents, tuple(self.told))
            if settling is not self._settling:
                continue
            if settling.see(now, began, clock(), asked=asked):
                self._asked &= not asked  # whoever asked meanwhile means what is there now
                yield None

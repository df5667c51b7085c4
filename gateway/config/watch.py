"""Notice that files changed, by what is in them.

Modification times, sizes and directory events all miss some way to replace a file (a swapped symbolic link to its
folder, a bind mount of a single file), so the content is read again and again; configuration is small.
Knows: files, folders of `*.yaml`. Must not know: what is in them, what a change is good for.
"""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Final

INTERVAL: Final = 0.5  # seconds; a change is seen at the first read after it and told at the second: live within two
LARGEST: Final = 16 * 1024 * 1024  # bytes read of one file; none that is of use is larger


def contents(paths: Iterable[Path]) -> dict[Path, bytes]:
    """A digest of each, equal for equal content: of a file, and of a folder its `*.yaml`, flat, by name.

    Blocks; never raises.
    """
    return {path: _one(path) for path in paths}


def _one(path: Path) -> bytes:
    try:
        if not path.is_dir():
            return _content(path)
        inner = [
            (entry.name.encode(errors="surrogateescape"), _content(entry)) for entry in sorted(path.glob("*.yaml"))
        ]
    except (OSError, ValueError) as error:
        return _mark(b"folder", type(error).__name__.encode())
    return _mark(b"folder", *(part for pair in inner for part in pair))


def _content(path: Path) -> bytes:
    try:
        # A pipe or device would block or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            return _mark(b"special")
        with path.open("rb") as file:
            return _mark(b"file", file.read(LARGEST))
    except (OSError, ValueError) as error:
        return _mark(b"none", type(error).__name__.encode())


def _mark(kind: bytes, *parts: bytes) -> bytes:
    """A digest in which no two lists of parts look the same."""
    each = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(kind + b"\0" + each).digest()


class Settling:
    """When a change is over: once two reads in a row agree, and not with what was told last."""

    __slots__ = ("_before", "_told")

    def __init__(self, told: Mapping[Path, bytes]) -> None:
        self._told = dict(told)
        self._before = self._told

    def see(self, now: Mapping[Path, bytes]) -> bool:
        """True if `now`, what was just read, is a change to tell."""
        settled = now == self._before
        self._before = dict(now)
        if not settled or now == self._told:
            return False
        self._told = self._before
        return True

    @property
    def told(self) -> Mapping[Path, bytes]:
        """What was told last."""
        return self._told


class Watcher:
    """Tells that something among `paths` changed and is complete."""

    def __init__(self, paths: Iterable[Path], interval: float = INTERVAL) -> None:
        """`interval` in seconds. Reads the files once, to know what a change is; blocks on them."""
        self._interval = interval
        self._settling = Settling(contents(paths))

    def set_paths(self, paths: Iterable[Path]) -> None:
        """Look at these from now on. New ones are read at once, which blocks; that they are new is no change."""
        known = self._settling.told
        wanted = tuple(paths)
        new = contents(path for path in wanted if path not in known)
        self._settling = Settling({path: new[path] if path in new else known[path] for path in wanted})

    async def changes(self) -> AsyncIterator[None]:
        """One item for each change, once it is complete. Never ends by itself; files are read in a thread."""
        while True:
            await asyncio.sleep(self._interval)
            settling = self._settling
            now = await asyncio.to_thread(contents, tuple(settling.told))
            if settling is self._settling and settling.see(now):
                yield None

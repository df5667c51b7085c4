"""Put a file in the place of another one, whole and at once, while nobody else does.

Knows: renames, locks, modes and owners. Must not know: what is in the file.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# Whoever has the lock reads and writes one small file.
LOCK_SECONDS: Final = 5.0
_POLL: Final = 0.02


@contextmanager
def alone(folder: Path, limit: float = LOCK_SECONDS) -> Iterator[None]:
    """While no other process is in here for this folder (a real one, no link); waits for it, at most `limit` seconds.

    The folder is what is locked, since the files in it are replaced. Raises `TimeoutError`, or `OSError`.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor, folder, time.monotonic() + limit)
        yield
    finally:
        os.close(descriptor)  # and with it goes the lock


def _lock(descriptor: int, folder: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError(f"another process is changing a file in {folder}; try again") from None
            time.sleep(_POLL)


def replace(path: Path, text: str) -> None:
    """Make `text` what the file at `path` holds, for every reader either wholly or not at all, also after a crash.

    Mode and owner stay as they are; a new file is its owner's alone. Symbolic links are followed. Raises `OSError`,
    and then nothing has changed.
    """
    path = path.resolve()
    before = path.stat() if path.exists() else None
    # Its mode is 0600.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            if before is not None:
                adopt(descriptor, before)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    settle(path.parent)


def adopt(descriptor: int, before: os.stat_result) -> None:
    """Give an open file mode and owner of the one whose place it takes.

    Owner first: changing it takes special modes away. A reader who had the file must be able to read it on."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & 0o777)


def settle(folder: Path) -> None:
    """Renames in this folder survive a crash from now on."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The audit file as it is found at a start or behind a rotation.

Knows: how it is opened, how it ends. Must not know: what its lines say.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import sys
from typing import Final

from gateway.accounting import chain
from gateway.accounting.chain import Chain

log = logging.getLogger(__name__)

# Bytes that are looked at together for the last link, from the end on, and how many of them are looked at again with
# those before: more than a line is long. Further from the end than the last number (seconds, at a start) nobody looks.
_PIECE: Final = 4 * 1024 * 1024
_LAPPED: Final = 512 * 1024
FURTHEST: Final = 1024 * 1024 * 1024

# What lines can be appended to. Anything else is refused: a disk as such, above all.
_KINDS: Final = (stat.S_ISREG, stat.S_ISFIFO, stat.S_ISCHR)


class Found:
    """How a file ends: `torn` in the middle of a line, and `chain`, which goes on from its last link.

    Where it has no link all of it is held by the next. A stream, a pipe, a file that must not be read and one whose
    last link is too far from its end begin a chain anew.
    """

    def __init__(self, path: str, *, chained: bool, furthest: int = FURTHEST) -> None:
        """`chained`: whether anybody wants the chain. `furthest`: bytes from the end."""
        self.chain = Chain()
        self.torn = False
        if path == "-":
            return
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                found = os.fstat(file.fileno())
                if stat.S_ISREG(found.st_mode):
                    self._read(file.fileno(), found.st_size, furthest if chained else 0)
        except OSError as error:
            if chained:
                log.warning("audit.chain_anew file=%s error=%s", path, error)

    def _read(self, descriptor: int, size: int, furthest: int) -> None:
        self.torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        if not furthest:
            return
        at = _last_link(descriptor, size, max(0, size - furthest))
        if at is None:
            raise OSError(f"its last {furthest} bytes have no link")
        while piece := os.pread(descriptor, min(_PIECE, size - at), at):
            self.chain.wrote(piece, 0)
            at += len(piece)


def _last_link(descriptor: int, size: int, start: int) -> int | None:
    """Where the last link begins, 0 where there is none; None if it is not behind `start`."""
    end = size
    while end > start:
        at = max(start, end - _PIECE)
        text = os.pread(descriptor, end - at, at)
        whole = text.find(b"\n") + 1 if at else 0  # what it begins with is the rest of a line
        if (found := chain.last_link(text[whole:])) >= 0:
            return at + whole + found
        if at == start:
            break
        end = at + _LAPPED
    return None if start else 0


def open_to_append(path: str) -> int:
    """A descriptor of `path`, created where it is not there (`-`: standard output).

    Raises `OSError`, also for a pipe that nobody reads: it does not wait for a reader.
    """
    if path == "-":
        return sys.stdout.fileno()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
    mode = os.fstat(descriptor).st_mode
    if not any(kind(mode) for kind in _KINDS):
        os.close(descriptor)
        raise OSError("neither a file nor a pipe")
    os.set_blocking(descriptor, True)
    return descriptor


def claim(descriptor: int, path: str) -> None:
    """Log it if another process claims the same file: of a chain that two write nothing is left."""
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.warning("audit.shared file=%s", path)
    except OSError:  # a file system without locks
        return


def emptied(descriptor: int) -> bool:
    """Whether it is of a file that holds nothing."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_size == 0

"""The audit file as it is found at a start or behind a rotation.

Knows: how it is opened, how it ends. Must not know: what its lines say.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from typing import Final

from gateway.accounting import chain

log = logging.getLogger(__name__)

# Bytes that are read of the end to find the last link, tried one after the other. What is written together, a link and
# what follows it, is at most half of the last.
_TAILS: Final = (64 * 1024, 1024 * 1024, 64 * 1024 * 1024)


class Found:
    """How a file ends: `torn` in the middle of a line, and `tail`, from its last link on; all of it where it has none.

    A stream, a pipe and a file that must not be read have an empty tail: their chain begins anew.
    """

    def __init__(self, path: str) -> None:
        self.tail = b""
        self.torn = False
        if path == "-":
            return
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                found = os.fstat(file.fileno())
                if stat.S_ISREG(found.st_mode):
                    self._read(file.fileno(), found.st_size)
        except OSError as error:
            log.warning("audit.chain_anew file=%s error=%s", path, error)

    def _read(self, descriptor: int, size: int) -> None:
        text, start = b"", 0
        for tail in _TAILS:
            start = max(0, size - tail)
            text = os.pread(descriptor, size - start, start)
            self.torn = bool(text) and not text.endswith(b"\n")
            if start:
                text = text[text.find(b"\n") + 1 :]  # what it begins with is the rest of a line
            if (at := chain.last_link(text)) >= 0:
                self.tail = text[at:]
                return
            if not start:
                self.tail = text
                return


def open_to_append(path: str) -> int:
    """A descriptor of `path`, created where it is not there (`-`: standard output). Raises `OSError`."""
    if path == "-":
        return sys.stdout.fileno()
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

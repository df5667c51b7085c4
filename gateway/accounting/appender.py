"""A file that is appended to in a thread of its own, so that a slow disk or a full pipe holds up nobody.

Knows: the descriptor, which nobody else uses; torn lines. Must not know: event loops, what the lines say.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Thread

log = logging.getLogger(__name__)


class Appender:
    """Owns the descriptor of `path` (`-`: standard output). What it is asked is done in order, one thing at a time.

    Nothing here waits but `close`. How much may wait in line is for the caller to bound, who is told by `then`, in the
    thread, that a thing is done.
    """

    def __init__(self, path: str) -> None:
        """Raises `OSError` when the file cannot be opened."""
        self._path = path
        self._descriptor = _open(path)
        self._failing = False
        self._torn = False
        #: Lines that were written or lost so far, and those of them that were lost; set by the thread alone.
        self.settled = 0
        self.lost = 0
        self._wanted: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon: a write that never returns must not keep the process from ending.
        self._thread = Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def append(self, lines: Sequence[bytes], then: Callable[[], None]) -> None:
        """Write `lines`, each with its end."""
        self._wanted.put(partial(self._append, lines, then))

    def reopen(self, then: Callable[[], None]) -> None:
        """Open the file anew. Where that fails it is logged, and the old one is kept."""
        self._wanted.put(partial(self._reopen, then))

    def close(self, limit: float) -> bool:
        """Do what is left and close; False when that took longer than `limit` seconds and was given up."""
        self._wanted.put(None)
        self._thread.join(limit)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            wanted()
        self._shut()

    def _append(self, lines: Sequence[bytes], then: Callable[[], None]) -> None:
        # What a write left of a line would swallow the next one.
        text = b"".join(lines) if not self._torn else b"".join((b"\n", *lines))
        left = memoryview(text)
        try:
            while left:
                written = self._write(left)
                self._torn = left[written - 1] != ord("\n")
                left = left[written:]
        except OSError as error:
            self.lost += min(bytes(left).count(b"\n"), len(lines))
            if not self._failing:
                log.error("audit.failing file=%s error=%s", self._path, error)  # noqa: TRY400  the reason is all there is to know
            self._failing = True
        else:
            self._failing = False
        self.settled += len(lines)
        then()

    def _write(self, text: memoryview) -> int:
        """How many bytes were taken, at least one."""
        while True:
            try:
                return os.write(self._descriptor, text)
            except BlockingIOError:  # whoever shares the pipe made it so; a reader that left wakes us as well
                room = select.poll()
                room.register(self._descriptor, select.POLLOUT)
                room.poll()

    def _reopen(self, then: Callable[[], None]) -> None:
        try:
            descriptor = _open(self._path)
        except OSError as error:
            log.error("audit.reopen_failed file=%s error=%s", self._path, error)  # noqa: TRY400  see above
        else:
            self._shut()
            self._descriptor, self._torn = descriptor, False
        then()

    def _shut(self) -> None:
        if self._path != "-":
            os.close(self._descriptor)


def _open(path: str) -> int:
    if path == "-":
        return sys.stdout.fileno()
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

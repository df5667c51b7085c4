"""A file that is appended to in a thread of its own, so that a slow disk or a full pipe holds up nobody.

Knows: the descriptor, which nobody else uses; torn lines, losses, the chain of what was really written.
Must not know: event loops, what the lines say.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread

from gateway.accounting import chain, files
from gateway.settings import Audit

log = logging.getLogger(__name__)

# Seconds between tries to write what was kept, and at most before what was written is on the disk (`fsync: interval`).
_AGAIN = 1.0
_SYNC = 1.0


class Appender:
    """Owns the descriptor of a file (`-`: standard output). What it is asked is done in order, one thing at a time.

    Nothing here waits but `close`. How much may wait in line is for the caller to bound, who is told by `then`, in the
    thread, that a thing is done. Lines that were refused by the system are lost, or kept and tried again (`block`).
    """

    def __init__(self, settings: Audit, changed: Callable[[], None] = lambda: None, *, begins: bool = True) -> None:
        """`changed` is called in the thread when `failing` changes. `begins`: the file is told so now, not at `begin`.

        Raises `OSError`: the file cannot be opened.
        """
        self._path = settings.file
        self._keeps = settings.on_full == "block"
        self._fsync = settings.fsync
        self._changed = changed
        self._descriptor = files.open_to_append(self._path)
        files.claim(self._descriptor, self._path)
        found = files.Found(self._path, chained=settings.chain)
        self._chain = found.chain if settings.chain else None
        #: Whether the file ends in the middle of a line; whether something was written that may not be on the disk.
        self._torn, self._unsynced, self._sync_failed = found.torn, False, False
        self._synced = self._tried = 0.0
        self._kept: deque[tuple[Sequence[bytes], Callable[[], None]]] = deque()
        #: What the file has yet to be told: what it begins with, and how many lines were lost.
        self._opening: Callable[[float], bytes] | None = None
        self._begun = False
        self._unsaid = 0
        #: True while the system refuses what it is given. Lines that were written or lost so far, and those of them
        #: that were lost. All are set by the thread alone.
        self.failing = False
        self.settled = 0
        self.lost = 0
        self._wanted: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        if begins:
            self.begin()
        # A daemon: a write that never returns must not keep the process from ending.
        self._thread = Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """From now on lines may come. A start that fails before this leaves nothing in the file."""
        self._wanted.put(self._begin)

    def append(self, lines: Sequence[bytes], then: Callable[[], None], missing: int = 0) -> None:
        """Write `lines`, each a JSON object with its end; `missing`: how many behind them were not taken."""
        self._wanted.put(partial(self._append, lines, then, missing))

    def reopen(self, then: Callable[[], None]) -> None:
        """Open the file anew. Where that fails it is logged, and the old one is kept."""
        self._wanted.put(partial(self._reopen, then))

    def close(self, limit: float) -> bool:
        """Do what is left and close; False when that took longer than `limit` seconds and was given up."""
        self._wanted.put(None)
        self._thread.join(limit)
        return not self._thread.is_alive()

    # -- in the thread

    def _run(self) -> None:
        while True:
            try:
                wanted = self._wanted.get(timeout=self._patience())
            except Empty:
                wanted = self._flush
            if wanted is None:
                break
            wanted()
            self._sync_in_time()
        self._end()

    def _patience(self) -> float | None:
        """Seconds until something is to be done unasked."""
        now = time.monotonic()
        if self.failing:
            return max(0.0, self._tried + _AGAIN - now)
        if self._unsynced and self._fsync != "never":
            return max(0.0, self._synced + _SYNC - now)
        return None

    def _begin(self) -> None:
        self._begun = True
        self._opening = chain.began if self._chain is not None else None
        self._flush()

    def _append(self, lines: Sequence[bytes], then: Callable[[], None], missing: int) -> None:
        if self._keeps:
            self._kept.append((lines, then))
            if not self.failing:
                self._flush()
        else:
            self._lose(len(self._write(lines)))
            self._settle(len(lines), then)
        self._unsaid += missing

    def _flush(self) -> None:
        """Write what was kept, as far as it goes, and what the file has to be told."""
        self._tried = time.monotonic()
        while self._kept:
            lines, then = self._kept.popleft()
            if left := self._write(lines):
                self._kept.appendleft((left, then))
                self._settle(len(lines) - len(left), _nothing)
                return
            self._settle(len(lines), then)
        if self._opening is not None or self.failing:
            self._write(())

    def _settle(self, lines: int, then: Callable[[], None]) -> None:
        self.settled += lines
        then()

    def _lose(self, lines: int) -> None:
        self.lost += lines
        self._unsaid += lines

    def _write(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Write `lines` behind what the file has to be told; those of them that are not in the file."""
        own, opening, gap = [], self._opening, self._unsaid
        if opening is not None:
            own = [opening(time.time())]
        elif self._chain is not None and gap:
            own = [chain.lost(gap, time.time())]
        whole = self._put([*own, *lines])
        if own and whole:
            whole -= 1
            if opening is not None:
                self._opening = None
            else:
                self._unsaid -= gap
        return lines[whole:]

    def _put(self, batch: list[bytes]) -> int:
        """How many of these lines are in the file afterwards, whole. The first is made a link."""
        if not batch:
            if self._torn and self.failing:  # all that is missing is the end of the last line
                self._note(self._mend())
            return 0
        written, text, error = 0, b"", self._mend()
        if error is None:
            if self._chain is not None:
                batch[0] = chain.linked(batch[0], self._chain.head())
            text = b"".join(batch)
            written, error = self._push(text, len(batch[0]))
        if error is None and (self._fsync == "always" or self._sync_failed):
            error = self._sync()
        self._note(error)
        return text.count(b"\n", 0, written + 1)  # one that lacks nothing but its end gets that in any case

    def _mend(self) -> OSError | None:
        """End a line that was cut short, which would swallow the next one, unless it is gone (`copytruncate`)."""
        if self._torn and files.emptied(self._descriptor):
            self._torn = False
        return self._push(b"\n", 0)[1] if self._torn else None

    def _push(self, text: bytes, link: int) -> tuple[int, OSError | None]:
        """Bytes that are in the file now, and why not all are. `link`: the length of the link that it begins with."""
        written, error = 0, None
        left = memoryview(text)
        try:
            while written < len(text):
                written += self._take(left[written:])
        except OSError as refused:
            error = refused
        if written:
            self._torn, self._unsynced = text[written - 1] != ord("\n"), True
            if self._chain is not None:
                self._chain.wrote(left[:written], link)
        return written, error

    def _take(self, text: memoryview) -> int:
        """How many bytes were taken, at least one."""
        while True:
            try:
                return os.write(self._descriptor, text)
            except BlockingIOError:  # whoever shares the pipe made it so; a reader that left wakes us as well
                room = select.poll()
                room.register(self._descriptor, select.POLLOUT)
                room.poll()

    def _note(self, error: OSError | None) -> None:
        """Whether it works; of several failures in a row the first is logged."""
        if error is not None and not self.failing:
            log.error("audit.failing file=%s error=%s", self._path, error)
        elif error is None and self.failing:
            log.info("audit.recovered file=%s", self._path)
        if self.failing != (error is not None):
            self.failing = error is not None
            self._changed()

    def _sync_in_time(self) -> None:
        """At most once in `_SYNC` seconds; also what `always` failed to do."""
        if self._unsynced and self._fsync != "never" and time.monotonic() >= self._synced + _SYNC:
            failed, error = self._sync_failed, self._sync()
            if error is not None or (failed and not self._kept):
                self._note(error)

    def _sync(self) -> OSError | None:
        self._synced = time.monotonic()
        try:
            if self._unsynced and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                os.fsync(self._descriptor)
        except OSError as error:
            self._sync_failed = True
            return error
        self._unsynced = self._sync_failed = False
        return None

    def _reopen(self, then: Callable[[], None]) -> None:
        try:
            descriptor = files.open_to_append(self._path)
        except OSError as error:
            log.error("audit.reopen_failed file=%s error=%s", self._path, error)  # noqa: TRY400  the reason is all there is to know
        else:
            if os.path.samestat(os.fstat(descriptor), os.fstat(self._descriptor)):
                torn = self._torn
            else:
                torn = files.Found(self._path, chained=False).torn
                self._conclude()
                if self._chain is not None and self._begun and self._opening is None:
                    self._opening = chain.continued
            self._shut()
            self._descriptor, self._torn = descriptor, torn
            files.claim(descriptor, self._path)
            self._flush()
        then()

    def _conclude(self) -> None:
        """Nothing follows in this file, and that stands in it."""
        if self._chain is not None and self._begun and self._opening is None and self._mend() is None:
            line = chain.ended(time.time(), self._chain.head())
            self._push(line, len(line))

    def _end(self) -> None:
        self._flush()
        for lines, then in self._kept:
            self._lose(len(lines))
            self._settle(len(lines), then)
        self._kept.clear()
        if self._unsaid:
            self._write(())
        self._conclude()
        self._shut()

    def _shut(self) -> None:
        if self._fsync != "never" and (error := self._sync()) is not None:
            self._note(error)
        if self._path != "-":
            os.close(self._descriptor)


def _nothing() -> None: ...

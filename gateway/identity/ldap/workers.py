"""Threads for what blocks: so many at once, so many that wait, and nobody waits for them at the end.

Knows: threads, a bounded queue. Must not know: what is done in them.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

Job = Callable[[], None]

# Seconds without work after which a thread ends.
IDLE: Final = 30.0

log = logging.getLogger(__name__)


class Workers:
    """At most `threads` jobs run, at most `waiting` more are queued. Threads are begun when they are needed, and are
    daemons: one that is stuck in a system call must not hold up the end of the process."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self._name = name
        self._limit = threads
        self._waiting = waiting
        self._queue: deque[Job] = deque()
        self._threads = 0
        self._busy = 0
        self._closed = False
        self._news = threading.Condition()

    def submit(self, job: Job) -> bool:
        """Have `job` done; False when too many wait already. It must not raise."""
        with self._news:
            if self._closed or self._busy + len(self._queue) >= self._limit + self._waiting:
                return False
            self._queue.append(job)
            self._news.notify()
            if self._threads < min(self._limit, self._busy + len(self._queue)):
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            return True

    def close(self) -> None:
        """No more jobs; threads end when those that wait are done."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception:  # a fault of ours; the thread is needed for others
                log.exception("worker.fault name=%s", self._name)
            with self._news:
                self._busy -= 1

    def _next(self) -> Job | None:
        with self._news:
            while not self._queue and not self._closed:
                if not self._news.wait(IDLE):
                    break
            if self._queue:
                self._busy += 1
                return self._queue.popleft()
            self._threads -= 1
            return None

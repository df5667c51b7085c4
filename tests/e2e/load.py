"""A steady load from threads: so many calls a second, each outcome counted.

Knows: pace, outcomes. Must not know: what a call is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: As many callers as let one slow answer not slow the pace.
CALLERS = 8


class Load:
    """Calls `call` `per_second` times a second until the `with` block ends; what it returns or raises is counted."""

    def __init__(self, call: Callable[[], object], per_second: float) -> None:
        self.outcomes: Counter[object] = Counter()
        self._call = call
        self._every = 1 / per_second
        self._began = 0.0
        self._slot = 0
        self._busy = 0
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(CALLERS)]

    def __enter__(self) -> Load:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    @property
    def done(self) -> int:
        """How many calls came to an end."""
        return sum(self.outcomes.values())

    @contextmanager
    def between_calls(self) -> Iterator[None]:
        """A moment in which no call is under way and none begins."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, 30)
            yield

    def _work(self) -> None:
        while not self._stop.wait(self._next()):
            with self._changed:
                self._busy += 1
            try:
                outcome = self._call()
            except Exception as error:  # noqa: BLE001  every way to fail is an outcome
                outcome = repr(error)
            with self._changed:
                self._busy -= 1
                self.outcomes[outcome] += 1
                self._changed.notify_all()

    def _next(self) -> float:
        """Seconds until the next free slot."""
        with self._changed:
            due = self._began + self._slot * self._every
            self._slot += 1
        return max(0.0, due - time.monotonic())

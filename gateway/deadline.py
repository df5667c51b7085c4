"""A deadline that is cheap to move: one timer, re-armed only when it fires early.

Knows: the loop's timers. Must not know: what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class Deadline:
    """Calls `passed` once when the set time has gone by. Moving it later costs an assignment, no timer."""

    __slots__ = ("_armed_for", "_at", "_loop", "_passed", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._at = inf
        self._armed_for = inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """The deadline is `seconds` from now; it replaces the one before."""
        self._at = at = self._loop.time() + seconds
        if at < self._armed_for:
            self._arm(at)

    def clear(self) -> None:
        """No deadline for now; a timer that is under way finds nothing to do."""
        self._at = inf

    def close(self) -> None:
        """No deadline any more, and nothing held, by the loop or here."""
        self._at = inf
        self._passed = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = at
        self._timer = self._loop.call_at(at, self._fired)

    def _fired(self) -> None:
        self._timer = None
        self._armed_for = inf
        if self._at == inf:
            return
        if self._loop.time() >= self._at:
            self._at = inf
            self._passed()
        else:
            self._arm(self._at)


def _nothing() -> None: ...

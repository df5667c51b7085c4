"""How many retries a pool may have on their way at one moment, so that a failing pool is not buried under repeats.

Knows: the share, the floor, what is out. Must not know: backends, calls, why somebody retries.
"""

from __future__ import annotations

from collections.abc import Callable

#: Retries on their way, as a share of the calls a pool carries: a fifth more load is what a loaded pool still bears.
SHARE = 0.2
#: Below 15 active calls a share would round to nearly nothing and the one retry that helps would be refused.
FLOOR = 3


class _Tally:
    """How many are out; shared by a pool's budgets before and after a reload."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0


class Retry:
    """A place in the budget; give it back with `release`. Giving it back twice counts once."""

    __slots__ = ("_tally",)

    def __init__(self, tally: _Tally) -> None:
        self._tally: _Tally | None = tally

    def release(self) -> None:
        """Give the place back."""
        tally, self._tally = self._tally, None
        if tally is not None:
            tally.taken -= 1


class Budget:
    """The retry budget of one pool: `max(FLOOR, SHARE of active)` retries at once.

    `active` gives the number of calls the pool carries now. `previous`: the budget before a reload; what is out of it
    stays counted.
    """

    __slots__ = ("_active", "_tally")

    def __init__(self, active: Callable[[], int], previous: Budget | None = None) -> None:
        self._active = active
        self._tally: _Tally = _Tally() if previous is None else previous._tally

    @property
    def taken(self) -> int:
        """Retries on their way."""
        return self._tally.taken

    @property
    def limit(self) -> int:
        """Retries that may be on their way at this moment."""
        return max(FLOOR, int(self._active() * SHARE))

    def try_take(self) -> Retry | None:
        """A place for one retry, or None when the budget is spent: then the failure goes to the caller."""
        if self._tally.taken >= self.limit:
            return None
        self._tally.taken += 1
        return Retry(self._tally)

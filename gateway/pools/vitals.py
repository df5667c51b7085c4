"""What is known of one backend at this moment: load, probed health, ready models, ejection, rest.

Knows: how evidence turns into "may be used from then on". Must not know: addresses, pools, balancing, probes' I/O.
Everything that changes sits in `Vitals` and is shared by the snapshots before and after a reload, so that a later
version can keep it in memory that several workers share. Times are monotonic seconds that are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import inf

from gateway.pools.ejection import FailureReason, Strikes

#: Longest rest a backend may ask for with `Retry-After`, in seconds: it must not be able to take itself out for a day.
LONGEST_REST = 60.0
#: After a refused connection others are preferred for this long, in seconds; ejection needs more evidence than one.
DOUBT = 1.0


class Health(Enum):
    """What the probes say. Only `UP` takes traffic: what was never seen to work is not used."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


class Standing:
    """The verdict on a row of probes: down after `fall` bad ones, up again after `rise` good ones.

    The first good probe ever admits at once: a new backend has not fallen, so there is nothing to make up for.
    """

    __slots__ = ("_row", "_was_up", "health")

    def __init__(self) -> None:
        self.health = Health.UNKNOWN
        self._row = 0
        self._was_up = False

    def judge(self, good: bool, fall: int, rise: int) -> bool:
        """Take one probe into account; True when the verdict changed."""
        wanted = Health.UP if good else Health.DOWN
        if self.health is wanted:
            self._row = 0
            return False
        self._row += 1
        needed = (rise if good else fall) if self._was_up else 1
        if self._row < needed:
            return False
        self.health, self._row = wanted, 0
        self._was_up = self._was_up or good
        return True


class Vitals:
    """The live state of one backend. `usable_from` sums it up for the hot path: the time from which calls may go there.

    `trusted_from` is later where a connection was refused a moment ago; `ready` holds the probed models that are ready.
    """

    __slots__ = (
        "_models", "doubted_until", "failures", "in_flight", "last_success", "next_probe", "ready", "resting_until",
        "standing", "strikes", "trusted_from", "usable_from",
    )  # fmt: skip

    def __init__(self) -> None:
        self.in_flight = 0
        self.standing = Standing()
        self.strikes = Strikes()
        self.ready: frozenset[str] = frozenset()
        self.failures = dict.fromkeys(FailureReason, 0)
        self.last_success = -inf
        self.next_probe = -inf
        self.resting_until = -inf
        self.doubted_until = -inf
        self._models: dict[str, Standing] = {}
        self.usable_from = inf
        self.trusted_from = inf

    @property
    def up(self) -> bool:
        """True while the probes say that the backend serves."""
        return self.standing.health is Health.UP

    def probed(self, good: bool, fall: int, rise: int) -> bool:
        """One probe of the backend as a whole; True when its health changed.

        Coming back ends an ejection. Going down forgets its models: a server that was restarted loads them anew.
        """
        returning = self.standing.health is Health.DOWN
        changed = self.standing.judge(good, fall, rise)
        if changed and good and returning:
            self.strikes.pardon()
            self.doubted_until = -inf
        if changed and not good:
            self.forget_models(())
        if changed:
            self.settle()
        return changed

    def model_probed(self, model: str, good: bool, fall: int, rise: int) -> bool:
        """One probe of one model; True when its readiness changed."""
        changed = self._models.setdefault(model, Standing()).judge(good, fall, rise)
        if changed:
            self.ready = self.ready | {model} if good else self.ready - {model}
        return changed

    def knows(self, models: Iterable[str]) -> bool:
        """True when each of these models was probed before."""
        return all(model in self._models for model in models)

    def forget_models(self, kept: Iterable[str]) -> None:
        """Drop what is known of all other models: they are no longer configured."""
        self._models = {model: self._models[model] for model in kept if model in self._models}
        self.ready = self.ready.intersection(self._models)

    def succeeded(self, now: float) -> None:
        """A call got a real answer."""
        self.last_success = now
        if self.strikes.count or self.doubted_until > now:
            self.strikes.clear()
            self.doubted_until = -inf
            self.settle()

    def doubt(self, now: float) -> None:
        """A connection was refused: prefer others for `DOUBT` seconds."""
        self.doubted_until = now + DOUBT
        self.settle()

    def rest_until(self, until: float, now: float) -> None:
        """The backend asked to be left alone until then; at most `LONGEST_REST` seconds are given."""
        self.resting_until = max(self.resting_until, min(until, now + LONGEST_REST))
        self.settle()

    def settle(self) -> None:
        """Sum up again, after something changed."""
        self.usable_from = max(self.strikes.until, self.resting_until) if self.up else inf
        self.trusted_from = max(self.usable_from, self.doubted_until)

"""Passive ejection: which failures of real calls count against a backend, and how long it is left out for them.

Knows: strikes, times, the share of a pool that may be out. Must not know: probes, balancing, sockets; the clock is
passed in (seconds, any monotonic origin).
"""

from __future__ import annotations

from enum import StrEnum

#: Consecutive failures that eject: fewer would let one broken request or one restart of a sidecar empty a pool.
STRIKES = 5
#: First ejection in seconds; the n-th within memory lasts n times as long, up to `LONGEST`.
BASE = 30.0
LONGEST = 300.0
#: Seconds of service that take one off n.
DECAY = 60.0
#: A failure is forgotten when nothing failed for this many seconds: strikes are about now, not about last night.
MEMORY = 60.0
#: At most this share of a pool may be out at once: when most backends fail, the fault is elsewhere.
SHARE = 0.5


class FailureReason(StrEnum):
    """What went wrong between the gateway and a backend; the value is the metric label `reason`."""

    CONNECT = "connect"
    RESET = "reset"
    STATUS = "status"
    FIRST_BYTE = "first_byte"
    IDLE = "idle"
    NONSENSE = "nonsense"
    TRUNCATED = "truncated"


#: A stream that breaks off half-way is reported and metered, but a long generation may die of its own length.
STRIKING = frozenset(FailureReason) - {FailureReason.TRUNCATED}

#: Answers that count as `FailureReason.STATUS`: the backend, or a proxy before it, says that it cannot serve. 500 is
#: often one bad request; 4xx, 429 included, is the caller's doing.
FAILING_STATUS = frozenset({502, 503, 504})


def room_for_one_more(total: int, ejected: int) -> bool:
    """True when one more of `total` backends may be out while `ejected` already are."""
    return ejected + 1 <= total * SHARE


class Strikes:
    """The failures of one backend in a row and the ejections they led to."""

    __slots__ = ("_last", "_level", "count", "ejections", "until")

    def __init__(self) -> None:
        self.count = 0
        self.ejections = 0
        self.until = 0.0
        self._last = 0.0
        self._level = 0

    def ejected(self, now: float) -> bool:
        """True while the backend is left out."""
        return now < self.until

    def clear(self) -> None:
        """A success: the row of failures is over. A running ejection goes on."""
        self.count = 0

    def strike(self, now: float) -> bool:
        """Count one failure; True when there are enough of them to eject. None counts while ejected."""
        if self.ejected(now):
            return False
        if now - self._last > MEMORY:
            self.count = 0
        self._last = now
        self.count += 1
        return self.count >= STRIKES

    def eject(self, now: float) -> float:
        """Leave the backend out; returns for how many seconds."""
        served = max(0.0, now - self.until)
        self._level = max(0, self._level - int(served / DECAY)) + 1
        span = min(BASE * self._level, LONGEST)
        self.until = now + span
        self.count = 0
        self.ejections += 1
        return span

    def pardon(self) -> None:
        """End a running ejection: the backend was seen to come back."""
        self.count = 0
        self.until = 0.0

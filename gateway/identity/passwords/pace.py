"""Failures counted and forgotten: how long somebody waits after so many, for a bounded number of somebodies.

Knows: arithmetic, a time that is passed in. Must not know: who is counted, and why.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import ceil

# Seconds. A caller is told so much at most (`Retry-After`), hence nobody waits longer.
LONGEST = 60.0

# Entries of a table, 300 bytes each. When all are taken, the oldest goes that is not being slowed down; those that were
# passed over count as new. So to be rid of one's own back-off takes a table of others that failed as often: for an
# account tried from one address 60 000 failed logins that were let through, from a few hundred addresses within
# minutes, and it wins the few tries that there are until it is slow again.
LIMIT = 20_000

# How many are passed over at most for one place.
LOOKED_AT = 256

# Seconds after which nobody speaks of a try any more: whoever began it was dropped, as a directory is whose settings
# changed. Otherwise its place would be taken for good.
LOST = 300.0


@dataclass(frozen=True, slots=True)
class Pace:
    """`free` failures cost nothing; then the next try waits 1, 2, 4, … seconds, at most `longest`.

    One failure is forgotten each `forgotten` seconds. `room`: how many more than the free ones may be under way before
    it is known how they end.
    """

    free: int
    longest: float
    forgotten: float
    room: int = 0

    def __post_init__(self) -> None:
        if self.free < 1 or self.room < 0 or self.forgotten <= 0 or not 1 <= self.longest <= LONGEST:
            raise ValueError("a pace has something free, and at most a minute to wait")

    @property
    def most(self) -> int:
        """Failures that count; more make nobody wait longer."""
        return self.free + self.room + ceil(self.longest).bit_length()

    def wait(self, failures: float) -> float:
        """Seconds from the last of so many failures to the next try."""
        beyond = ceil(failures) - self.free
        return min(self.longest, 2.0 ** min(beyond, 16)) if beyond >= 0 else 0.0

    def places(self, failures: float) -> int:
        """How many tries may be under way at once after so many failures."""
        return max(1, self.free + self.room - ceil(failures))


class _Mark:
    """Failures of one account, address or pair: `failures` as of `at`; the next try at `until`; `under_way` now, the
    last of them since `begun`."""

    __slots__ = ("at", "begun", "failures", "under_way", "until")

    def __init__(self) -> None:
        self.failures = 0.0
        self.at = self.begun = self.until = 0.0
        self.under_way = 0


class Marks:
    """The marks of one scope, oldest first, of a bounded number."""

    def __init__(self, pace: Pace, limit: int) -> None:
        self._pace = pace
        self._limit = limit
        self._marks: OrderedDict[bytes, _Mark] = OrderedDict()

    def __len__(self) -> int:
        return len(self._marks)

    def wait(self, key: bytes, now: float) -> float:
        """Seconds until the next try; 0 when it may come now."""
        mark = self._marks.get(key)
        if mark is None:
            return 0.0
        if self._under_way(mark, now) >= self._pace.places(self._left(mark, now)):
            return max(1.0, mark.until - now)  # until one of them has ended
        return max(0.0, mark.until - now)

    def begin(self, key: bytes, now: float) -> None:
        """A try is under way."""
        mark = self._at(key, now)
        mark.under_way = self._under_way(mark, now) + 1
        mark.begun = now

    def end(self, key: bytes, now: float) -> None:
        """It is not any more."""
        mark = self._marks.get(key)
        if mark is not None and mark.under_way:
            mark.under_way -= 1
            if self._spent(mark, now):
                del self._marks[key]

    def failures(self, key: bytes, now: float) -> float:
        """What still counts."""
        mark = self._marks.get(key)
        return 0.0 if mark is None else self._left(mark, now)

    def add(self, key: bytes, now: float) -> None:
        """One more failure."""
        mark = self._at(key, now)
        self._marks.move_to_end(key)
        mark.failures = min(self._left(mark, now) + 1, self._pace.most)
        mark.at = now
        mark.until = max(mark.until, now + self._pace.wait(mark.failures))

    def take(self, key: bytes, failures: float, now: float) -> None:
        """So many failures count no more."""
        mark = self._marks.get(key)
        if mark is not None:
            mark.failures = max(0.0, self._left(mark, now) - failures)
            mark.at = now
            mark.until = min(mark.until, now + self._pace.wait(mark.failures))
            if self._spent(mark, now):
                del self._marks[key]

    def _under_way(self, mark: _Mark, now: float) -> int:
        return mark.under_way if now - mark.begun < LOST else 0

    def _left(self, mark: _Mark, now: float) -> float:
        return max(0.0, mark.failures - max(0.0, now - mark.at) / self._pace.forgotten)

    def _spent(self, mark: _Mark, now: float) -> bool:
        return not self._under_way(mark, now) and not self._left(mark, now)

    def _at(self, key: bytes, now: float) -> _Mark:
        mark = self._marks.get(key)
        if mark is None:
            self._make_room(now)
            mark = self._marks[key] = _Mark()
        return mark

    def _make_room(self, now: float) -> None:
        while self._marks and self._spent(next(iter(self._marks.values())), now):
            self._marks.popitem(last=False)
        if len(self._marks) >= self._limit:
            del self._marks[self._least(now)]

    def _least(self, now: float) -> bytes:
        """The oldest that nobody waits for; those that were passed over count as new."""
        for _ in range(LOOKED_AT):
            key, mark = next(iter(self._marks.items()))
            if self._left(mark, now) < self._pace.free and not self._under_way(mark, now):
                break
            self._marks.move_to_end(key)
        return key

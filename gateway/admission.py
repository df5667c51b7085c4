"""Let a call in, or turn it away. Today everybody who is granted is let in and counted; caps and queues come here.

Knows: places. Must not know: backends, protocols.
"""

from __future__ import annotations

from collections import defaultdict


class Place:
    """A call in a pool, counted from `with` to its end. Keeps nothing of its own, so one serves all calls at once."""

    __slots__ = ("_counts", "_pool")

    def __init__(self, counts: defaultdict[str, int], pool: str) -> None:
        self._counts = counts
        self._pool = pool

    def __enter__(self) -> None:
        self._counts[self._pool] += 1

    def __exit__(self, *_: object) -> None:
        self._counts[self._pool] -= 1


class Admission:
    """Counts calls in each pool while they are under way."""

    def __init__(self) -> None:
        self.in_flight: defaultdict[str, int] = defaultdict(int)
        self._places: dict[str, Place] = {}

    def admit(self, pool: str) -> Place:
        """A place for one call: `with admission.admit(...):`."""
        place = self._places.get(pool)
        if place is None:
            place = self._places[pool] = Place(self.in_flight, pool)
        return place

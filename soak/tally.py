"""What became of every act: expected outcomes are counted, the others are kept with their words.

Must not know: what actors do.
"""

from __future__ import annotations

from collections import Counter

KEPT = 3  # unexpected outcomes of one actor that are told in full; after that they are only counted


class Tally:
    """Counts of (actor, outcome), and what went wrong."""

    __slots__ = ("outcomes", "told", "wrong")

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.wrong = 0
        self.told: list[str] = []

    def ended(self, actor: str, outcome: str) -> None:
        """As it may."""
        self.outcomes[(actor, outcome)] += 1

    def went_wrong(self, actor: str, error: BaseException) -> None:
        """As it must not."""
        self.wrong += 1
        self.outcomes[(actor, "UNEXPECTED")] += 1
        if self.outcomes[(actor, "UNEXPECTED")] <= KEPT:
            self.told.append(f"{actor}: {type(error).__name__}: {error}")

    @property
    def acts(self) -> int:
        return self.outcomes.total()

    @property
    def refused(self) -> int:
        """Acts that ended in another way than with a 200, as they had to."""
        return sum(n for (_, outcome), n in self.outcomes.items() if not outcome.startswith("200")) - self.wrong

    def lines(self) -> list[str]:
        """One line for each actor."""
        by_actor: dict[str, list[str]] = {}
        for (actor, outcome), count in sorted(self.outcomes.items()):
            by_actor.setdefault(actor, []).append(f"{count} {outcome}")
        return [f"{actor}: {', '.join(found)}" for actor, found in by_actor.items()]

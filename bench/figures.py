"""The arithmetic of the benchmark: spreads, quantiles, ratios of what was measured in turn.

Knows: numbers. Must not know: processes, sockets, which servers there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the middle and the greatest of some repeated measurements."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        return f"{short(self.low)} / {short(self.middle)} / {short(self.high)}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing measured: for each server, one value a round, in the order of the rounds."""

    key: str
    title: str
    unit: str
    values: dict[str, tuple[float, ...]]
    note: str = ""
    compared: bool = True  # a difference, which may be zero or less, has no ratio

    def __post_init__(self) -> None:
        if len({len(values) for values in self.values.values()}) > 1:
            raise ValueError(f"{self.key}: not every server was measured in every round")


@dataclass(frozen=True, slots=True)
class Goal:
    """What a measure has to reach: the gateway's value, or `beside` given, its ratio to that server's."""

    measure: str
    limit: float
    beside: str | None = None
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether `value` is on the right side of the limit; on it counts."""
        return value >= self.limit if self.at_least else value <= self.limit


def short(value: float) -> str:
    """A number with three significant digits and no exponent."""
    for above, digits in ((100.0, 0), (10.0, 1), (1.0, 2)):
        if abs(value) >= above:
            return f"{value:.{digits}f}"
    return f"{value:.3f}"


def spread(values: Sequence[float]) -> Spread:
    """Least, median and greatest of `values`; ValueError when there are none."""
    if not values:
        raise ValueError("nothing was measured")
    return Spread(min(values), median(values), max(values))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """The spread of ours/theirs, round by round: both of a pair were measured one after the other."""
    return spread([mine / other for mine, other in zip(ours, theirs, strict=True)])


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie, by nearest rank; ValueError when there are none."""
    if not values:
        raise ValueError("nothing was measured")
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


class Rounds:
    """Collects one value a round for each server, then gives the `Measure`."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, list[float]]] = {}

    def add(self, key: str, server: str, value: float) -> None:
        self._kept.setdefault(key, {}).setdefault(server, []).append(value)

    def measure(self, key: str, title: str, unit: str, note: str = "", compared: bool = True) -> Measure:
        """What was added under `key`; ValueError when a server missed a round."""
        kept = self._kept.get(key, {})
        return Measure(key, title, unit, {server: tuple(values) for server, values in kept.items()}, note, compared)

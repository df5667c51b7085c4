"""Where each finding holds: for which routes, callers, providers, versions, addresses and times.

Knows: the axes, and what on one of them does not matter. A finding that holds everywhere on an axis is told once.
Must not know: models by name, the engine, how findings are told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.call import Operation
from gateway.policy.diff.axes import Axes, Point, distinct
from gateway.policy.diff.both import Both, Covering
from gateway.policy.diff.bounds import PARTS_LIMIT, TooMuch
from gateway.policy.diff.relevance import relevant
from gateway.policy.diff.witnesses import Finding, findings


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding holds; None: wherever on this axis. `explicit`: on routes that a rule has to list by name."""

    explicit: bool | None
    groups_known: bool | None
    issuer: Point[str] | None
    version: Point[str | None] | None
    address: Point[str | None] | None
    time: Point[Any] | None


#: By finding: points on the axes that are left, None for all of one.
_Spread = dict[Finding, list[tuple[Any, ...]]]


class Spread:
    """The rules of both versions, and what was found out about some of them already."""

    def __init__(self, both: Both, axes: Axes) -> None:
        self._both = both
        self._axes: tuple[tuple[Point[Any], ...], ...] = (axes.issuers, axes.versions, axes.addresses, axes.times)
        self._known: dict[tuple[Covering, bool, int], _Spread] = {}
        self._parts = 0

    def of(self, name: str, operation: Operation) -> list[tuple[Finding, Place]]:
        """All findings for this operation on this model. Raises `TooMuch`."""
        found: _Spread = {}
        for explicit in (False, True):
            covering = self._both.covering(name, operation, explicit=explicit)
            whole: _Spread = {}
            for groups_known in (True, False):
                _put(whole, groups_known, self._along(covering, groups_known=groups_known, axis=0))
            _put(found, explicit, _joined(whole, 2))
        return [(finding, Place(*place)) for finding, places in _joined(found, 2).items() for place in places]

    def _along(self, covering: Covering, *, groups_known: bool, axis: int) -> _Spread:
        """What holds for these rules, and where on the axes from this one on."""
        if not covering.rules & self._both.changed:
            return {}
        rules = relevant(self._both, covering, groups_known=groups_known)
        covering = covering.narrowed(rules, rules)
        key = (covering, groups_known, axis)
        if key not in self._known:
            self._parts += 1
            if self._parts > PARTS_LIMIT:
                raise TooMuch(
                    "the rules tell too many combinations of providers, versions, addresses and times apart; "
                    "with --config only the configured models and providers are compared"
                )
            self._known[key] = self._points(covering, groups_known, axis)
        return self._known[key]

    def _points(self, covering: Covering, groups_known: bool, axis: int) -> _Spread:
        if axis == len(self._axes):
            before = self._both.ways(covering, self._both.old, groups_known=groups_known)
            after = self._both.ways(covering, self._both.new, groups_known=groups_known)
            return {} if before == after else {finding: [()] for finding in findings(before, after)}
        points = distinct(self._axes[axis], covering.rules)
        found: _Spread = {}
        for point in points:
            left = covering.narrowed(point.allowing, point.denying)
            _put(found, point, self._along(left, groups_known=groups_known, axis=axis + 1))
        return _joined(found, len(points))


def _put(found: _Spread, point: object, more: _Spread) -> None:
    for finding, places in more.items():
        found.setdefault(finding, []).extend((point, *place) for place in places)


def _joined(found: _Spread, points: int) -> _Spread:
    """The same, with None for the first axis where all its points are."""
    return {finding: list(_all(places, points)) for finding, places in found.items()}


def _all(places: Iterable[tuple[Any, ...]], points: int) -> Iterable[tuple[Any, ...]]:
    alike: dict[tuple[Any, ...], list[Any]] = {}
    for first, *rest in places:
        alike.setdefault(tuple(rest), []).append(first)
    for others, firsts in alike.items():
        yield from ((first, *others) for first in ([None] if len(firsts) == points else firsts))

"""All differences between two versions of a policy.

Knows: the order of the search, and when a difference is told once for many questions. Each one is held against the
engine before it is told. Pure: no clock, no I/O. Must not know: files, how differences are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, TypeVar

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.diff.axes import Axes, Point, axes, unnamed
from gateway.policy.diff.both import Both
from gateway.policy.diff.models import Named, models
from gateway.policy.diff.spread import Place, Spread
from gateway.policy.diff.witnesses import Element, Finding, Kind
from gateway.policy.engine import Decision, Policy, Why

V = TypeVar("V")

# Questions of one difference that are held against the engine: all of most, and some seconds' work of many thousands.
HELD_LIMIT: Final = 64


@dataclass(frozen=True, slots=True)
class Change:
    """For a caller with these `elements`, and for everybody who has more unless a rule says otherwise.

    `before` and `after` are what the engine decides for the first of all that this stands for.
    """

    kind: Kind
    elements: tuple[Element, ...]
    model: Named
    operation: Operation
    place: Place
    before: Decision
    after: Decision

    @property
    def grants(self) -> bool:
        """Whether anything is let in that was not."""
        return self.kind in {Kind.GRANTED, Kind.WIDER}


@dataclass(frozen=True, slots=True)
class Known:
    """What is configured: only this is compared. None: nothing is known, so that everything is."""

    models: tuple[Named, ...] | None = None
    issuers: tuple[str, ...] | None = None


Watch = Callable[[Sequence[Any]], Iterable[Any]]


def differences(
    old: Policy, new: Policy, now: float, *, known: Known | None = None, watch: Watch = iter
) -> tuple[Change, ...]:
    """Every difference, newly allowed first. `now`: a UNIX time in the year that is looked at. Raises `TooMuch`.

    `watch` goes through the questions and may show how far they are.
    """
    known = known or Known()
    return _Comparison(old, new, now, known).changes(watch)


class _Comparison:
    """Two policies and their rules as one set."""

    def __init__(self, old: Policy, new: Policy, now: float, known: Known) -> None:
        self._old, self._new = old, new
        self._both = Both(old.rules, new.rules)
        self._axes: Axes = axes(self._both, now, known.issuers)
        self._spread = Spread(self._both, self._axes)
        self._known = known
        self._nobody = unnamed("somebody", (user for rule in self._both.rules for user in rule.users))

    def changes(self, watch: Watch) -> tuple[Change, ...]:
        questions = list(product(models(self._both, self._known.models), Operation))
        found = [change for model, operation in watch(questions) for change in self._of(model, operation)]
        order = list(Kind)
        return tuple(sorted(found, key=lambda change: order.index(change.kind)))

    def _of(self, model: Named, operation: Operation) -> Iterator[Change]:
        """What changes for this operation on this model."""
        for finding, place in self._spread.of(model.name, operation):
            first: tuple[Decision, Decision] | None = None
            for principal, asked, at, peer in self._questions(finding, ModelRef(model.name, operation), place):
                before, after = (
                    policy.decide(principal, asked, policy.holding(at, peer)) for policy in (self._old, self._new)
                )
                _hold(finding.kind, before, after)
                first = first or (before, after)
            if first is not None:
                yield Change(finding.kind, tuple(sorted(finding.elements)), model, operation, place, *first)

    def _questions(
        self, finding: Finding, model: ModelRef, place: Place
    ) -> Iterator[tuple[Principal, ModelRef, float, str | None]]:
        """Of all that the finding stands for the first, and then each further name, provider, version, address, time.

        At most `HELD_LIMIT`.
        """
        having = sorted(finding.elements)
        issuers, versions = _values(place.issuer, self._axes.issuers), _values(place.version, self._axes.versions)
        addresses, times = _values(place.address, self._axes.addresses), _values(place.time, self._axes.times)
        explicit, known = _either(place.explicit, first=False), _either(place.groups_known, first=True)
        alike = [issuers, versions, addresses, times, explicit, known, *(element.names for element in having)]
        for turn in range(min(HELD_LIMIT, max(map(len, alike)))):
            of: dict[str, list[str]] = {kind: [] for kind in ("user", "client", "group", "scope")}
            for element in having:
                of[element.kind].append(_turned(element.names, turn))
            principal = Principal(
                subject=next(iter(of["user"]), self._nobody),
                issuer="",
                provider=_turned(issuers, turn),
                groups=frozenset(of["group"]),
                client=next(iter(of["client"]), None),
                scopes=frozenset(of["scope"]),
                groups_known=_turned(known, turn),
            )
            asked = replace(model, version=_turned(versions, turn), explicit=_turned(explicit, turn))
            yield principal, asked, _turned(times, turn).at, _turned(addresses, turn)


def _values(point: Point[V] | None, axis: tuple[Point[V], ...]) -> tuple[V, ...]:
    """What a point stands for; None: all of its axis."""
    points = axis if point is None else (point,)
    return tuple(value for one in points for value in (one.value, *one.others))


def _either(value: bool | None, *, first: bool) -> tuple[bool, ...]:
    return (first, not first) if value is None else (value,)


def _turned(values: Sequence[V], turn: int) -> V:
    return values[turn % len(values)]


_ALLOWED: Final = {
    Kind.GRANTED: (False, True),
    Kind.REVOKED: (True, False),
    Kind.WIDER: (True, True),
    Kind.NARROWER: (True, True),
}


def _hold(kind: Kind, before: Decision, after: Decision) -> None:
    """The search tells rules apart by itself; the engine has the last word."""
    if (before.why is Why.ALLOWED, after.why is Why.ALLOWED) != _ALLOWED[kind]:
        raise AssertionError(
            f"the engine says {before.why.value} and then {after.why.value}, which is not {kind.value}"
        )

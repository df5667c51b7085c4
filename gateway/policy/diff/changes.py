"""All differences between two versions of a policy.

Knows: the order of the search, and when a difference is told once for many questions. Each one is held against the
engine before it is told. Pure: no clock, no I/O. Must not know: files, how differences are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.diff.axes import Axes, axes, unnamed
from gateway.policy.diff.both import Both
from gateway.policy.diff.models import Named, models
from gateway.policy.diff.spread import Place, Spread
from gateway.policy.diff.witnesses import Element, Finding, Kind
from gateway.policy.engine import Decision, Policy, Why


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
            before, after = (
                self._decided(policy, finding, ModelRef(model.name, operation), place)
                for policy in (self._old, self._new)
            )
            change = Change(finding.kind, tuple(sorted(finding.elements)), model, operation, place, before, after)
            _hold(change)
            yield change

    def _decided(self, policy: Policy, finding: Finding, model: ModelRef, place: Place) -> Decision:
        """What the engine says for the first of all that the finding stands for."""
        having: dict[str, list[str]] = {kind: [] for kind in ("user", "client", "group", "scope")}
        for element in finding.elements:
            having[element.kind].append(element.names[0])
        principal = Principal(
            subject=next(iter(having["user"]), self._nobody),
            issuer="",
            provider=(place.issuer or self._axes.issuers[0]).value,
            groups=frozenset(having["group"]),
            client=next(iter(having["client"]), None),
            scopes=frozenset(having["scope"]),
            groups_known=place.groups_known is not False,
        )
        asked = replace(
            model,
            version=(place.version or self._axes.versions[0]).value,
            explicit=bool(place.explicit),
        )
        at, peer = (place.time or self._axes.times[0]).value, (place.address or self._axes.addresses[0]).value
        return policy.decide(principal, asked, policy.holding(at.at, peer))


_ALLOWED: Final = {
    Kind.GRANTED: (False, True),
    Kind.REVOKED: (True, False),
    Kind.WIDER: (True, True),
    Kind.NARROWER: (True, True),
}


def _hold(change: Change) -> None:
    """The search tells rules apart by itself; the engine has the last word."""
    decided = change.before.why is Why.ALLOWED, change.after.why is Why.ALLOWED
    if decided != _ALLOWED[change.kind]:
        raise AssertionError(f"the engine does not agree with {change}")

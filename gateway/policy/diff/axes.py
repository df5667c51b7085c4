"""What a question hangs on beside caller, model and operation: provider, version, address and time, as few of each as
the rules tell apart.

Knows: which values rules name. Must not know: callers, how rules decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, count
from typing import Generic, TypeVar

from gateway.policy.diff.both import Both, by_address, by_issuer, by_time, by_version, networks, windows
from gateway.policy.diff.places import addresses
from gateway.policy.diff.times import Instant, instants

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Point(Generic[V]):
    """A value, the rules it leaves over (those that allow, those that deny), and what it stands for beside itself.

    `rest`: it stands for every value, too, that no rule names.
    """

    value: V
    allowing: int
    denying: int
    others: tuple[V, ...] = ()
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Axes:
    """The points of each axis."""

    issuers: tuple[Point[str], ...]
    versions: tuple[Point[str | None], ...]
    addresses: tuple[Point[str | None], ...]
    times: tuple[Point[Instant], ...]


def axes(both: Both, now: float, issuers: Iterable[str] | None) -> Axes:
    """All that either version names, and one value beside. `issuers`: those that there are; None: nobody knows."""
    named = sorted({issuer for rule in both.rules for issuer in rule.issuers})
    known = [*named, unnamed("other", named)] if issuers is None else sorted(issuers)
    versions = sorted({version for rule in both.rules for version in rule.versions}, key=lambda text: (len(text), text))
    another = next(str(number) for number in count(1) if str(number) not in versions)
    at_version: list[Point[str | None]] = [
        Point(version, *by_version(both, version), rest=version == another) for version in (None, *versions, another)
    ]
    at_address, at_time = by_address(both), by_time(both)
    return Axes(
        tuple(_same(issuer, by_issuer(both, issuer), rest=issuers is None and issuer not in named) for issuer in known),
        tuple(at_version),
        tuple(_same(peer, at_address(peer)) for peer in addresses(networks(both.rules))),
        tuple(_same(moment, at_time(moment.at)) for moment in instants(windows(both.rules), now)),
    )


def unnamed(word: str, taken: Iterable[str]) -> str:
    """A name that is none of `taken`."""
    names = set(taken)
    return next(name for name in chain([word], (f"{word}-{number}" for number in count(2))) if name not in names)


def _same(value: V, rules: int, *, rest: bool = False) -> Point[V]:
    return Point(value, rules, rules, rest=rest)


def distinct(points: Iterable[Point[V]], rules: int) -> tuple[Point[V], ...]:
    """One point for all that leave the same of `rules`: the first."""
    alike: dict[tuple[int, int], list[Point[V]]] = {}
    for point in points:
        alike.setdefault((point.allowing & rules, point.denying & rules), []).append(point)
    return tuple(
        Point(
            found[0].value,
            found[0].allowing,
            found[0].denying,
            (*found[0].others, *(value for point in found[1:] for value in (point.value, *point.others))),
            any(point.rest for point in found),
        )
        for found in alike.values()
    )

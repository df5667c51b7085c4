"""Order backends for a call, best first.

Knows: weights and load. Must not know: health, discovery, HTTP. It is given backends that may be used, and orders them
lazily: most calls take the first and never ask for a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Protocol, TypeVar


class Loaded(Protocol):
    """What changes about a backend."""

    in_flight: int


class Weighed(Protocol):
    """What a balancer sees of a backend."""

    @property
    def weight(self) -> int: ...
    @property
    def vitals(self) -> Loaded: ...


B = TypeVar("B", bound=Weighed)


class _Turns:
    """Smooth weighted round robin: each pick raises everybody by its weight and lowers the chosen by the sum.

    Only those present take part, so one that is left out keeps its place: it neither skews the others nor gets a
    burst when it returns. `skip` picks are thrown away first, so that several workers do not start with the same one.
    """

    __slots__ = ("_credit", "_skip")

    def __init__(self, skip: int) -> None:
        # One entry for each backend of the pool this balancer was built for: bounded by its size.
        self._credit: dict[Weighed, int] = {}
        self._skip = skip

    def pick(self, backends: Sequence[B]) -> B:
        """Whose turn it is. `backends` is not empty."""
        if self._skip:
            skip, self._skip = self._skip % sum(backend.weight for backend in backends), 0
            for _ in range(skip):
                self.pick(backends)
        credit = self._credit
        total, best, most = 0, backends[0], None
        for backend in backends:
            weight = backend.weight
            total += weight
            credit[backend] = mine = credit.get(backend, 0) + weight
            if most is None or mine > most:
                best, most = backend, mine
        credit[best] -= total
        return best


class RoundRobin:
    """Everybody in turn, by weight."""

    __slots__ = ("_firsts", "_others")

    def __init__(self, seed: int = 0) -> None:
        self._firsts = _Turns(seed)
        self._others = _Turns(seed)

    def first(self, backends: Sequence[B]) -> B:
        """Whose turn it is."""
        return self._firsts.pick(backends)

    def rest(self, backends: Sequence[B]) -> Iterator[B]:
        """Second choices, best first, each once.

        They take turns of their own, so that retries spread evenly as well.
        """
        return _drawn(self._others.pick, backends)


class LeastConnections:
    """The smallest number of calls in flight for its weight; those that tie take turns, by weight."""

    __slots__ = ("_firsts", "_others")

    def __init__(self, seed: int = 0) -> None:
        self._firsts = _Turns(seed)
        self._others = _Turns(seed)

    def first(self, backends: Sequence[B]) -> B:
        """The emptiest."""
        return _emptiest(backends, self._firsts)

    def rest(self, backends: Sequence[B]) -> Iterator[B]:
        """Second choices, the emptiest first, each once; load is read when one is asked for."""
        return _drawn(lambda left: _emptiest(left, self._others), backends)


def _emptiest(backends: Sequence[B], turns: _Turns) -> B:
    least = inf
    tied: list[B] = []
    for backend in backends:
        load = backend.vitals.in_flight / backend.weight
        if load < least:
            least, tied = load, [backend]
        elif load == least:
            tied.append(backend)
    return tied[0] if len(tied) == 1 else turns.pick(tied)


def _drawn(pick: Callable[[Sequence[B]], B], backends: Sequence[B]) -> Iterator[B]:
    """Again and again one of those that are left."""
    left = list(backends)
    while left:
        best = pick(left)
        yield best
        left.remove(best)


class Balancer(Protocol):
    """Orders backends for a call, of whatever kind they are. Its state is only its own cursor."""

    def first(self, backends: Sequence[B], /) -> B:
        """The best of them; there is at least one."""
        ...

    def rest(self, backends: Sequence[B], /) -> Iterator[B]:
        """For a call that has to be sent again: best first, each once."""
        ...


#: Configuration word -> balancer, built with a seed: the number of the worker, so that workers start at different ones.
BALANCERS: Mapping[str, Callable[[int], Balancer]] = MappingProxyType(
    {"round_robin": RoundRobin, "least_connections": LeastConnections}
)

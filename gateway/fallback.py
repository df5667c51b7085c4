"""Which model serves a call where there is a choice: one of those that share a name, the next where one cannot.

Each is authorized as itself and asked under the terms of its own grant. One that is not granted, that the call does not
fit, or that has nobody to serve it is passed over in silence: nothing of it reaches the caller.
Knows: the order, what a model needs before it takes a call. Must not know: when a call is given up, how it is relayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.attempts import Attempts
from gateway.call import Principal
from gateway.errors import Refusal
from gateway.exchange import Exchange
from gateway.seams import Authorize, Choice, Meet, Met, Resolved, Way


def drawn(choice: Choice, principal: Principal, holding: int, policy: Authorize) -> Resolved:
    """The call for the best that is granted; where none is, for the best, which is then refused like any other."""
    ways = choice.ranked(principal)
    for way in ways:
        try:
            for need in way.needs:
                policy.authorize(principal, need, holding)
        except Refusal:
            continue
        return way.resolved()
    return ways[0].resolved()


class Turn:
    """A call as it goes to one model."""

    __slots__ = ("attempts", "met")

    def __init__(self, met: Met, attempts: Attempts) -> None:
        self.met: Final = met
        self.attempts: Final = attempts


class Fallback:
    """The models that may stand in for one, for one call; its body is in memory.

    `attempts`: those on the model that was asked for; the retries that are left are left for all models together.
    """

    __slots__ = (
        "_attempts", "_exchange", "_next", "_others", "_policy", "_principal", "_terms", "_ways", "holding"
    )  # fmt: skip

    def __init__(
        self,
        others: Choice,
        principal: Principal,
        holding: int,
        policy: Authorize,
        terms: Meet,
        exchange: Exchange,
        attempts: Attempts,
    ) -> None:
        self._others = others
        self._principal = principal
        self.holding: Final = holding
        self._policy = policy
        self._terms = terms
        self._exchange = exchange
        self._attempts = attempts
        self._ways: Iterator[Way] | None = None
        self._next: Turn | None = None

    def another(self) -> bool:
        """Whether an answer of 502, 503 or 504 is to be replaced: by another backend, else by another model.

        Somebody was busy with the call, so it counts as a retry there too: calls that a pool has no room for must not
        fill the next one.
        """
        return self._attempts.another() or self.ready(busy=True)

    def ready(self, *, busy: bool = False) -> bool:
        """Whether another model takes the call. `busy`: only one whose pool has room for a retry."""
        if self._ways is None:
            self._ways = iter(self._others.ranked(self._principal))
        while self._next is None:
            way = next(self._ways, None)
            if way is None:
                return False
            self._next = self._turn(way, busy)
        return True

    def take(self) -> Turn:
        """The turn that is ready."""
        turn, self._next = self._next, None
        assert turn is not None  # noqa: S101  `ready` said so
        self._attempts = turn.attempts
        return turn

    def close(self) -> None:
        """Give back what a turn took that was never made."""
        if self._next is not None:
            self._next.attempts.close()

    def _turn(self, way: Way, busy: bool) -> Turn | None:
        try:
            grants = tuple([self._policy.authorize(self._principal, need, self.holding) for need in way.needs])
            asked = way.resolved()
            if asked.wrong is not None:
                return None
            met = self._terms.held(asked, grants, self._exchange)
        except Refusal:
            return None
        asked = met.resolved
        attempts = Attempts(asked.pool, met.grant.model.name, asked.payload, self._exchange.body, self._attempts.left)
        return Turn(met, attempts) if attempts.begin(counted=busy) else None

"""Where a JSON call for one name goes: to a model or what stands in for it, or to one of those that share the name.

Knows: what follows from the head of a request and a configured name. Must not know: bodies, who is granted what.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.call import ModelRef, Principal
from gateway.pools.backends import Pool
from gateway.resolve import shares


@dataclass(frozen=True, slots=True)
class Plan:
    """A call for one model; there are as many as there are configured names, streamed or not.

    `sent`: the name as the backend knows it. `others`: the models that may stand in for it, best first.
    """

    sent: str
    needs: tuple[ModelRef, ...]
    pool: Pool
    limit: int
    others: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """A call for a name that several models share, each with its weight."""

    name: str
    plans: tuple[tuple[Plan, int], ...]

    def ranked(self, principal: Principal) -> list[Plan]:
        """The models in the order this caller takes them."""
        weights = [(plan.needs[0].name, weight) for plan, weight in self.plans]
        order = shares.ranked((principal.provider, principal.subject), self.name, weights)
        return [self.plans[place][0] for place in order]

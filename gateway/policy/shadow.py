"""A policy that is only tried: it decides what the policy in force has decided, and the differences are counted.

Knows: both decisions of a call, how many differences are written down. Pure: the time comes in.
Must not know: files, HTTP, what becomes of a call; nothing here reaches a caller.
"""

from __future__ import annotations

import logging

from gateway.accounting.tallies import Tallies
from gateway.call import Call, Difference, Grant, ModelRef, Principal
from gateway.errors import Refusal
from gateway.policy.engine import Policy
from gateway.terms import NO_TERMS, Terms

log = logging.getLogger(__name__)

SAME = "same"
WOULD_ALLOW = "would_allow"
WOULD_DENY = "would_deny"
OTHER_TERMS = "other_terms"

# Differences written into audit lines in one minute: enough to see who is meant, and no flood where all of them differ.
SAMPLES = 100
_MINUTE = 60.0

_Noted = tuple[Policy, Principal, tuple[ModelRef, ...], int, tuple[Grant, ...], Difference]


class Shadow:
    """Tries `policy`, if there is one, beside the one in force. Never raises: a fault is counted, and said once."""

    def __init__(self, policy: Policy | None, tallies: Tallies) -> None:
        self.policy = policy
        self._tallies = tallies
        self._failed = False
        self._minute = 0.0
        self._samples = 0

    def take(self, policy: Policy | None) -> None:
        """Try this one from now on."""
        self.policy, self._failed = policy, False

    def compare(
        self, call: Call, principal: Principal, needs: tuple[ModelRef, ...], at: float, grants: tuple[Grant, ...]
    ) -> Difference | None:
        """What would be other than `grants` (none: denied) for a call `at` this UNIX time; None for what is not to be
        written down: no difference, or one too many."""
        policy = self.policy
        if policy is None:
            return None
        try:
            found = self._found(policy, call, principal, needs, at, grants)
        except Exception:  # whatever is wrong with what is only tried, the call goes on
            self._tallies.shadow_failures += 1
            if not self._failed:
                self._failed = True
                log.exception("shadow.failed request_id=%s; told once until the files change", call.id)
            return None
        self._tallies.shadow_decisions[(found.result, found.rule)] += 1
        return found if found.result != SAME and self._sampled(at) else None

    def _found(
        self,
        policy: Policy,
        call: Call,
        principal: Principal,
        needs: tuple[ModelRef, ...],
        at: float,
        grants: tuple[Grant, ...],
    ) -> Difference:
        """The same as for the last call with this head, as long as the same is asked and decided."""
        holding = policy.holding(at, call.peer)
        noted: _Noted | None = call.derived.get(self)
        if (
            noted is not None
            and noted[0] is policy
            and noted[1] is principal
            and noted[2] is needs
            and noted[3] == holding
            and noted[4] is grants
        ):
            return noted[5]
        found = _decided(policy, principal, needs, holding, grants)
        call.note(self, (policy, principal, needs, holding, grants, found))
        return found

    def _sampled(self, at: float) -> bool:
        if not 0 <= at - self._minute < _MINUTE:
            self._minute, self._samples = at, 0
        self._samples += 1
        if self._samples <= SAMPLES:
            return True
        self._tallies.shadow_unwritten += 1
        return False


def _decided(
    policy: Policy, principal: Principal, needs: tuple[ModelRef, ...], holding: int, grants: tuple[Grant, ...]
) -> Difference:
    try:
        mine = [policy.authorize(principal, model, holding) for model in needs]
    except Refusal as refusal:
        refusal.__traceback__ = refusal.__context__ = None  # see `Pipeline._refuse`
        return Difference(WOULD_DENY if grants else SAME, refusal.rule)
    if not grants:
        return Difference(WOULD_ALLOW, mine[0].rule)
    same = list(map(_asked, mine)) == list(map(_asked, grants))
    return Difference(SAME if same else OTHER_TERMS, mine[0].rule)


def _asked(grant: Grant) -> frozenset[Terms]:
    """What the call has to meet one of, whichever rules ask it."""
    return frozenset(terms for _, terms in grant.terms) or frozenset((NO_TERMS,))

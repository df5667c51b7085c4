"""Hold a policy against its cases: which of them pass, and which rules they prove.

Pure. Knows: cases, decisions, which rules hang on time and address. Must not know: files, what is printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.policy.cases import Case
from gateway.policy.conditions import address_of, within
from gateway.policy.engine import Decision, Policy, Why
from gateway.policy.rules import Effect, Rule
from gateway.terms import NO_TERMS, Terms

NO_TIME = "say 'at': the outcome depends on the time"
NO_ADDRESS = "say 'from': the outcome depends on the address"
NEITHER = "say 'at' and 'from': the outcome depends on them"


@dataclass(frozen=True, slots=True)
class Tried:
    """A case and what came of it. `wrong`: why it does not pass. `proves`: the rule without which it would not.

    `decision` None: it hangs on what the case does not say.
    """

    case: Case
    decision: Decision | None
    wrong: str = ""
    proves: Rule | None = None

    @property
    def passed(self) -> bool:
        return not self.wrong


@dataclass(frozen=True, slots=True)
class Coverage:
    """The rules of a policy, and those of them that no passing case would miss."""

    rules: int
    uncovered: tuple[Rule, ...]

    @property
    def percent(self) -> float:
        return 100 * (self.rules - len(self.uncovered)) / self.rules if self.rules else 100.0


def tried(policy: Policy, case: Case) -> Tried:
    """What the policy makes of the case.

    A case that says no time, or no address, is decided only where every time, or address, leads to the same decision.
    """
    strict, lenient = _held(policy, case)
    decision = policy.decide(case.caller, case.model, strict)
    if strict != lenient:
        # Each rule that holds moves the decision one way, so between two ends that are the same nothing else lies.
        other = policy.decide(case.caller, case.model, lenient)
        if (decision.why, decision.rule) != (other.why, other.rule) or (case.terms and decision.terms != other.terms):
            return Tried(case, None, _unsaid(policy, case))
    if wrong := _wrong(policy, case, decision):
        return Tried(case, decision, wrong)
    return Tried(case, decision, proves=_proved(policy, case, decision, strict))


def coverage(policy: Policy, results: Iterable[Tried]) -> Coverage:
    """Which rules the cases that pass prove."""
    proved = {result.proves.id for result in results if result.proves is not None}
    return Coverage(len(policy.rules), tuple(rule for rule in policy.rules if rule.id not in proved))


def told(decision: Decision) -> str:
    """In words: the outcome, and by which rule."""
    rule = decision.rule
    if decision.why is Why.GROUPS:
        return "deny: the caller's groups are not known"
    if rule is None:
        return "deny: no rule allows it"
    return f"{'allow' if decision.why is Why.ALLOWED else 'deny'} by {rule.id} at {rule.place}"


def wanted(case: Case) -> str:
    """In words: what the case expects."""
    return ("allow" if case.allowed else "deny") + (f" by {case.rule}" if case.rule else "")


def _held(policy: Policy, case: Case) -> tuple[int, int]:
    """The rules that hold where what the case does not say goes against the caller, and in favour of them."""
    if case.at is not None and case.peer is not None:
        holding = policy.holding(case.at, case.peer)
        return holding, holding
    strict = lenient = 0
    for number, rule in enumerate(policy.rules):
        holds = _holds(rule, case)
        denies = rule.effect is Effect.DENY
        strict |= (holds if holds is not None else denies) << number
        lenient |= (holds if holds is not None else not denies) << number
    return strict, lenient


def _holds(rule: Rule, case: Case) -> bool | None:
    """Whether the rule's conditions do; None where that hangs on what the case does not say."""
    window, networks = rule.window, rule.networks
    in_time = (None if case.at is None else window.holds(case.at)) if window is not None else True
    in_place = (None if case.peer is None else within(address_of(case.peer), networks)) if networks else True
    if False in {in_time, in_place}:
        return False
    return None if None in {in_time, in_place} else True


def _unsaid(policy: Policy, case: Case) -> str:
    """What the case has to say."""
    time = case.at is None and any(rule.window is not None for rule in policy.rules)
    place = case.peer is None and any(rule.networks for rule in policy.rules)
    return NEITHER if time and place else NO_TIME if time else NO_ADDRESS


def _wrong(policy: Policy, case: Case, decision: Decision) -> str:
    allowed = decision.why is Why.ALLOWED
    if allowed is not case.allowed:
        return f"expected {wanted(case)}, got {told(decision)}"
    if case.terms is not None and (other := [rule for rule, terms in _terms(decision) if terms != case.terms]):
        return f"expected other limits or engine_fields than those of {', '.join(other)}"
    if case.rule is None or _decided(decision) == case.rule:
        return ""
    unknown = "" if any(rule.id == case.rule for rule in policy.rules) else " (there is no such rule)"
    return f"expected {wanted(case)}{unknown}, got {told(decision)}"


def _terms(decision: Decision) -> tuple[tuple[str, Terms], ...]:
    """Those under which the call is let in, each with its rule."""
    return decision.terms or ((_decided(decision) or "", NO_TERMS),)


def _decided(decision: Decision) -> str | None:
    """The id of the rule that allowed or denied."""
    return decision.rule.id if decision.rule is not None and decision.why is not Why.GROUPS else None


def _proved(policy: Policy, case: Case, decision: Decision, holding: int) -> Rule | None:
    """The deciding rule, if the case would not pass without it."""
    rule = decision.rule
    if rule is None or _decided(decision) is None:
        return None
    without = policy.decide(case.caller, case.model, holding & ~(1 << policy.rules.index(rule)))
    return rule if _wrong(policy, case, without) else None

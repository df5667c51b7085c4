"""Why a decision came out as it did: which rule decided, and which rules would have let in but for one thing.

Knows: what a rule can ask of a call, in words. Pure: the time and the address come in.
Must not know: files, tokens, how an explanation is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from gateway.call import Grant, ModelRef, Operation, Principal
from gateway.errors import Refusal, UnknownModel
from gateway.globs import compile_glob
from gateway.policy.asked import Asked, Respect
from gateway.policy.conditions import address_of, within
from gateway.policy.engine import NOTHING, Decision, Policy, Why
from gateway.policy.mending import mended
from gateway.policy.moments import shown, spoken
from gateway.policy.rules import VERSION, Effect, Rule

#: Near misses that are told; a policy may have ten thousand rules, and nobody reads more.
NEAR_MISSES: Final = 10

# Names of one kind that are written out.
_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class Lack:
    """The one thing that kept a rule from letting in, in words that follow "lacks: "."""

    respect: Respect
    text: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    rule: Rule
    lack: Lack


@dataclass(frozen=True, slots=True)
class Explanation:
    """`reason`: a sentence. `code`, `status`: what the caller gets, `ok` and 200 where the rules let the call pass.

    `near_misses`: rules that allow and lack one thing, with which they would let the call in, whatever others deny;
    `more` of them are not told, `farther` ones lack several.
    """

    decision: Decision
    reason: str
    code: str
    status: int
    near_misses: tuple[NearMiss, ...] = ()
    more: int = 0
    farther: int = 0

    @property
    def allowed(self) -> bool:
        """Whether the rules let the call pass."""
        return self.decision.why is Why.ALLOWED


def explain(policy: Policy, asked: Asked) -> Explanation:
    """The decision, and what would have made it another one."""
    holding = policy.holding(asked.at, asked.peer)
    decision = policy.decide(asked.principal, asked.model, holding)
    code, status = _answer(policy, asked, holding)
    if decision.why is Why.ALLOWED:
        return Explanation(decision, _reason(decision, asked), code, status)
    near, farther = _near(policy, asked, decision)
    told = tuple(near[:NEAR_MISSES])
    return Explanation(decision, _reason(decision, asked), code, status, told, len(near) - len(told), farther)


def unserved(asked: Asked) -> Explanation:
    """Of a model that nothing is called: no rule is asked."""
    missing = UnknownModel()
    return Explanation(NOTHING, f"no pool serves {asked.model.name}, so no rule is asked", missing.code, missing.status)


def _answer(policy: Policy, asked: Asked, holding: int) -> tuple[str, int]:
    made = outcome(policy, asked, holding)
    return ("ok", 200) if isinstance(made, Grant) else (made.code, made.status)


def outcome(policy: Policy, asked: Asked, holding: int) -> Grant | Refusal:
    """What a call gets."""
    try:
        return policy.authorize(asked.principal, asked.model, holding)
    except Refusal as refusal:
        return refusal


def _reason(decision: Decision, asked: Asked) -> str:
    rule = decision.rule
    if rule is None:
        return "no rule allows it, and what no rule allows is denied"
    place = f"{rule.id} ({rule.place})"
    if decision.why is Why.ALLOWED:
        return f"{place} allows it, and no rule denies it"
    if decision.why is Why.DENIED:
        return f"{place} denies it, and a rule that denies wins over any that allows"
    return _might(asked, rule)


def _might(asked: Asked, rule: Rule) -> str:
    hangs = "might deny it" if rule.effect is Effect.DENY else "might allow it"
    whose = asked.principal.subject or "the caller"
    return f"the groups of {whose} are not all known, and {rule.id} ({rule.place}) {hangs}"


def _near(policy: Policy, asked: Asked, decision: Decision) -> tuple[list[NearMiss], int]:
    """The rules that allow and lack one thing, and how many lack more."""
    denying = decision.rule if decision.rule is not None and decision.rule.effect is Effect.DENY else None
    by_infer = _infer_stands_in(policy, asked)
    denies = _denying_at_times(policy, asked)
    # One that only might deny does not, once the groups are known.
    removed = denying if decision.why is Why.DENIED else None
    shut = sum(1 << n for n, rule in enumerate(policy.rules) if rule.effect is Effect.DENY and rule is not removed)
    near: list[NearMiss] = []
    farther = 0
    for number, rule in enumerate(policy.rules):
        if rule.effect is Effect.DENY:
            continue
        lacks = list(lacking(rule, asked, infer_stands_in=by_infer))
        if removed is not None:
            lacks.append(Lack(Respect.DENIED, f"nothing of its own; {removed.id} ({removed.place}) denies it"))
        elif denying is not None and all(lack.respect is not Respect.GROUPS_UNKNOWN for lack in lacks):
            lacks.append(Lack(Respect.GROUPS_UNKNOWN, _might(asked, denying)))
        # With the one thing it lacks, other rules may deny: then it lacks more than that.
        if len(lacks) == 1 and _let_in(policy, shut | 1 << number, mended(rule, lacks[0].respect, asked, denies)):
            near.append(NearMiss(rule, lacks[0]))
        else:
            farther += 1
    return near, farther


def _let_in(policy: Policy, rules: int, ways: Iterable[Asked]) -> bool:
    """Whether these rules of the policy, one bit each, let in any of these."""
    return any(
        policy.decide(one.principal, one.model, rules & policy.holding(one.at, one.peer)).why is Why.ALLOWED
        for one in ways
    )


def _infer_stands_in(policy: Policy, asked: Asked) -> bool:
    """Whether the right to run a model is a right to its health: not where a rule denies running it, or might."""
    model = asked.model
    if model.operation is not Operation.HEALTH or not model.name or model.explicit:
        return False
    running = _running(asked)
    return not any(_might_deny(rule, running) for rule in policy.rules if rule.effect is Effect.DENY)


def _denying_at_times(policy: Policy, asked: Asked) -> list[Rule]:
    """The rules that might deny the call, or the run of the model that its health hangs on, at some time or address."""
    calls = [asked, _running(asked)] if asked.model.operation is Operation.HEALTH else [asked]
    return [
        rule
        for rule in policy.rules
        if rule.effect is Effect.DENY
        and any(_might_deny(rule, one, if_not=but) for one in calls for but in (Respect.TIME, Respect.NETWORK))
    ]


def _running(asked: Asked) -> Asked:
    return replace(asked, model=replace(asked.model, operation=Operation.INFER))


def _might_deny(rule: Rule, asked: Asked, *, if_not: Respect = Respect.GROUPS_UNKNOWN) -> bool:
    """What nobody knows lets no rule in, and keeps none from denying; `if_not`: and whatever this one thing is."""
    unknown = {Respect.GROUPS_UNKNOWN, if_not}
    if address_of(asked.peer or "") is None:
        unknown.add(Respect.NETWORK)
    if _version(asked.model) is None:
        unknown.add(Respect.VERSION)
    return {lack.respect for lack in lacking(rule, asked)} <= unknown


def lacking(rule: Rule, asked: Asked, *, infer_stands_in: bool = False) -> Iterator[Lack]:
    """Everything for which this rule does not let the call in, if it allows.

    `infer_stands_in`: whether the right to run a model is one to its health.
    """
    yield from _of_caller(rule, asked.principal)
    yield from _of_model(rule, asked.model, infer_stands_in=infer_stands_in)
    window = rule.window
    if window is not None and not window.holds(asked.at):
        yield Lack(Respect.TIME, f"it holds {spoken(window)}, and it is {shown(asked.at, window.zone)} there")
    address = address_of(asked.peer or "")
    if rule.networks and not within(address, rule.networks):
        where = "nobody knows the caller's address" if address is None else f"the call comes from {address}"
        yield Lack(Respect.NETWORK, f"it is for clients in {listed(map(str, rule.networks))}, and {where}")


def _of_caller(rule: Rule, principal: Principal) -> Iterator[Lack]:
    yield from _of_groups(rule, principal)
    if rule.issuers and principal.provider not in rule.issuers:
        by = f"it is '{principal.provider}'" if principal.provider else "nobody knows who did"
        yield Lack(Respect.ISSUER, f"one of the providers {listed(rule.issuers)} must vouch for the caller, and {by}")
    if rule.scopes and not rule.scopes & principal.scopes:
        yield Lack(Respect.SCOPE, f"the caller has none of the scopes {listed(rule.scopes)}")


def _of_groups(rule: Rule, principal: Principal) -> Iterator[Lack]:
    named = rule.anybody or _is_named(rule, principal)
    left_out = rule.not_groups & principal.groups
    doubtful = not principal.groups_known and ((rule.groups and not named) or (rule.not_groups and not left_out))
    if doubtful:
        needs = f"it is for groups {listed(rule.groups)}" if not named else f"it leaves out {listed(rule.not_groups)}"
        yield Lack(Respect.GROUPS_UNKNOWN, f"the groups of the caller are not all known, and {needs}")
    if not named and not (doubtful and rule.groups):
        yield Lack(Respect.SUBJECT, _not_named(rule))
    if left_out:
        yield Lack(Respect.NOT_GROUPS, f"the caller is in {listed(left_out)}, and it leaves out who is")


def _is_named(rule: Rule, principal: Principal) -> bool:
    return (
        principal.subject in rule.users
        or principal.client in rule.clients
        or not rule.groups.isdisjoint(principal.groups)
    )


def _not_named(rule: Rule) -> str:
    parts = [
        f"{words} {listed(names)}"
        for words, names in (
            ("is in none of groups", rule.groups),
            ("is none of users", rule.users),
            ("comes through none of clients", rule.clients),
        )
        if names
    ]
    return f"the caller {', and '.join(parts)}"


def _of_model(rule: Rule, model: ModelRef, *, infer_stands_in: bool) -> Iterator[Lack]:
    if not any(compile_glob(pattern)(model.name) for pattern in rule.models):
        yield Lack(Respect.MODEL, f"it is for models {listed(rule.models)}")
    operation = model.operation
    if operation not in rule.operations and not (infer_stands_in and Operation.INFER in rule.operations):
        yield Lack(Respect.OPERATION, f"it is for operations {listed(rule.operations)}, and this is '{operation}'")
    elif model.explicit and operation not in rule.explicit_operations:
        yield Lack(Respect.EXPLICIT, f"'{operation}' must be written out in its operations for this route")
    version = _version(model)
    if rule.versions and version not in rule.versions:
        named = "names none" if not model.version else f"names {version}"
        if model.version and version is None:
            named = f"names {model.version!r}, which is not a plain number"
        yield Lack(Respect.VERSION, f"it is for versions {listed(rule.versions)}, and the call {named}")


def _version(model: ModelRef) -> str | None:
    """The version that the call names; None where the server picks one."""
    return model.version if model.version and VERSION.fullmatch(model.version) else None


def listed(names: Iterable[str]) -> str:
    """A few of them, in order."""
    ordered = sorted(names)
    more = len(ordered) - _NAMES
    return ", ".join(ordered[:_NAMES]) + (f" and {more} more" if more > 0 else "")

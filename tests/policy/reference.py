"""The semantics of policies told a second time, rule by rule and without any index, to hold the engine against."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.engine import Policy
from gateway.policy.rules import DEFAULT_OPERATIONS, Effect, Rule

YES, MAYBE, NO = "yes", "maybe", "no"

# Few values of each kind, so that rules and questions meet often.
USERS, GROUPS, CLIENTS, ISSUERS = ("ann", "bob"), ("g", "h", "i"), ("app", "job"), ("corp", "lab")
MODELS = ("m", "n/x", "n/y", "n/x/z")
PATTERNS = ("*", "m", "n/*", "n/**", "**x", "n/x", "*/y", "k")
VERSIONS = ("1", "2")


def name_matches(pattern: str, name: str) -> bool:
    if pattern == "*":
        return True
    pieces = re.split(r"(\*+)", pattern)
    inner = ("[^/]*" if piece == "*" else ".*" if piece.startswith("*") else re.escape(piece) for piece in pieces)
    return re.fullmatch("".join(inner), name, re.DOTALL) is not None


def names(rule: Rule, caller: Principal) -> str:
    """Whether `caller` is meant by `rule`; `MAYBE` where that hangs on groups that nobody knows."""
    if rule.issuers and caller.provider not in rule.issuers:
        return NO
    if not rule.users and not rule.groups and not rule.clients:
        return YES
    if caller.subject in rule.users or caller.client in rule.clients or any(g in rule.groups for g in caller.groups):
        return YES
    return MAYBE if rule.groups and not caller.groups_known else NO


def speaks_of(rule: Rule, model: ModelRef, operation: Operation) -> bool:
    if operation not in rule.operations or not any(name_matches(pattern, model.name) for pattern in rule.models):
        return False
    if rule.effect is Effect.ALLOW and model.explicit and operation not in rule.explicit_operations:
        return False
    if not rule.versions:
        return True
    told = re.fullmatch("0|[1-9][0-9]*", model.version or "") is not None
    return model.version in rule.versions if told else rule.effect is Effect.DENY


def verdict(rules: Sequence[Rule], caller: Principal, model: ModelRef) -> str:
    """`allowed`, `denied` (`denied by name` where a rule lists the operation), `nothing` or `groups`."""

    def answers(effect: Effect, operation: Operation) -> list[str]:
        return [names(r, caller) for r in rules if r.effect is effect and speaks_of(r, model, operation)]

    denying = [r for r in rules if r.effect is Effect.DENY and speaks_of(r, model, model.operation)]
    denied = [rule for rule in denying if names(rule, caller) == YES]
    if denied:
        by_name = any(model.operation in rule.explicit_operations for rule in denied)
        return "denied by name" if by_name else "denied"
    allowing = answers(Effect.ALLOW, model.operation)
    if (
        model.operation is Operation.HEALTH
        and not model.explicit
        and set(answers(Effect.DENY, Operation.INFER)) <= {NO}
    ):
        allowing += answers(Effect.ALLOW, Operation.INFER)
    doubted = any(names(rule, caller) == MAYBE for rule in denying)
    if YES in allowing and not doubted:
        return "allowed"
    return "groups" if (YES in allowing and doubted) or MAYBE in allowing else "nothing"


def answer(policy: Policy, caller: Principal, model: ModelRef) -> str:
    """What a caller gets, as the name of a value or of a refusal."""
    try:
        return type(policy.authorize(caller, model)).__name__
    except Exception as refusal:  # noqa: BLE001  whatever it is, its name is compared
        return type(refusal).__name__


def subset(values: Sequence[str], *, least: int = 0) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), min_size=least, max_size=2)


@st.composite
def some_rule(draw: st.DrawFn, effect: Effect | None = None) -> Rule:
    who = {"users": USERS, "groups": GROUPS, "clients": CLIENTS, "issuers": ISSUERS}
    kinds = draw(st.frozensets(st.sampled_from(sorted(who)), min_size=1, max_size=2))
    subjects: dict[str, Any] = {kind: draw(subset(who[kind], least=1)) for kind in sorted(kinds)}
    written = draw(st.frozensets(st.sampled_from(Operation), max_size=3))
    number = draw(st.integers(1, 10_000))
    return Rule(
        id=f"r{number}",
        file="p.yaml",
        line=number,
        effect=effect or draw(st.sampled_from(Effect)),
        models=tuple(draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2))),
        operations=written or DEFAULT_OPERATIONS,
        explicit_operations=written,
        versions=draw(st.just(frozenset[str]()) | subset(VERSIONS)),
        **subjects,
    )


some_rules = st.lists(some_rule(), max_size=6)

some_caller = st.builds(
    Principal,
    subject=st.sampled_from(USERS),
    issuer=st.just("https://idp.test"),
    provider=st.sampled_from(ISSUERS),
    groups=subset(GROUPS),
    client=st.none() | st.sampled_from(CLIENTS),
    groups_known=st.booleans(),
)

some_model = st.builds(
    ModelRef,
    name=st.sampled_from(MODELS),
    operation=st.sampled_from(Operation),
    version=st.none() | st.sampled_from(("", "1", "2", "02", "+2", "3")),
    explicit=st.booleans(),
)

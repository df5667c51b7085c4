"""The semantics of policies told a second time, rule by rule and without any index, to hold the engine against."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.conditions import ALL_DAYS, DAY, DAYS, Window
from gateway.policy.engine import Policy
from gateway.policy.rules import DEFAULT_OPERATIONS, Effect, Rule
from gateway.terms import NO_TERMS, Terms

#: When and from where somebody asks: UNIX time and address, None where nobody knows the address.
Where = tuple[float, str | None]

YES, MAYBE, NO = "yes", "maybe", "no"

# Few values of each kind, so that rules and questions meet often.
USERS, GROUPS, CLIENTS, ISSUERS = ("ann", "bob"), ("g", "h", "i"), ("app", "job"), ("corp", "lab")
MODELS = ("m", "n/x", "n/y", "n/x/z")
PATTERNS = ("*", "m", "n/*", "n/**", "**x", "n/x", "*/y", "k")
VERSIONS = ("1", "2")
SCOPES = ("chat", "train")
NETWORKS = ("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "2001:db8::/32", "::/0", "fe80::/64")
PEERS = (None, "10.1.2.3", "10.9.9.9", "192.0.2.1", "2001:db8::1", "fe80::1%eth0", "::ffff:10.1.2.3", "unix:")
# Half an hour of daylight saving, none, the usual hour, a day that was left out, and three quarters of an hour.
ZONES = ("UTC", "Europe/Madrid", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu")


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
    if (rule.scopes and not rule.scopes & caller.scopes) or rule.not_groups & caller.groups:
        return NO
    said = _named(rule, caller)
    return MAYBE if said == YES and rule.not_groups and not caller.groups_known else said


def _named(rule: Rule, caller: Principal) -> str:
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


def minutes(window: Window) -> set[str]:
    """Each minute of the week that is within, as a clock and a calendar on the wall show it."""
    shown = set()
    for day in window.days:
        minute = window.begin
        for _ in range((window.end - window.begin - 1) % DAY + 1):
            shown.add(f"{DAYS[(day + minute // DAY) % 7]} {minute % DAY // 60:02}:{minute % 60:02}")
            minute += 1
    return shown


def open_at(window: Window, at: float) -> bool:
    wall = datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(window.zone))
    return f"{DAYS[wall.weekday()]} {wall.hour:02}:{wall.minute:02}" in minutes(window)


def reaches(rule: Rule, peer: str | None) -> bool:
    """Whether the rule holds for a client there."""
    if not rule.networks:
        return True
    try:
        address = ipaddress.ip_address((peer or "").split("%")[0])
    except ValueError:
        return rule.effect is Effect.DENY
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in rule.networks)


def holds(rule: Rule, where: Where | None) -> bool:
    """Whether its conditions are met; without knowledge of time and address they are met by rules that deny."""
    if where is None:
        return rule.effect is Effect.DENY or (rule.window is None and not rule.networks)
    at, peer = where
    return reaches(rule, peer) and (rule.window is None or open_at(rule.window, at))


def verdict(rules: Sequence[Rule], caller: Principal, model: ModelRef, where: Where | None = None) -> str:
    """`allowed`, `denied` (`denied by name` where a rule lists the operation), `nothing` or `groups`."""
    rules = [rule for rule in rules if holds(rule, where)]

    def answers(effect: Effect, operation: Operation) -> list[str]:
        return [names(r, caller) for r in rules if r.effect is effect and speaks_of(r, model, operation)]

    denying = [r for r in rules if r.effect is Effect.DENY and speaks_of(r, model, model.operation)]
    sure = [rule for rule in denying if names(rule, caller) == YES]
    if sure:
        by_name = any(model.operation in rule.explicit_operations for rule in sure)
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


def denied(rules: Sequence[Rule], caller: Principal, model: ModelRef, where: Where) -> bool:
    """Whether a rule denies, or may deny, to run the model."""
    denying = [rule for rule in rules if rule.effect is Effect.DENY and holds(rule, where)]
    return any(speaks_of(rule, model, Operation.INFER) and names(rule, caller) != NO for rule in denying)


def terms(rules: Sequence[Rule], caller: Principal, model: ModelRef, where: Where) -> tuple[tuple[str, Terms], ...]:
    """Those of the rules that let the caller in, each once, with the first that has them; none where none asks."""
    wanted = {model.operation}
    if model.operation is Operation.HEALTH and not model.explicit and not denied(rules, caller, model, where):
        wanted.add(Operation.INFER)
    first: dict[Terms, str] = {}
    for rule in sorted(rules, key=lambda rule: (rule.file, rule.line, rule.id)):
        covered = any(speaks_of(rule, model, operation) for operation in wanted)
        if rule.effect is Effect.ALLOW and covered and holds(rule, where) and names(rule, caller) == YES:
            first.setdefault(rule.terms, rule.id)
    return () if set(first) <= {NO_TERMS} else tuple((id_, each) for each, id_ in first.items())


def answer(policy: Policy, caller: Principal, model: ModelRef, where: Where | None = None) -> str:
    """What a caller gets, as the name of a value or of a refusal."""
    try:
        return type(policy.authorize(caller, model, where and policy.holding(*where))).__name__
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
    effect = effect or draw(st.sampled_from(Effect))
    narrowed = draw(st.just(frozenset[str]()) | st.frozensets(st.sampled_from(sorted(NARROWED)), max_size=2))
    return Rule(
        id=f"r{number}",
        file="p.yaml",
        line=number,
        effect=effect,
        models=tuple(draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2))),
        operations=written or DEFAULT_OPERATIONS,
        explicit_operations=written,
        versions=draw(st.just(frozenset[str]()) | subset(VERSIONS)),
        terms=draw(st.just(NO_TERMS) | some_terms) if effect is Effect.ALLOW else NO_TERMS,
        **subjects,
        **{name: draw(NARROWED[name]) for name in sorted(narrowed)},
    )


some_window = st.builds(
    lambda zone, days, hours: Window(zone, days or ALL_DAYS, *hours),
    st.sampled_from(ZONES),
    st.frozensets(st.integers(0, 6), max_size=4),
    st.just((0, DAY)) | st.tuples(st.integers(0, DAY - 1), st.integers(1, DAY)).filter(lambda each: each[0] != each[1]),
)
some_terms = st.builds(Terms, max_tokens=st.none() | st.sampled_from((1, 4096)), clamp=st.booleans())
some_networks = st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=2, unique=True).map(
    lambda texts: tuple(map(ipaddress.ip_network, texts))
)
#: What narrows a rule beyond its subjects. A rule has one or two of these, or most often none.
NARROWED: dict[str, st.SearchStrategy[Any]] = {
    "scopes": subset(SCOPES, least=1),
    "not_groups": subset(GROUPS, least=1),
    "window": some_window,
    "networks": some_networks,
}

#: Any time of a few years, and the days on which the zones above change their clocks.
some_where: st.SearchStrategy[Where] = st.tuples(
    st.integers(1_300_000_000, 1_800_000_000).map(float)
    | st.sampled_from((1_325_239_200, 1_774_746_000, 1_775_314_800)).flatmap(
        lambda change: st.floats(change - 90_000, change + 90_000)
    ),
    st.sampled_from(PEERS),
)

some_rules = st.lists(some_rule(), max_size=6)

some_caller = st.builds(
    Principal,
    subject=st.sampled_from(USERS),
    issuer=st.just("https://idp.test"),
    provider=st.sampled_from(ISSUERS),
    groups=subset(GROUPS),
    client=st.none() | st.sampled_from(CLIENTS),
    scopes=subset(SCOPES),
    groups_known=st.booleans(),
)

some_model = st.builds(
    ModelRef,
    name=st.sampled_from(MODELS),
    operation=st.sampled_from(Operation),
    version=st.none() | st.sampled_from(("", "1", "2", "02", "+2", "3")),
    explicit=st.booleans(),
)

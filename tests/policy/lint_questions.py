"""Rules with every part that a rule can have, and questions that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import ip_network
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from gateway.call import ModelRef, Principal
from gateway.policy.conditions import Window
from gateway.policy.engine import Decision, Policy
from gateway.policy.rules import Effect, Rule
from gateway.terms import NO_TERMS, Terms
from tests.policy.reference import GROUPS, some_caller, some_model, some_rule, subset

ZONE = "Europe/Madrid"
WINDOWS = (
    Window(ZONE, begin=480, end=1200),
    Window(ZONE, begin=540, end=600),
    Window(ZONE, frozenset({5, 6})),
    Window(ZONE, frozenset({4}), 1320, 360),
    Window("UTC", begin=480, end=1200),
)
NETWORKS = (ip_network("10.0.0.0/8"), ip_network("10.1.0.0/16"), ip_network("10.2.0.0/16"), ip_network("fd00::/8"))
PEERS = ("10.1.2.3", "10.2.2.3", "10.9.9.9", "192.0.2.1", "fd00::1", "::ffff:10.1.0.1", None)
TIMES = tuple(
    datetime(2026, 11, day, hour, minute, tzinfo=ZoneInfo(ZONE)).timestamp()
    for day in (27, 28, 30)  # a Friday, a Saturday, a Monday
    for hour, minute in ((3, 0), (8, 30), (9, 30), (19, 59), (20, 30), (23, 0))
)
TERMS = (NO_TERMS, Terms(max_tokens=10), Terms(max_tokens=20), Terms(max_tokens=10, clamp=True), Terms(n=1))


@dataclass(frozen=True)
class Question:
    """A call; `at` None: nothing is known of time and address."""

    caller: Principal
    model: ModelRef
    at: float | None
    peer: str | None

    def decided(self, policy: Policy) -> Decision:
        holding = None if self.at is None else policy.holding(self.at, self.peer)
        return policy.decide(self.caller, self.model, holding)


@st.composite
def full_rule(draw: st.DrawFn) -> Rule:
    rule = draw(some_rule())
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["not_groups"] = draw(subset(GROUPS))
        more["scopes"] = draw(subset(("read", "write")))
    if draw(st.booleans()):
        more["window"] = draw(st.none() | st.sampled_from(WINDOWS))
        more["networks"] = tuple(draw(st.lists(st.sampled_from(NETWORKS), max_size=2, unique=True)))
    if rule.effect is Effect.ALLOW and draw(st.booleans()):
        more["terms"] = draw(st.sampled_from(TERMS))
    return replace(rule, **more)


def _numbered(rules: list[Rule]) -> list[Rule]:
    return [replace(rule, id=f"r{number}", line=number) for number, rule in enumerate(rules, 1)]


@st.composite
def _twisted(draw: st.DrawFn, rules: list[Rule]) -> list[Rule]:
    """With some rules that differ in one part from another: of those that are drawn alone few say the same."""
    found = list(rules)
    for _ in range(draw(st.integers(0, 3))):
        one, other = draw(st.sampled_from(rules)), draw(full_rule())
        part = draw(st.sampled_from(("effect", "groups", "models", "operations", "versions", "window", "networks",
                                     "not_groups", "scopes", "issuers", "terms", "users")))  # fmt: skip
        new: dict[str, Any] = {part: getattr(other, part)}
        if part == "operations":
            new["explicit_operations"] = other.explicit_operations
        try:
            found.append(replace(one, **new))
        except ValueError:
            continue
    return found


full_rules = st.lists(full_rule(), min_size=2, max_size=5).flatmap(_twisted).map(_numbered)

some_question = st.builds(
    Question,
    caller=st.builds(
        lambda caller, scopes: replace(caller, scopes=scopes), some_caller, subset(("read", "write", "other"))
    ),
    model=some_model,
    at=st.none() | st.sampled_from(TIMES),
    peer=st.sampled_from(PEERS),
)

some_questions = st.lists(some_question, min_size=20, max_size=20)


def without(rules: Sequence[Rule], *gone: str | None) -> list[Rule]:
    return [rule for rule in rules if rule.id not in gone]

"""Rules, each wrong in one part: what a slip of the hand makes of a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from gateway.call import Operation
from gateway.policy.conditions import DAY, Window
from gateway.policy.rules import Effect, Rule
from gateway.terms import NO_TERMS, Terms

STRANGER = "stranger"  # a name that no rule has
FURTHER = ("0.0.0.0/0", "::/0", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")  # the world, and private networks
KINDS = ("users", "groups", "clients", "issuers", "scopes", "not_groups")


def mutants(rules: Sequence[Rule]) -> Iterator[tuple[str, list[Rule]]]:
    """Each policy that differs in one part of one rule, with words that say which."""
    for number, rule in enumerate(rules):
        yield f"{rule.id} deleted", [*rules[:number], *rules[number + 1 :]]
        for name, changes in [*_changes(rule), *_operations(rule, rules)]:
            try:
                other = replace(rule, **changes)
            except ValueError:
                continue  # a rule that means nobody or nothing is refused when it is read
            yield f"{rule.id}: {name}", [*rules[:number], other, *rules[number + 1 :]]


def _changes(rule: Rule) -> Iterator[tuple[str, dict[str, Any]]]:
    turned = Effect.DENY if rule.effect is Effect.ALLOW else Effect.ALLOW
    yield "effect turned", {"effect": turned, "terms": NO_TERMS}
    for kind in KINDS:
        names: frozenset[str] = getattr(rule, kind)
        yield f"a stranger in {kind}", {kind: names | {STRANGER}}
        yield f"all {kind} out", {kind: frozenset()} if names else {"models": ()}
        for name in sorted(names):
            yield f"{name} out of {kind}", {kind: names - {name}}
    yield "every model", {"models": (*rule.models, "**")} if "*" not in rule.models else {"models": ()}
    for model in rule.models:
        yield f"{model} out", {"models": tuple(one for one in rule.models if one != model)}
        others = tuple(one for one in rule.models if one != model)
        for wider in sorted({*_wider(model)} - {model}):
            yield f"{model} widened to {wider}", {"models": (*others, wider)}
    further = [rule.versions | {version} for version in ("2", "3")]
    for versions in (frozenset[str](), frozenset({"1"}), frozenset({"2"}), *further):
        if versions != rule.versions:
            yield f"versions {sorted(versions)}", {"versions": versions}
    yield from _windows(rule.window)
    yield from _networks(rule)
    yield from _terms(rule)


def _wider(pattern: str) -> Iterator[str]:
    """The pattern with a part of it left open, or a star that stands for more."""
    if pattern in {"*", "**"}:
        return
    vendor, slash, name = pattern.rpartition("/")
    if "*" not in pattern:
        yield from (f"{pattern[: len(pattern) - cut]}*" for cut in (0, 1, 2))
        yield f"**{name[1:]}"
    if slash:
        yield from (f"{vendor}/{'**' if '*' in name else '*'}", f"{vendor[0]}*/{name}", f"{vendor[0]}**", f"*/{name}")
        yield f"{vendor}*"
        yield f"{vendor}**"


def _terms(rule: Rule) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each limit taken away, lowered and raised; and what no limit was before."""
    if rule.effect is Effect.DENY:
        return
    terms = rule.terms
    for field in fields(Terms):
        value, name = getattr(terms, field.name), field.name
        others: list[Any]
        if name == "engine_fields":
            others = [value ^ {one} for one in ("priority", "cache_salt")]
        elif isinstance(value, bool):
            others = [not value]
        else:
            others = [1, 4096] if value is None else [None, value - 1, value + 1, value * 10_000]
        yield from ((f"{name} {other}", {"terms": replace(terms, **{name: other})}) for other in others)
    if terms != NO_TERMS:
        yield "no terms", {"terms": NO_TERMS}
        yield "other terms", {"terms": Terms(engine_fields=frozenset({"priority"}))}


def _operations(rule: Rule, rules: Sequence[Rule]) -> Iterator[tuple[str, dict[str, Any]]]:
    allowed = {operation for one in rules if one.effect is Effect.ALLOW for operation in one.operations}
    for operation in Operation:
        if rule.effect is Effect.DENY and operation not in allowed:
            continue  # to deny what nobody may changes nothing
        if rule.effect is Effect.ALLOW and operation is Operation.HEALTH and Operation.INFER in rule.operations:
            continue  # whoever may run a model may ask whether it is ready, so that this changes nothing
        operations = rule.operations ^ {operation}
        word = "without" if operation in rule.operations else "with"
        yield f"{word} {operation}", {"operations": operations, "explicit_operations": operations}


def _windows(window: Window | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if window is None:
        return
    yield "at all times", {"window": None}
    yield "in UTC", {"window": replace(window, zone="UTC")}
    for day in range(7):
        if window.days ^ {day}:
            yield f"day {day} turned", {"window": replace(window, days=window.days ^ {day})}
    for shift in (-60, -1, 1, 60):
        yield f"begin {shift:+}", {"window": replace(window, begin=(window.begin + shift) % DAY)}
        yield f"end {shift:+}", {"window": replace(window, end=(window.end + shift) % DAY)}


def _networks(rule: Rule) -> Iterator[tuple[str, dict[str, Any]]]:
    for network in rule.networks:
        others = tuple(one for one in rule.networks if one != network)
        yield f"not from {network}", {"networks": others}
        near: list[IPv4Network | IPv6Network] = [network.supernet(), *network.subnets()]
        for other in near:
            yield f"from {other}", {"networks": (*others, other)}
    for further in map(ip_network, FURTHER if rule.networks else ()):
        yield f"from {further} as well", {"networks": (*rule.networks, further)}

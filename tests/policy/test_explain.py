"""An explanation says what the engine does, and a near miss names the one thing that was missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_network
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.asked import Asked, Respect
from gateway.policy.conditions import Window
from gateway.policy.engine import Policy
from gateway.policy.explain import NEAR_MISSES, Lack, explain, lacking
from gateway.policy.rules import Effect, Rule
from tests.policy.questions import (
    CLIENTS,
    GROUPS,
    MODELS,
    PEERS,
    PROVIDERS,
    SCOPES,
    USERS,
    VERSIONS,
    WINDOWS,
    many_rules,
    questions,
)
from tests.policy.questions import rules as any_rule
from tests.policy.rules import ANN, CHAT, OVERFULL, rule

NOON = 1772449200.0  # Monday, 2 March 2026, 12:00 in Madrid
HOUR = 3600
ASKED = Asked(ANN, CHAT, NOON, "10.1.2.3")


def alone(rule: Rule, asked: Asked) -> bool:
    """Whether the engine lets the call in by this rule and no other."""
    policy = Policy([rule])
    return policy.may(asked.principal, asked.model, policy.holding(asked.at, asked.peer))


def stands_in(asked: Asked) -> bool:
    model = asked.model
    return model.operation is Operation.HEALTH and model.name != "" and not model.explicit


@given(any_rule(), questions())
def test_a_rule_lacks_nothing_exactly_where_the_engine_lets_in_by_it(rule: Rule, asked: Asked) -> None:
    assume(rule.effect is Effect.ALLOW)
    lacks = list(lacking(rule, asked, infer_stands_in=stands_in(asked)))

    assert (lacks == []) is alone(rule, asked)
    assert len({lack.respect for lack in lacks}) == len(lacks)


def with_subject(rule: Rule, asked: Asked) -> Asked:
    principal = asked.principal
    if rule.users:
        return replace(asked, principal=replace(principal, subject=min(rule.users)))
    if rule.clients:
        return replace(asked, principal=replace(principal, client=min(rule.clients)))
    wanted = rule.groups - rule.not_groups
    assume(wanted)
    return replace(asked, principal=replace(principal, groups=principal.groups | {min(wanted)}))


def with_known_groups(rule: Rule, asked: Asked) -> Asked:
    wanted = rule.groups - rule.not_groups
    assume(wanted or not rule.groups)
    principal = asked.principal
    return replace(asked, principal=replace(principal, groups=principal.groups | wanted, groups_known=True))


def with_model(rule: Rule, asked: Asked) -> Asked:
    name = next(name for name in MODELS if any(p in ("*", name) or (p, name[:2]) == ("n/*", "n/") for p in rule.models))
    return replace(asked, model=replace(asked.model, name=name))


def with_time(rule: Rule, asked: Asked) -> Asked:
    window = rule.window
    assert window is not None
    return replace(asked, at=next(at for at in (asked.at + n * HOUR for n in range(24 * 7)) if window.holds(at)))


def by(**fields: Callable[[Rule, Asked], object]) -> Callable[[Rule, Asked], Asked]:
    """Changes of a member of the principal or of the model."""

    def change(rule: Rule, asked: Asked) -> Asked:
        for name, value in fields.items():
            part = "model" if hasattr(asked.model, name) else "principal"
            whole = replace(getattr(asked, part), **{name: value(rule, asked)})
            asked = replace(asked, **{part: whole})
        return asked

    return change


#: How a call comes to have the one thing that it lacked.
MENDED: dict[Respect, Callable[[Rule, Asked], Asked]] = {
    Respect.SUBJECT: with_subject,
    Respect.GROUPS_UNKNOWN: with_known_groups,
    Respect.ISSUER: by(provider=lambda rule, _: min(rule.issuers)),
    Respect.SCOPE: by(scopes=lambda rule, asked: asked.principal.scopes | {min(rule.scopes)}),
    Respect.NOT_GROUPS: by(groups=lambda rule, asked: asked.principal.groups - rule.not_groups),
    Respect.MODEL: with_model,
    Respect.EXPLICIT: by(explicit=lambda *_: False),
    Respect.VERSION: by(version=lambda rule, _: min(rule.versions)),
    Respect.TIME: with_time,
    Respect.NETWORK: lambda rule, asked: replace(asked, peer=str(rule.networks[0].network_address)),
}


@given(any_rule(), questions())
def test_with_exactly_the_thing_that_a_near_miss_lacked_the_rule_lets_in(rule: Rule, asked: Asked) -> None:
    found = explain(Policy([replace(rule, effect=Effect.ALLOW)]), asked)
    assume(found.near_misses)
    ((rule, lack),) = [(miss.rule, miss.lack) for miss in found.near_misses]
    if lack.respect is Respect.OPERATION:
        operations = rule.explicit_operations if asked.model.explicit else rule.operations
        mended = replace(asked, model=replace(asked.model, operation=min(operations or rule.operations)))
        mended = mended if operations else replace(mended, model=replace(mended.model, explicit=False))
    else:
        mended = MENDED[lack.respect](rule, asked)
        # Who is in a group only by the one that is left out lacks another one then.
        assume(lack.respect is not Respect.NOT_GROUPS or not list(lacking(rule, mended, infer_stands_in=True)))

    assert not alone(rule, asked)
    assert alone(rule, mended)


@given(many_rules(), questions())
def test_an_explanation_is_what_the_engine_decides(rules: list[Rule], asked: Asked) -> None:
    policy = Policy(rules)
    holding = policy.holding(asked.at, asked.peer)
    found = explain(policy, asked)

    assert found.decision == policy.decide(asked.principal, asked.model, holding)
    assert found.allowed is policy.may(asked.principal, asked.model, holding)
    assert (found.code == "ok") is found.allowed
    allows = sum(rule.effect is Effect.ALLOW for rule in rules)
    assert len(found.near_misses) + found.more + found.farther == (0 if found.allowed else allows)


def lets_in(policy: Policy, asked: Asked) -> bool:
    return policy.may(asked.principal, asked.model, policy.holding(asked.at, asked.peer))


@given(many_rules(), questions())
def test_where_a_rule_denies_the_near_misses_are_those_that_would_let_in_without_it(
    rules: list[Rule], asked: Asked
) -> None:
    who = frozenset({asked.principal.subject})
    no = rule("no", Effect.DENY, users=who, models=("**",), operations={asked.model.operation})
    found = explain(Policy([*rules, no]), asked)

    denying = found.decision.rule
    assert denying is not None
    assert denying.effect is Effect.DENY
    assert {miss.lack.respect for miss in found.near_misses} <= {Respect.DENIED}
    others = [rule for rule in [*rules, no] if rule.effect is Effect.DENY and rule is not denying]
    near = [rule for rule in rules if rule.effect is Effect.ALLOW and lets_in(Policy([rule, *others]), asked)]
    assert {miss.rule.id for miss in found.near_misses} == {rule.id for rule in near}


def otherwise(rule: Rule, respect: Respect, asked: Asked) -> Iterator[Asked]:
    """The call with this one thing otherwise, in every way that there is in these tests."""
    model = asked.model
    yield from (replace(asked, principal=caller) for caller in others(rule, respect, asked.principal))
    if respect is Respect.MODEL:
        yield from (replace(asked, model=replace(model, name=name)) for name in (*MODELS, "n/z", "z", "z/z"))
    elif respect in {Respect.OPERATION, Respect.EXPLICIT}:
        operations = list(Operation) if respect is Respect.OPERATION else [model.operation]
        routes = product(operations, {False, model.explicit})
        yield from (replace(asked, model=replace(model, operation=one, explicit=named)) for one, named in routes)
    elif respect is Respect.VERSION:
        yield from (replace(asked, model=replace(model, version=version)) for version in VERSIONS)
    elif respect is Respect.TIME:
        yield from (replace(asked, at=asked.at + hours * HOUR) for hours in range(24 * 7))
    elif respect is Respect.NETWORK:
        yield from (replace(asked, peer=peer) for peer in PEERS)


def others(rule: Rule, respect: Respect, who: Principal) -> Iterator[Principal]:
    if respect is Respect.SUBJECT:
        yield from (replace(who, groups=who.groups | {group}) for group in GROUPS)
        yield from (replace(who, subject=user) for user in USERS)
        yield from (replace(who, client=client) for client in CLIENTS)
    elif respect is Respect.GROUPS_UNKNOWN:
        yield from (replace(who, groups=who.groups | more, groups_known=True) for more in (set(), *map(set, GROUPS)))
    elif respect is Respect.ISSUER:
        yield from (replace(who, provider=provider) for provider in PROVIDERS)
    elif respect is Respect.SCOPE:
        yield from (replace(who, scopes=who.scopes | {scope}) for scope in SCOPES)
    elif respect is Respect.NOT_GROUPS:
        yield replace(who, groups=who.groups - rule.not_groups)


@st.composite
def rules_denied_again(draw: st.DrawFn) -> list[Rule]:
    """Some of which another denies as well: with the one thing that they lack they still let nobody in."""
    found = draw(many_rules().filter(bool))
    again = draw(st.lists(st.sampled_from(found), max_size=2))
    return [*found, *(replace(one, id=f"no{number}", effect=Effect.DENY) for number, one in enumerate(again))]


@settings(max_examples=150)
@given(rules_denied_again(), questions())
def test_a_near_miss_is_let_in_once_the_one_thing_is_otherwise_and_what_is_none_is_not(
    rules: list[Rule], asked: Asked
) -> None:
    """Whatever other rules deny then."""
    found = explain(Policy(rules), asked)
    assume(not found.allowed)
    assume(found.decision.rule is None or found.decision.rule.effect is Effect.ALLOW)
    denies = [one for one in rules if one.effect is Effect.DENY]
    near = {miss.rule.id for miss in found.near_misses}
    for one in [one for one in rules if one.effect is Effect.ALLOW]:
        running = replace(asked, model=replace(asked.model, operation=Operation.INFER))
        runs = stands_in(asked) and not any(might_deny(deny, running) for deny in denies)
        lacks = [lack.respect for lack in lacking(one, asked, infer_stands_in=runs)]
        alone_with_denies = Policy([one, *denies])
        does = len(lacks) == 1 and any(lets_in(alone_with_denies, it) for it in otherwise(one, lacks[0], asked))
        assert (one.id in near) is does, lacks


def might_deny(deny: Rule, asked: Asked) -> bool:
    """Whether who may do everything may not do this, or nobody knows."""
    everything = rule("all", issuers=frozenset(PROVIDERS), models=("**",), operations=set(Operation))
    return not lets_in(Policy([everything, deny]), asked)


def test_a_rule_that_lets_in_only_who_is_denied_is_not_near() -> None:
    interns, night = frozenset({"interns"}), WINDOWS[2]
    rules = [
        rule("interns-in", groups=interns),
        rule("interns-out", Effect.DENY, groups=interns),
        rule("night", window=night),
        rule("night-out", Effect.DENY, window=night),
    ]
    found = explain(Policy(rules), ASKED)

    assert (found.near_misses, found.farther) == ((), 2)
    del rules[3]
    assert [miss.rule.id for miss in explain(Policy(rules), ASKED).near_misses] == ["night"]


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"groups": {"ml"}}, "the caller is in none of groups ml"),
        ({"groups": {"ml"}, "users": {"bob"}}, "the caller is in none of groups ml, and is none of users bob"),
        (
            {"issuers": {"lab"}, "groups": {"ds"}},
            "one of the providers lab must vouch for the caller, and it is 'corp'",
        ),
        ({"scopes": {"run"}}, "the caller has none of the scopes run"),
        ({"not_groups": {"staff"}}, "the caller is in staff, and it leaves out who is"),
        ({"models": ("nvidia/*",)}, "it is for models nvidia/*"),
        ({"operations": {Operation.LIST}}, "it is for operations list, and this is 'infer'"),
        ({"versions": {"1", "2"}}, "it is for versions 1, 2, and the call names none"),
        ({"window": WINDOWS[2]}, "it holds every day 22:00-06:00 UTC, and it is mon 2026-03-02 11:00 UTC there"),
    ],
)
def test_a_near_miss_says_in_words_what_it_lacked(missing: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {
        key: frozenset(value) if isinstance(value, set) else value for key, value in missing.items()
    }
    (miss,) = explain(Policy([rule(**values)]), ASKED).near_misses

    assert miss.lack.text == words
    assert miss.rule.place == "p.yaml:7"


def test_unknown_groups_are_the_one_thing_that_is_missing() -> None:
    found = explain(Policy([rule()]), replace(ASKED, principal=OVERFULL))

    assert (found.code, found.near_misses[0].lack) == (
        "groups_overage",
        Lack(Respect.GROUPS_UNKNOWN, "the groups of the caller are not all known, and it is for groups ds"),
    )


def test_a_rule_that_only_might_deny_is_not_said_to() -> None:
    """Once the groups are known the call is let in, though the rule that might have denied it is still there."""
    asked = replace(ASKED, principal=replace(ANN, groups=frozenset(), groups_known=False))
    interns = rule("interns", Effect.DENY, groups=frozenset({"interns"}))
    told = explain(Policy([rule("ann", users=frozenset({"ann"})), rule("ds"), interns]), asked)
    might = "the groups of ann are not all known, and interns (p.yaml:7) might deny it"
    assert told.reason == might
    assert [(near.rule.id, near.lack.respect) for near in told.near_misses] == [
        ("ann", Respect.GROUPS_UNKNOWN),
        ("ds", Respect.GROUPS_UNKNOWN),
    ]
    assert told.near_misses[0].lack.text == might
    assert told.near_misses[1].lack.text == "the groups of the caller are not all known, and it is for groups ds"


def test_a_rule_is_near_however_many_denials_of_others_hang_on_the_time_or_the_address() -> None:
    """They tell many times and addresses apart, of which only some are tried, and none matters to this call."""
    night = rule("night", window=Window("UTC", begin=0, end=360))
    mostly_not = rule("mostly-not", Effect.DENY, window=Window("UTC", begin=0, end=359))
    inside = rule("inside", networks=(ip_network("172.16.0.0/12"),))
    of_bob = [
        rule(
            f"bob-{n}",
            Effect.DENY,
            users=frozenset({"bob"}),
            window=Window("UTC", begin=2 * n + 1, end=2 * n + 2),
            networks=(ip_network(f"172.16.{n}.0/24"),),
        )
        for n in range(100)
    ]
    mostly = rule("mostly", Effect.DENY, networks=(ip_network("172.16.0.0/17"),))
    told = explain(Policy([night, inside, mostly_not, mostly, *of_bob]), ASKED)
    assert [(near.rule.id, near.lack.respect) for near in told.near_misses] == [
        ("inside", Respect.NETWORK),
        ("night", Respect.TIME),
    ]


def test_no_more_near_misses_are_told_than_people_read() -> None:
    rules = [rule(f"r{number}", groups=frozenset({f"g{number}"})) for number in range(30)]
    found = explain(Policy([*rules, rule("far", users=frozenset({"bob"}), models=("x",))]), ASKED)

    assert (len(found.near_misses), found.more, found.farther) == (NEAR_MISSES, 20, 1)


def test_what_the_caller_sees_is_told_also_where_models_are_hidden() -> None:
    policy = Policy([rule(models=("x",))], hide_models=True)

    assert (explain(policy, ASKED).code, explain(policy, ASKED).status) == ("model_not_found", 404)
    config = replace(ASKED, model=ModelRef("m", Operation.METADATA, explicit=True))
    assert (explain(policy, config).code, explain(policy, config).status) == ("not_found", 404)


def test_health_that_a_denied_inference_takes_along_is_not_called_near() -> None:
    rules = [rule("may"), rule("no", Effect.DENY, operations={Operation.INFER})]
    found = explain(Policy(rules), replace(ASKED, model=replace(CHAT, operation=Operation.HEALTH)))

    assert not found.allowed
    assert [miss.lack.respect for miss in found.near_misses] == [Respect.OPERATION]

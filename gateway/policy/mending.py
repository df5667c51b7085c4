"""What a call would be if one thing about it, which a rule lacks, were otherwise.

Knows: what rules ask of a call, and which of it other rules tell apart. Must not know: how rules decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from gateway.call import ModelRef, Principal
from gateway.policy.asked import Asked, Respect
from gateway.policy.conditions import address_of, within
from gateway.policy.diff.places import addresses
from gateway.policy.diff.times import instants
from gateway.policy.rules import Rule

# Ways to mend one thing that are tried; a rule may name a thousand groups, and the first of them does, mostly.
WAYS_LIMIT: Final = 64


def mended(rule: Rule, respect: Respect, asked: Asked, denies: Sequence[Rule]) -> Iterator[Asked]:
    """The call as it would have to be for `rule`, in this one respect: each way that `denies` may tell apart.

    For `DENIED` it is as it was. At most `WAYS_LIMIT`, so `denies` should be those that the call might meet.
    """
    return islice(_WAYS[respect](rule, asked, denies), WAYS_LIMIT)


_Ways = Callable[[Rule, Asked, Sequence[Rule]], Iterator[Asked]]


def _of_caller(ways: Callable[[Rule, Principal], Iterator[Principal]]) -> _Ways:
    return lambda rule, asked, _: (replace(asked, principal=one) for one in ways(rule, asked.principal))


def _of_model(ways: Callable[[Rule, ModelRef], Iterator[ModelRef]]) -> _Ways:
    return lambda rule, asked, _: (replace(asked, model=one) for one in ways(rule, asked.model))


def _subjects(rule: Rule, caller: Principal) -> Iterator[Principal]:
    yield from (replace(caller, groups=caller.groups | {group}) for group in sorted(rule.groups))
    yield from (replace(caller, subject=user) for user in sorted(rule.users))
    yield from (replace(caller, client=client) for client in sorted(rule.clients))


def _known_groups(rule: Rule, caller: Principal) -> Iterator[Principal]:
    """Whose groups are known, and who is in no more than one of the rule's."""
    caller = replace(caller, groups_known=True)
    yield caller
    yield from (replace(caller, groups=caller.groups | {group}) for group in sorted(rule.groups))


def _scopes(rule: Rule, caller: Principal) -> Iterator[Principal]:
    return (replace(caller, scopes=caller.scopes | {scope}) for scope in sorted(rule.scopes))


def _names(rule: Rule, model: ModelRef) -> Iterator[ModelRef]:
    """Where a pattern leaves open how the model is called, it is called as this one or any other is."""
    for filling in (model.name.rpartition("/")[2], "x"):
        for pattern in rule.models:
            yield replace(model, name=filling.join(re.split(r"\*+", pattern)))


def _operations(rule: Rule, model: ModelRef) -> Iterator[ModelRef]:
    """On a route like this, or on one of those on which a rule need not list the operation."""
    for explicit in dict.fromkeys((model.explicit, False)):
        yield from (replace(model, operation=one, explicit=explicit) for one in sorted(rule.operations))


def _times(rule: Rule, asked: Asked, denies: Sequence[Rule]) -> Iterator[Asked]:
    windows = {one.window for one in (rule, *denies) if one.window is not None}
    for instant in instants(windows, asked.at):
        if rule.window is None or rule.window.holds(instant.at):
            yield replace(asked, at=instant.at)


def _places(rule: Rule, asked: Asked, denies: Sequence[Rule]) -> Iterator[Asked]:
    for peer in addresses({network for one in (rule, *denies) for network in one.networks}):
        if within(address_of(peer or ""), rule.networks):
            yield replace(asked, peer=peer)


def _as_it_was(_rule: Rule, asked: Asked, _denies: Sequence[Rule]) -> Iterator[Asked]:
    yield asked


_WAYS: Final[dict[Respect, _Ways]] = {
    Respect.SUBJECT: _of_caller(_subjects),
    Respect.GROUPS_UNKNOWN: _of_caller(_known_groups),
    Respect.ISSUER: _of_caller(lambda rule, who: (replace(who, provider=one) for one in sorted(rule.issuers))),
    Respect.SCOPE: _of_caller(_scopes),
    Respect.NOT_GROUPS: _of_caller(lambda rule, who: iter([replace(who, groups=who.groups - rule.not_groups)])),
    Respect.MODEL: _of_model(_names),
    Respect.OPERATION: _of_model(_operations),
    Respect.EXPLICIT: _of_model(lambda _, model: iter([replace(model, explicit=False)])),
    Respect.VERSION: _of_model(lambda rule, model: (replace(model, version=one) for one in sorted(rule.versions))),
    Respect.TIME: _times,
    Respect.NETWORK: _places,
    Respect.DENIED: _as_it_was,
}

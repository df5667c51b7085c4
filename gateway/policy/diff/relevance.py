"""Which of the rules that cover a question can have to do with what changes?

Knows: whom rules mean. Whoever's answer changes is meant by a rule that only one version has; a rule that nobody of
those is meant by, and that nothing but more rights would bring in, may be left aside. Where there are two ways in, a
rule that shuts only the second stays: whoever it means may need the first, and get or lose that.
Must not know: models, times, how witnesses are searched.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.policy.diff.both import Both, Covering
from gateway.policy.rules import Effect, Rule
from gateway.terms import covers

_Element = tuple[str, str]


def relevant(both: Both, covering: Covering, *, groups_known: bool) -> int:
    """Those of the rules that cover the question, one bit each."""
    changed = list(both.chosen(covering.rules & both.changed))
    allow = [rule for rule in changed if rule.effect is Effect.ALLOW]
    everything = len(allow) < len(changed)  # whatever allows, allows now for whom a rule denied it, or no longer does
    kept, left = 0, []
    reached: set[_Element] = set()
    told = both.changed | _shutting(both, covering)
    for number, rule in _numbered(both, covering.rules):
        beside = rule.effect is Effect.ALLOW and (everything or any(not covers(rule.terms, one.terms) for one in allow))
        if told >> number & 1 or beside:
            kept |= 1 << number
            reached.update(_subjects(rule), _absent(rule))
        else:
            left.append((number, rule))
    more = True
    while more:
        met = [(number, rule) for number, rule in left if _met(rule, reached, groups_known=groups_known)]
        left = [one for one in left if one not in met]
        for number, rule in met:
            kept |= 1 << number
            reached.update(_absent(rule))
        more = bool(met)
    return kept


def _shutting(both: Both, covering: Covering) -> int:
    """The rules that shut the second way in alone, where the first is not the same in both versions."""
    first = both.changed & (covering.allow | covering.deny)
    return covering.no_run & ~covering.deny if first and covering.run else 0


def _met(rule: Rule, reached: set[_Element], *, groups_known: bool) -> bool:
    """Whether it may mean somebody who has nothing but what is `reached`."""
    if rule.anybody or (not groups_known and rule.effect is Effect.DENY and rule.groups):
        return True
    return not reached.isdisjoint(_subjects(rule))


def _subjects(rule: Rule) -> Iterator[_Element]:
    yield from (("user", name) for name in rule.users)
    yield from (("client", name) for name in rule.clients)
    yield from (("group", name) for name in rule.groups)


def _absent(rule: Rule) -> Iterator[_Element]:
    yield from (("group", name) for name in rule.not_groups)


def _numbered(both: Both, rules: int) -> Iterator[tuple[int, Rule]]:
    return ((number, rule) for number, rule in enumerate(both.rules) if rules >> number & 1)

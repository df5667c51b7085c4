"""Rules that cover the same question, brought to the least that still tells who is meant.

Knows: the subjects, scopes and absent groups of rules. Must not know: models, times, how witnesses are searched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.policy.rules import Effect, Rule
from gateway.terms import Terms


@dataclass(frozen=True, slots=True)
class Block:
    """Rules of one effect, the same scopes, absent groups and terms: together they mean whom any one of them means.

    `terms` None: they deny.
    """

    terms: Terms | None
    scopes: frozenset[str]
    not_groups: frozenset[str]
    anybody: bool
    users: frozenset[str]
    groups: frozenset[str]
    clients: frozenset[str]


@dataclass(frozen=True, slots=True)
class Way:
    """One way in: whom one of `allow` means and none of `deny`."""

    allow: tuple[Block, ...]
    deny: tuple[Block, ...]


def blocks(rules: Iterable[Rule], *, groups_known: bool) -> tuple[Block, ...]:
    """The blocks of `rules`. Of a caller whose groups nobody knows, rules mean whom they might: see `engine`."""
    found: dict[tuple[object, ...], list[Rule]] = {}
    for rule in rules:
        if groups_known or rule.effect is Effect.DENY or not rule.not_groups:
            found.setdefault((rule.effect, rule.scopes, rule.not_groups, rule.terms), []).append(rule)
    return tuple(_block(alike, groups_known=groups_known) for alike in found.values())


def _block(rules: list[Rule], *, groups_known: bool) -> Block:
    first = rules[0]
    denies = first.effect is Effect.DENY
    anybody = any(rule.anybody or (denies and not groups_known and bool(rule.groups)) for rule in rules)
    nobody: frozenset[str] = frozenset()
    return Block(
        terms=None if denies else first.terms,
        scopes=first.scopes,
        not_groups=first.not_groups,
        anybody=anybody,
        users=nobody if anybody else nobody.union(*(rule.users for rule in rules)),
        groups=nobody if anybody else nobody.union(*(rule.groups for rule in rules)),
        clients=nobody if anybody else nobody.union(*(rule.clients for rule in rules)),
    )

"""Whether rules fit what is configured around them: its models, its pools, its identity providers.

Pure. Knows: names of models, what calls to them carry, which groups a provider can give.
Must not know: how settings are read, how rules decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from gateway.call import Operation
from gateway.globs import compile_glob
from gateway.policy.lint import Finding, about
from gateway.policy.rules import Effect, Rule

#: The one protocol with versions of models; its calls carry tensors, not the fields that limits speak of.
TENSORS: Final = "kserve"

USING: Final = frozenset({Operation.INFER, Operation.STREAM})


@dataclass(frozen=True, slots=True)
class Configured:
    """A model: its name and others for it, the pool that serves it, and what that speaks."""

    name: str
    aliases: tuple[str, ...]
    pool: str
    protocols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Giver:
    """The groups that a provider may give: those named in `groups`, and any that `allowed` lets through.

    `prefix` begins each that is not in `groups`.
    """

    groups: frozenset[str] = frozenset()
    prefix: str = ""
    allowed: tuple[str, ...] = ()
    renamed: frozenset[str] = frozenset()

    def gives(self, group: str) -> bool:
        if group in self.groups:
            return True
        own = group.startswith(self.prefix) and group not in self.renamed
        return own and any(compile_glob(pattern)(group) for pattern in self.allowed)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is configured in `file`. `givers`: by the name of a provider; None: it is not known what that gives.

    `shared`: names that several models share, with those.
    """

    file: str
    models: tuple[Configured, ...]
    givers: Mapping[str, Giver | None]
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def fitting(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """What does not fit."""
    matched = _matched(rules, around.models)
    yield from _unmatched(rules, matched, around)
    yield from _unopened(rules, matched, around)
    for rule in rules:
        yield from _strangers(rule, around.givers)
        yield from _ungiven(rule, around.givers)
        yield from _unseen(rule, matched)


_Matched = Mapping[str, Sequence[Configured]]


def _matched(rules: Sequence[Rule], models: Sequence[Configured]) -> _Matched:
    """By each pattern of the rules, the models whose names match it: many rules share a few patterns."""
    by_name: dict[str, list[Configured]] = {}
    for model in models:
        by_name.setdefault(model.name, []).append(model)
    found: dict[str, Sequence[Configured]] = {}
    for pattern in {pattern for rule in rules for pattern in rule.models}:
        if "*" not in pattern:
            found[pattern] = by_name.get(pattern, [])
            continue
        matches = compile_glob(pattern)
        found[pattern] = [model for model in models if matches(model.name)]
    return found


def _unmatched(rules: Iterable[Rule], matched: _Matched, around: Surroundings) -> Iterator[Finding]:
    """Patterns that are no model's name."""
    for rule in rules:
        for pattern in rule.models:
            if not matched[pattern]:
                text = f"no configured model is called {pattern!r}{_hint(pattern, around)}"
                yield about("unknown_model", rule, text)


def _hint(pattern: str, around: Surroundings) -> str:
    matches = compile_glob(pattern)
    for name, models in around.shared.items():
        if matches(name):
            return f"; {name!r} is an alias of several models, and rules speak of them by name: {', '.join(models)}"
    for model in around.models:
        if any(map(matches, model.aliases)):
            return f"; that is an alias, and rules speak of the model by its name {model.name!r}"
    names = {model.name.lower(): model.name for model in around.models}
    near = get_close_matches(pattern.lower(), names, 1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def _unopened(rules: Iterable[Rule], matched: _Matched, around: Surroundings) -> Iterator[Finding]:
    """Pools, and of other pools models, that nobody may use."""
    allowing = (rule for rule in rules if rule.effect is Effect.ALLOW and USING & rule.operations)
    patterns = {pattern for rule in allowing for pattern in rule.models}
    opened = {model.name for pattern in patterns for model in matched[pattern]}
    pools = dict.fromkeys(model.pool for model in around.models)
    for pool in pools:
        models = [model for model in around.models if model.pool == pool]
        if not any(model.name in opened for model in models):
            text = f"pool {pool}: no rule allows any of its models, so nobody can use it"
            yield Finding("unopened_pool", None, around.file, 0, text)
            continue
        for model in models:
            if model.name not in opened:
                text = f"pool {pool}: no rule allows its model {model.name!r}, so nobody can use it"
                yield Finding("unopened_model", None, around.file, 0, text)


def _strangers(rule: Rule, givers: Mapping[str, Giver | None]) -> Iterator[Finding]:
    for name in sorted(rule.issuers - givers.keys()):
        known = ", ".join(sorted(givers)) or "none"
        yield about("unknown_issuer", rule, f"no identity provider is called {name!r}; there is {known}")


def _ungiven(rule: Rule, givers: Mapping[str, Giver | None]) -> Iterator[Finding]:
    """Groups that cannot come, by prefix, renaming and what is allowed, from the providers that the rule is about."""
    asked = [givers.get(name) for name in sorted(rule.issuers)] if rule.issuers else list(givers.values())
    if not givers or None in asked:
        return
    for group in sorted(rule.groups | rule.not_groups):
        if not any(giver is not None and giver.gives(group) for giver in asked):
            text = f"no identity provider can give the group {group!r} (group_prefix, group_map, groups_allowed, keys)"
            yield about("unknown_group", rule, text)


def _unseen(rule: Rule, matched: _Matched) -> Iterator[Finding]:
    """What can never be held against a call, because calls of the rule's models do not say it."""
    if not rule.versions and not rule.terms.needs_fields:
        return
    meant = [model for pattern in rule.models for model in matched[pattern]]
    if not meant:
        return
    if rule.versions and rule.effect is Effect.ALLOW and not any(TENSORS in model.protocols for model in meant):
        yield about("versions_unseen", rule, "allows versions, but calls of its models name none, so it allows nothing")
    if rule.terms.needs_fields and all(model.protocols == (TENSORS,) for model in meant):
        text = f"limits fields of a JSON body, but its models are called with tensors ({TENSORS}): they are refused"
        yield about("caps_unseen", rule, text)

"""The models that are compared.

Knows: names that rules write out, names that are made up for their patterns, names that are configured.
Must not know: how rules decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.globs import compile_glob
from gateway.policy.diff.both import Both
from gateway.policy.diff.names import made_up


@dataclass(frozen=True, slots=True)
class Named:
    """A model. `patterns`: those of the rules in question that a made-up name stands for; () for a real one."""

    name: str
    aliases: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


def models(both: Both, configured: tuple[Named, ...] | None) -> Iterator[Named]:
    """The configured ones; else all that are written out, and one name for each way in which patterns overlap.

    Of those, what no rule speaks of that only one version has is left out. Raises `TooMuch`.
    """
    told = {pattern for rule in both.chosen(both.changed) for pattern in rule.models}
    if configured is not None:
        yield from configured
        return
    patterns = {pattern for rule in both.rules for pattern in rule.models}
    matchers = [compile_glob(pattern) for pattern in sorted(told)]
    for name in sorted(pattern for pattern in patterns if "*" not in pattern):
        if any(matches(name) for matches in matchers):
            yield Named(name)
    for name in made_up(patterns, told):
        yield Named(name, patterns=tuple(glob.pattern for glob in matchers if glob(name)))

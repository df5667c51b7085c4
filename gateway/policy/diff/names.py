"""Which names of models can patterns tell apart?

Knows: patterns and names. A made-up name stands for all names that the same patterns match.
Must not know: rules, which models exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, count
from string import ascii_lowercase, digits
from typing import Final

from gateway.globs import compile_glob, tokens_of
from gateway.policy.diff.bounds import NAMES_LIMIT, TooMuch

_DEAD: Final = -1  # no literal begins like this


class _Automaton:
    """All patterns that are not literal at once, one bit for each position of each, as `globs.Glob` has for one."""

    __slots__ = ("_crossing", "_stars", "accept", "start", "steps", "told")

    def __init__(self, patterns: Iterable[str], told: Collection[str]) -> None:
        self.steps: dict[str, int] = {}
        self._stars = self._crossing = self.accept = self.start = self.told = 0
        first = 0
        for pattern in patterns:
            tokens = tokens_of(pattern)
            for position, token in enumerate(tokens, first):
                if token.startswith("*"):
                    self._stars |= 1 << position
                    self._crossing |= (len(token) - 1) << position
                else:
                    self.steps[token] = self.steps.get(token, 0) | 1 << position
            self.start |= 1 << first | (self._stars & 1 << first) << 1
            last = first + len(tokens)
            self.accept |= 1 << last
            if pattern in told:
                self.told |= (1 << last + 1) - (1 << first)
            first = last + 1

    def moved(self, at: int, character: str) -> int:
        """Where the positions `at` lead with one more character."""
        stepped = (at & self.steps.get(character, 0)) << 1
        at = stepped | at & (self._crossing if character == "/" else self._stars)
        return at | (at & self._stars) << 1


class _Literals:
    """The names that are written out, as a tree of their characters; node 0 is before the first."""

    __slots__ = ("children", "ends")

    def __init__(self, names: Iterable[str]) -> None:
        self.children: list[dict[str, int]] = [{}]
        self.ends: set[int] = set()
        for name in names:
            node = 0
            for character in name:
                if character not in self.children[node]:
                    self.children[node][character] = len(self.children)
                    self.children.append({})
                node = self.children[node][character]
            self.ends.add(node)

    def moved(self, node: int, character: str) -> int:
        """The node one character on."""
        return _DEAD if node == _DEAD else self.children[node].get(character, _DEAD)


def made_up(patterns: Collection[str], told: Collection[str]) -> Iterator[str]:
    """A short name for each different set of `patterns` that match a name together, if one of `told` is among them.

    Names that are written out as a pattern are not among them. Raises `TooMuch`.
    """
    globs = sorted({pattern for pattern in patterns if "*" in pattern})
    literals = {pattern for pattern in patterns if "*" not in pattern}
    automaton, tree = _Automaton(globs, told), _Literals(literals)
    other = _unused(automaton.steps.keys() | {character for name in literals for character in name})
    found: dict[int, str] = {}
    first = (automaton.start, 0)
    seen, waiting = {first}, deque([("", *first)])
    while waiting:
        name, at, node = waiting.popleft()
        if at & automaton.accept & automaton.told and node not in tree.ends and name:
            found.setdefault(at & automaton.accept, name)
        for character in _telling(automaton, tree, at, node, other):
            then = (automaton.moved(at, character), tree.moved(node, character))
            if then[0] & automaton.told and then not in seen:
                seen.add(then)
                waiting.append((name + character, *then))
        if len(seen) > NAMES_LIMIT:
            raise TooMuch(
                "the patterns of models overlap in too many ways to find every name that they tell apart; "
                "with --config only the configured models are compared"
            )
    matchers = [compile_glob(glob) for glob in globs]
    for name in found.values():
        alike = [matches(name) for matches in matchers]
        yield next(
            better
            for better in _better(name, other)
            if better == name or (better not in literals and [matches(better) for matches in matchers] == alike)
        )


def _telling(automaton: _Automaton, tree: _Literals, at: int, node: int, other: str) -> Iterator[str]:
    """The characters that lead to different places from here, one that no pattern has before all."""
    yield other
    children = {} if node == _DEAD else tree.children[node]
    chosen = {character for character, bits in automaton.steps.items() if bits & at} | children.keys() | {"/"}
    yield from sorted(chosen)


def _better(name: str, other: str) -> Iterator[str]:
    """The name as people would rather read it: a star stands for something."""
    for more in (other * 3, other):
        parts = [part or more for part in name.split("/")]
        yield "/".join(parts) + ("" if parts[-1] == more else more)
        yield "/".join(parts)
        yield name + more
        yield more + name
    yield name


def _unused(characters: Collection[str]) -> str:
    """A character that no pattern has."""
    readable = f"xyzw{ascii_lowercase}{digits}"
    return next(character for character in chain(readable, map(chr, count(0x4E00))) if character not in characters)

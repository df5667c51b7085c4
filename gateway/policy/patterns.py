"""Patterns of names held against each other: is every name of one also of others, is there a name of both?

Pure and exact: patterns are followed as automata, all positions at once. Knows: patterns. Must not know: rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from gateway.globs import Glob, compile_glob, tokens_of

# Longest walk through two patterns. Real ones need tens of steps; where a walk would be longer, the answer is the one
# that claims nothing.
STEPS_LIMIT = 2_000

KNOWN_LIMIT = 65_536  # answers kept, so that a pattern that stands in many rules is followed once

# Stands for every character that no pattern names.
_OTHER = "\0"


@lru_cache(KNOWN_LIMIT)
def included(pattern: str, others: tuple[str, ...]) -> bool:
    """Whether every name that matches `pattern` matches one of `others`. False where that would take too long."""
    if pattern in others or "*" in others or "**" in others:
        return True
    matchers = [_compiled(other) for other in others if "*" in other or "*" not in pattern]
    # Of most patterns the first names that come to mind show that they are not within the others.
    if any(not any(matches(name) for matches in matchers) for name in _names(pattern)):
        return False
    if "*" not in pattern:
        return True
    one, many = _Walk(pattern), [_Walk(matches.pattern) for matches in matchers]
    letters = _letters([one, *many])
    start = (one.start, tuple(walk.start for walk in many))
    seen, ahead = {start}, [start]
    while ahead:
        at, others_at = ahead.pop()
        if one.ends(at) and not any(walk.ends(there) for walk, there in zip(many, others_at, strict=True)):
            return False
        for letter in letters:
            moved = one.step(at, letter)
            if not moved:
                continue
            state = (moved, tuple(walk.step(there, letter) for walk, there in zip(many, others_at, strict=True)))
            if state not in seen:
                if len(seen) >= STEPS_LIMIT:
                    return False
                seen.add(state)
                ahead.append(state)
    return True


def meet(one: str, other: str) -> bool:
    """Whether there is a name that matches both. True where finding out would take too long."""
    if "*" not in one:
        return one == other if "*" not in other else _compiled(other)(one)
    return _compiled(one)(other) if "*" not in other else _meet(one, other)


@lru_cache(KNOWN_LIMIT)
def _meet(one: str, other: str) -> bool:
    first, second = _Walk(one), _Walk(other)
    letters = _letters([first, second])
    start = (first.start, second.start)
    seen, ahead = {start}, [start]
    while ahead:
        at, there = ahead.pop()
        if first.ends(at) and second.ends(there):
            return True
        for state in ((first.step(at, letter), second.step(there, letter)) for letter in letters):
            if state[0] and state[1] and state not in seen:
                if len(seen) >= STEPS_LIMIT:
                    return True
                seen.add(state)
                ahead.append(state)
    return False


@lru_cache(KNOWN_LIMIT)
def _compiled(pattern: str) -> Glob:
    return compile_glob(pattern)


def _names(pattern: str) -> Iterator[str]:
    """A few names that match it: with stars for nothing, and for a character that no pattern names."""
    yield pattern.replace("*", "")
    yield pattern.replace("*", _OTHER)


class _Walk:
    """One pattern; its positions are a number with one bit each, as in `gateway.globs`."""

    __slots__ = ("_crossing", "_end", "_stars", "_steps", "start")

    def __init__(self, pattern: str) -> None:
        self._steps: dict[str, int] = {}
        self._stars = self._crossing = 0
        pieces = tokens_of(pattern)
        for position, piece in enumerate(pieces):
            bit = 1 << position
            if piece.startswith("*"):
                self._stars |= bit
                self._crossing |= bit if piece == "**" else 0
            else:
                self._steps[piece] = self._steps.get(piece, 0) | bit
        self._end = 1 << len(pieces)
        self.start = self._open(1)

    @property
    def letters(self) -> Iterable[str]:
        return self._steps.keys()

    def step(self, at: int, letter: str) -> int:
        moved = (at & self._steps.get(letter, 0)) << 1
        return self._open(moved | at & (self._crossing if letter == "/" else self._stars))

    def ends(self, at: int) -> bool:
        return bool(at & self._end)

    def _open(self, at: int) -> int:
        """A star also stands for nothing; two never stand side by side."""
        return at | (at & self._stars) << 1


def _letters(walks: Iterable[_Walk]) -> tuple[str, ...]:
    named = {letter for walk in walks for letter in walk.letters}
    return tuple(sorted(named | {"/", _OTHER}))

"""Patterns for names: `*` stays within one path segment, `**` crosses `/`, a lone `*` is everything.

Knows: patterns and names, compared code point by code point; nothing else is special, no case is folded.
Must not know: what is named, or what a match means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# A name of a model has at most 256 characters; twice that leaves room for stars and bounds the work for one name.
PATTERN_LIMIT = 512

# Names come from the configuration, hence few; the bound guards against a user of this class that is not so kind.
NAMES_LIMIT = 4096

_STARS = re.compile(r"(\*+)")


def tokens_of(pattern: str) -> list[str]:
    """Single characters, `*` and `**`; a longer run of stars is `**`, and so is a pattern that is only a star."""
    if pattern == "*":
        return ["**"]
    tokens: list[str] = []
    for piece in _STARS.split(pattern):
        tokens.extend([piece[:2]] if piece.startswith("*") else piece)
    return tokens


class Glob:
    """A compiled pattern; calling it says whether a whole name matches.

    All positions of the pattern are tracked at once, one bit each, so the time is linear in the name whatever the
    pattern: there is nothing to backtrack into. Raises `ValueError` for an empty or too long pattern.
    """

    __slots__ = (
        "_accept",
        "_crossing",
        "_stars",
        "_start",
        "_steps",
        "literal",
        "needle",
        "pattern",
        "prefix",
        "suffix",
    )

    def __init__(self, pattern: str) -> None:
        if not pattern:
            raise ValueError("a pattern must not be empty")
        if len(pattern) > PATTERN_LIMIT:
            raise ValueError(f"a pattern has at most {PATTERN_LIMIT} characters")
        self.pattern = pattern
        pieces = [piece for piece in _STARS.split(pattern) if not piece.startswith("*")]
        self.literal = "*" not in pattern
        self.prefix = pieces[0]
        self.suffix = pieces[-1]
        #: The longest literal run: every name that matches contains it.
        self.needle = max(pieces, key=len)
        self._steps: dict[str, int] = {}
        self._stars = self._crossing = 0
        tokens = tokens_of(pattern)
        for position, token in enumerate(tokens):
            if token.startswith("*"):
                self._stars |= 1 << position
                self._crossing |= (len(token) - 1) << position
            else:
                self._steps[token] = self._steps.get(token, 0) | 1 << position
        self._start = 1 | (self._stars & 1) << 1
        self._accept = 1 << len(tokens)

    def __repr__(self) -> str:
        return f"<Glob {self.pattern!r}>"

    def __call__(self, name: str) -> bool:
        if self.literal:
            return name == self.pattern
        steps, stars, crossing = self._steps, self._stars, self._crossing
        at = self._start
        for character in name:
            moved = (at & steps.get(character, 0)) << 1
            at = moved | at & (crossing if character == "/" else stars)
            at |= (at & stars) << 1  # a star also stands for nothing; two never stand side by side
            if not at:
                return False
        return bool(at & self._accept)


def compile_glob(pattern: str) -> Glob:
    """The matcher of `pattern`. Raises `ValueError` for an empty or too long one."""
    return Glob(pattern)


_Entries = list[tuple[str, Glob, int]]


class GlobMasks:
    """Many patterns, each with a bit mask: which masks does a name collect?

    Literals are looked up; the others are reached through what stands before their first and behind their last star, so
    a name is tried against those few that share both ends with it. Answers are kept, at most `NAMES_LIMIT` of them.
    """

    __slots__ = ("_ends", "_everything", "_known", "_literals")

    def __init__(self, patterns: Iterable[tuple[str, int]]) -> None:
        masks: dict[str, int] = {}
        for pattern, mask in patterns:
            masks[pattern] = masks.get(pattern, 0) | mask
        self._literals: dict[str, int] = {}
        self._everything = 0
        self._ends: dict[int, dict[str, dict[int, dict[str, _Entries]]]] = {}
        self._known: dict[str, int] = {}
        for pattern, mask in masks.items():
            self._add(compile_glob(pattern), mask)

    def _add(self, glob: Glob, mask: int) -> None:
        if glob.literal:
            self._literals[glob.pattern] = mask
        elif glob.pattern in ("*", "**"):
            self._everything |= mask
        else:
            prefix, suffix = glob.prefix, glob.suffix
            tails = self._ends.setdefault(len(prefix), {}).setdefault(prefix, {})
            tails.setdefault(len(suffix), {}).setdefault(suffix, []).append((glob.needle, glob, mask))

    def __call__(self, name: str) -> int:
        """The masks of all patterns that match `name`, joined."""
        mask = self._known.get(name)
        if mask is None:
            mask = self._collect(name)
            if len(self._known) >= NAMES_LIMIT:
                self._known.clear()
            self._known[name] = mask
        return mask

    def _collect(self, name: str) -> int:
        mask = self._everything | self._literals.get(name, 0)
        nothing: dict[int, dict[str, _Entries]] = {}
        for before, prefixes in self._ends.items():
            for behind, suffixes in prefixes.get(name[:before], nothing).items():
                for needle, glob, bits in suffixes.get(name[len(name) - behind :], ()):
                    if needle in name and glob(name):
                        mask |= bits
        return mask

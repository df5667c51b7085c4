"""Names that look as if one of them were meant to be the other.

Pure. Knows: how people misspell, letters that look alike. Must not know: rules, what is named.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

#: Letters of other scripts that look like these (Unicode TR 39, those that names are made of).
_TWINS: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04cf\u03bf\u03b1\u03bd\u03c1\u03b9\u0131",
    "aeopcyxijsdloavpii",
)
_BETWEEN: Final = re.compile(r"[\s._/-]+")

SHORTEST: Final = 5  # characters; shorter names differ by one for good reasons
SHORTEST_PART: Final = 3  # so do parts of a name such as `team-a` and `team-b`


def likely(counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Pairs of a name and another that was probably meant, of names with how often each is used.

    Names that differ in case, spaces, separators or letters that look alike; and those a slip of one character away
    from a name that is used more often. What comes first in `counts` was meant where both are used equally.
    """
    order = {name: number for number, name in enumerate(counts)}
    told: set[str] = set()
    for group in _same(counts):
        meant = min(group, key=lambda name: (-counts[name], not name.isascii(), order[name]))
        for name in sorted(group - {meant}):
            told.add(name)
            yield name, meant
    for name, near in sorted(_near(counts)):
        if name not in told and counts[near] > counts[name]:
            told.add(name)
            yield name, near


def skeleton(name: str) -> str:
    """What is left of a name without case, separators, invisible characters and the script of its letters."""
    text = unicodedata.normalize("NFKC", name).casefold().translate(_TWINS)
    visible = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) not in {"Cf", "Mn"})
    return _BETWEEN.sub("", visible)


def _same(names: Mapping[str, int]) -> Iterator[set[str]]:
    groups: dict[str, set[str]] = defaultdict(set)
    for name in names:
        groups[skeleton(name)].add(name)
    yield from (group for group in groups.values() if len(group) > 1)


def _near(names: Mapping[str, int]) -> set[tuple[str, str]]:
    """Names of which one slip makes the other: a character left out, put in, exchanged, or two in the wrong order."""
    without: dict[str, set[str]] = defaultdict(set)
    for name in names:
        if len(name) >= SHORTEST:
            for at in range(len(name) + 1):
                without[name[:at] + name[at + 1 :]].add(name)
    return {
        (one, other)
        for near in without.values()
        if len(near) > 1
        for one in near
        for other in near
        if one != other and _slip(one, other)
    }


def _slip(one: str, other: str) -> bool:
    """Whether they are one slip apart, and not numbered or lettered one after the other."""
    begin = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    end = 0
    while end < min(len(one), len(other)) - begin and one[-1 - end] == other[-1 - end]:
        end += 1
    mine, theirs = one[begin : len(one) - end], other[begin : len(other) - end]
    if (
        any(character.isdigit() for character in mine + theirs)
        or min(map(len, _parts(one, other)), default=0) < SHORTEST_PART
    ):
        return False
    return max(len(mine), len(theirs)) == 1 or (len(mine) == len(theirs) == 2 and mine == theirs[::-1])


def _parts(one: str, other: str) -> list[str]:
    """The parts between separators in which they differ, the whole of them where they have not as many."""
    ones, others = _BETWEEN.split(one), _BETWEEN.split(other)
    if len(ones) != len(others):
        return [one, other]
    return [part for pair in zip(ones, others, strict=True) if pair[0] != pair[1] for part in pair]

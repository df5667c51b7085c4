"""The smallest callers for whom two sets of rules answer differently.

Knows: blocks of rules, and that a caller is made of a user, a client, groups and scopes. Adding one of them can only
make a rule mean the caller, or (an absent group) leave the caller out; so a search that adds nothing but what is still
needed passes every smallest caller. Must not know: models, times, files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from gateway.policy.diff.blocks import Block, Way
from gateway.policy.diff.bounds import STEPS_LIMIT, TooMuch
from gateway.terms import Terms, covers

Ways = tuple[Way, ...]


class Kind(StrEnum):
    """What becomes of a caller."""

    GRANTED = "granted"
    REVOKED = "revoked"
    WIDER = "wider"
    NARROWER = "narrower"


@dataclass(frozen=True, slots=True, order=True)
class Element:
    """A user, client, group or scope (`kind`) of a caller: one of `names`, which no rule in question tells apart."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A caller with nothing but `elements`, for whom things change and for no smaller one in this way."""

    kind: Kind
    elements: frozenset[Element]


@dataclass(frozen=True, slots=True)
class _Goal:
    """Whom every block of `meant` means and none of `passed`."""

    meant: tuple[Block, ...]
    passed: tuple[Block, ...]


def findings(before: Ways, after: Ways) -> Iterator[Finding]:
    """All of them. Raises `TooMuch`."""
    all_blocks = [block for way in (*before, *after) for block in (*way.allow, *way.deny)]
    search = _Search(tuple(dict.fromkeys(all_blocks)))
    for kind, old, new in ((Kind.GRANTED, before, after), (Kind.REVOKED, after, before)):
        yield from search.smallest(kind, _let_in(old, new))
    for kind, old, new in ((Kind.WIDER, before, after), (Kind.NARROWER, after, before)):
        wanted = {block.terms for way in new for block in way.allow}
        for terms in sorted((terms for terms in wanted if terms is not None), key=repr):
            yield from search.smallest(kind, _widened(old, new, terms))


def _let_in(old: Ways, new: Ways) -> Iterator[_Goal]:
    """Whoever `new` lets in and `old` does not."""
    for way in new:
        for block in way.allow:
            for meant, passed in _shut(old, [way.allow for way in old]):
                yield _Goal((block, *meant), (*way.deny, *passed))


def _widened(old: Ways, new: Ways, terms: Terms) -> Iterator[_Goal]:
    """Whom both let in, but `old` under no terms that take all that `terms` take."""
    enough = [tuple(block for block in way.allow if _enough(block, terms)) for way in old]
    for way, other in product(new, old):
        for block, less in product(way.allow, other.allow):
            if block.terms == terms and not _enough(less, terms):
                for meant, passed in _shut(old, enough):
                    yield _Goal((block, less, *meant), (*way.deny, *other.deny, *passed))


def _enough(block: Block, terms: Terms) -> bool:
    return block.terms is not None and covers(block.terms, terms)


def _shut(ways: Ways, allow: Iterable[tuple[Block, ...]]) -> Iterator[tuple[tuple[Block, ...], tuple[Block, ...]]]:
    """For each manner in which no way lets in by a block of `allow`: who is meant, and who is not."""
    manners = [
        [((), wanted), *(((block,), ()) for block in way.deny if wanted)]
        for way, wanted in zip(ways, allow, strict=True)
    ]
    for chosen in product(*manners):
        yield sum((meant for meant, _ in chosen), ()), sum((passed for _, passed in chosen), ())


class _Search:
    """Elements that blocks tell apart, and the steps that were made."""

    def __init__(self, blocks: tuple[Block, ...]) -> None:
        self._blocks = blocks
        self._numbers = {block: number for number, block in enumerate(blocks)}
        self._elements: list[Element] = []
        #: By element: the blocks that mean it, whose scopes it has, that leave it out.
        self._means: list[int] = []
        self._serves: list[int] = []
        self._leaves: list[int] = []
        self._steps = 0
        for kind, field in (("user", "users"), ("client", "clients")):
            self._add(kind, self._bits(field), {})
        self._add("group", self._bits("groups"), self._bits("not_groups"))
        self._add("scope", self._bits("scopes"), {})

    def _bits(self, field: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for number, block in enumerate(self._blocks):
            for name in getattr(block, field):
                found[name] = found.get(name, 0) | 1 << number
        return found

    def _add(self, kind: str, bits: dict[str, int], leaves: dict[str, int]) -> None:
        alike: dict[tuple[int, int], list[str]] = {}
        for name in sorted(bits.keys() | leaves.keys()):
            alike.setdefault((bits.get(name, 0), leaves.get(name, 0)), []).append(name)
        for (meant, left), names in alike.items():
            self._elements.append(Element(kind, tuple(names)))
            self._means.append(0 if kind == "scope" else meant)
            self._serves.append(meant if kind == "scope" else 0)
            self._leaves.append(left)

    def smallest(self, kind: Kind, goals: Iterable[_Goal]) -> Iterator[Finding]:
        """The smallest callers that meet one of `goals`, each a set of elements. Raises `TooMuch`."""
        found: set[int] = set()
        for goal in goals:
            self._meet(goal, found)
        kept: list[int] = []
        for chosen in sorted(found, key=lambda bits: (bits.bit_count(), bits)):
            if not any(less & chosen == less for less in kept):
                kept.append(chosen)
                yield Finding(kind, frozenset(e for n, e in enumerate(self._elements) if chosen >> n & 1))

    def _meet(self, goal: _Goal, found: set[int]) -> None:
        meant = [self._numbers[block] for block in goal.meant]
        passed = [self._numbers[block] for block in goal.passed]
        barred = sum(1 << number for number in set(meant))
        shut = sum(1 << n for n, left in enumerate(self._leaves) if left & barred)
        waiting = [(0, shut)]
        while waiting:
            self._steps += 1
            if self._steps > STEPS_LIMIT:
                raise TooMuch("too many rules with scopes of their own or absent groups of their own cover one model")
            chosen, closed = waiting.pop()
            needed = self._needed(meant, passed, chosen)
            if needed is None:
                found.add(chosen)
                continue
            for number in needed:
                if not closed >> number & 1 and self._fits(chosen, number):
                    waiting.append((chosen | 1 << number, closed))
                    closed |= 1 << number  # whoever has both is found on that branch

    def _fits(self, chosen: int, number: int) -> bool:
        """A caller is one user and comes through one client."""
        kind = self._elements[number].kind
        return kind not in {"user", "client"} or not any(
            chosen >> other & 1 and element.kind == kind for other, element in enumerate(self._elements)
        )

    def _needed(self, meant: list[int], passed: list[int], chosen: int) -> list[int] | None:
        """Elements of which one has to be added; None where nothing has to be."""
        means = serves = leaves = 0
        rest = chosen
        while rest:
            number = (rest & -rest).bit_length() - 1
            rest &= rest - 1
            means |= self._means[number]
            serves |= self._serves[number]
            leaves |= self._leaves[number]
        for number in meant:
            block = self._blocks[number]
            if not block.anybody and not means >> number & 1:
                return _having(self._means, number)
            if block.scopes and not serves >> number & 1:
                return _having(self._serves, number)
        for number in passed:
            block = self._blocks[number]
            hit = (block.anybody or means >> number & 1) and (not block.scopes or serves >> number & 1)
            if hit and not leaves >> number & 1:
                return _having(self._leaves, number)
        return None


def _having(bits: list[int], number: int) -> list[int]:
    return [element for element, found in enumerate(bits) if found >> number & 1]

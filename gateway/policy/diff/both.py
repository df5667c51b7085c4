"""The rules of two versions of a policy as one set, in which each rule is in the old, in the new, or in both.

Knows: what rules cover. Two rules are the same if they say the same, wherever they stand and whatever their id.
Must not know: callers, files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from gateway.call import Operation
from gateway.globs import GlobMasks
from gateway.policy.conditions import Network, Window, address_of, within
from gateway.policy.diff.blocks import Way, blocks
from gateway.policy.rules import VERSION, Effect, Rule


@dataclass(frozen=True, slots=True)
class Covering:
    """The rules that cover a question, one bit each; what runs a model also lets ask for its health.

    `run`, `no_run`: those that allow and deny to run it, where that counts as well.
    """

    allow: int
    deny: int
    run: int
    no_run: int

    @property
    def rules(self) -> int:
        """All of them."""
        return self.allow | self.deny | self.run | self.no_run

    def narrowed(self, allowing: int, denying: int) -> Covering:
        """What is left of them."""
        return Covering(self.allow & allowing, self.deny & denying, self.run & allowing, self.no_run & denying)


class Both:
    """Bit n of each number stands for rule n. `changed`: the rules that only one version has."""

    def __init__(self, old: Iterable[Rule], new: Iterable[Rule]) -> None:
        before, after = dict.fromkeys(map(_bare, old)), dict.fromkeys(map(_bare, new))
        self.rules = tuple(before | after)
        self.old = self.mask(lambda rule: rule in before)
        self.new = self.mask(lambda rule: rule in after)
        self.changed = self.old ^ self.new
        self._deny = self.mask(lambda rule: rule.effect is Effect.DENY)
        self._operations = {operation: self._listing(operation) for operation in Operation}
        self._explicit = {operation: self._writing(operation) for operation in Operation}
        self._models = GlobMasks(
            (pattern, 1 << number) for number, rule in enumerate(self.rules) for pattern in rule.models
        )

    def _listing(self, operation: Operation) -> int:
        return self.mask(lambda rule: operation in rule.operations)

    def _writing(self, operation: Operation) -> int:
        return self.mask(lambda rule: operation in rule.explicit_operations)

    def mask(self, holds: Callable[[Rule], bool]) -> int:
        """The rules for which it holds."""
        return sum(1 << number for number, rule in enumerate(self.rules) if holds(rule))

    def chosen(self, mask: int) -> Iterator[Rule]:
        """The rules of `mask`."""
        while mask:
            yield self.rules[(mask & -mask).bit_length() - 1]
            mask &= mask - 1

    def covering(self, name: str, operation: Operation, *, explicit: bool) -> Covering:
        """The rules for this operation on this model; see `engine.Policy.decide`."""
        models = self._models(name)
        own = models & self._operations[operation]
        allow, deny = own & ~self._deny, own & self._deny
        if explicit:
            return Covering(allow & self._explicit[operation], deny, 0, 0)
        run = models & self._operations[Operation.INFER] if operation is Operation.HEALTH else 0
        return Covering(allow, deny, run & ~self._deny, run & self._deny)

    def ways(self, covering: Covering, present: int, *, groups_known: bool) -> tuple[Way, ...]:
        """The ways in of one version, whose rules are `present`."""
        deny = covering.deny & present
        found = [(covering.allow & present, deny), (covering.run & present, deny | covering.no_run & present)]
        return tuple(
            Way(
                blocks(self.chosen(allow), groups_known=groups_known),
                blocks(self.chosen(denying), groups_known=groups_known),
            )
            for allow, denying in found
            if allow
        )


def _bare(rule: Rule) -> Rule:
    """What it says, without where it stands and how it is called."""
    return replace(
        rule,
        id="",
        file="",
        line=0,
        models=tuple(sorted(set(rule.models))),
        networks=tuple(sorted(set(rule.networks), key=str)),
    )


def by_issuer(both: Both, issuer: str) -> int:
    """The rules that this provider's callers may be meant by."""
    return both.mask(lambda rule: not rule.issuers or issuer in rule.issuers)


def by_version(both: Both, version: str | None) -> tuple[int, int]:
    """The rules that this version may be meant by: those that allow, those that deny."""
    plain = version is not None and VERSION.fullmatch(version) is not None
    allowing = both.mask(lambda rule: not rule.versions or (plain and version in rule.versions))
    return allowing, allowing if plain else -1


def by_address(both: Both) -> Callable[[str | None], int]:
    """The rules that hold for a client at an address; None: nobody knows where."""
    masks = {key: _of_key(both, key) for key in map(_placing, both.rules) if key[0]}

    def holding(peer: str | None) -> int:
        address = address_of(peer or "")
        away = 0
        for (near, effect), mask in masks.items():
            if not within(address, near) and (address is not None or effect is Effect.ALLOW):
                away |= mask
        return ~away

    return holding


def by_time(both: Both) -> Callable[[float], int]:
    """The rules that hold at a UNIX time."""
    masks = {window: _of_window(both, window) for window in windows(both.rules)}
    return lambda at: ~sum(mask for window, mask in masks.items() if not window.holds(at))


def _placing(rule: Rule) -> tuple[tuple[Network, ...], Effect]:
    return rule.networks, rule.effect


def _of_key(both: Both, key: tuple[tuple[Network, ...], Effect]) -> int:
    return both.mask(lambda rule: _placing(rule) == key)


def _of_window(both: Both, window: Window) -> int:
    return both.mask(lambda rule: rule.window == window)


def windows(rules: Iterable[Rule]) -> Collection[Window]:
    """Each once."""
    return {rule.window for rule in rules if rule.window is not None}


def networks(rules: Iterable[Rule]) -> Collection[Network]:
    """Each once."""
    return {network for rule in rules for network in rule.networks}

"""Calls that were made, decided by two versions of a policy.

Knows: audit lines. Must not know: what a decision hangs on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.cli.auditfiles import every_line
from gateway.cli.policy.replaying import facts_of
from gateway.cli.saying import counted
from gateway.policy.engine import Policy
from gateway.policy.explain import listed
from gateway.policy.replay import Logged, NotReplayable, logged

# Callers with a model and an operation that are kept apart; what is beyond is only counted. About 100 MB at worst.
_KEPT: Final = 200_000

_WORDS: Final = {True: "allow", False: "deny"}


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked for what, and whether the new version lets it in (the old one answers the other way)."""

    subject: str
    provider: str
    model: str
    operation: str
    allowed: bool


@dataclass
class Tally:
    """What came of all lines.

    `others`: calls that another policy than the old version decided. `unseen`: `groups` and `scopes`, with the name,
    that either version names and lines may have left out, since the policy that decided did not name them.
    """

    same: int = 0
    granted: int = 0
    revoked: int = 0
    others: int = 0
    unseen: set[tuple[str, str]] = field(default_factory=set)
    apart: Counter[Asked] = field(default_factory=Counter)
    no_decisions: Counter[str] = field(default_factory=Counter)
    not_replayable: Counter[str] = field(default_factory=Counter)

    @property
    def compared(self) -> int:
        """How many calls both versions decided."""
        return self.same + self.granted + self.revoked

    def changes(self, *, grants: bool) -> int:
        """How many calls are decided otherwise; with `grants` only those that are newly let in."""
        return self.granted + (0 if grants else self.revoked)

    def left_out(self, what: str) -> list[str]:
        """Those of `unseen` that are this, in order."""
        return sorted(name for kind, name in self.unseen if kind == what)

    def add(self, made: Logged, *, allowed: bool) -> None:
        """One call that is decided otherwise."""
        if allowed:
            self.granted += 1
        else:
            self.revoked += 1
        caller, model = made.asked.principal, made.asked.model
        asked = Asked(caller.subject, caller.provider, model.name, model.operation.value, allowed)
        if asked in self.apart or len(self.apart) < _KEPT:
            self.apart[asked] += 1

    def words(self, most: int | None) -> Iterator[str]:
        """Line by line; at most so many kinds of calls, the most frequent first."""
        alike = f"{counted(self.same, 'call')} let in, or not, alike"
        yield f"{alike}, {self.granted} newly allowed, {self.revoked} no longer allowed"
        ordered = self.apart.most_common()
        for asked, count in ordered[:most]:
            now = "newly allowed" if asked.allowed else "no longer allowed"
            who = f"{asked.subject} of {asked.provider}"
            yield f"  {counted(count, 'call')} {now}: {who}, {asked.operation} on {asked.model}"
        if most is not None and len(ordered) > most:
            yield f"  and {len(ordered) - most} more of these; --all shows them"
        if rest := self.changes(grants=False) - self.apart.total():
            yield f"  and {counted(rest, 'call')} more, of too many callers to tell them apart"
        for why, count in (*self.not_replayable.most_common(), *self.no_decisions.most_common()):
            yield f"  {counted(count, 'line')} not compared: {why}"
        if self.others:
            yield f"  {counted(self.others, 'call')} decided by another policy than the old version here"
        for what in ("groups", "scopes"):
            if names := self.left_out(what):
                yield f"  lines may leave out {what} that the policy of their time may not have named: {listed(names)}"

    def members(self) -> dict[str, Any]:
        """The JSON object (docs/policy-tools.md)."""
        return {
            "same": self.same,
            "granted": self.granted,
            "revoked": self.revoked,
            "calls": [
                {
                    "subject": {"user": asked.subject, "issuer": asked.provider},
                    "model": asked.model,
                    "operation": asked.operation,
                    "before": _WORDS[not asked.allowed],
                    "after": _WORDS[asked.allowed],
                    "count": count,
                }
                for asked, count in self.apart.most_common()
            ],
            "other_policy": self.others,
            "groups_not_logged": self.left_out("groups"),
            "scopes_not_logged": self.left_out("scopes"),
            "not_replayable": dict(self.not_replayable),
            "no_decisions": dict(self.no_decisions),
        }


def compared(files: Sequence[str], old: Policy, new: Policy) -> Tally:
    """Decide every logged call by both. Raises `Unreadable`."""
    tally = Tally()
    either = _named(old) | _named(new)
    unseen = {policy.digest: either - _named(policy) for policy in (new, old)}
    for line in every_line(files):
        try:
            made = logged(facts_of(line))
        except NotReplayable as why:
            (tally.no_decisions if why.harmless else tally.not_replayable)[str(why)] += 1
            continue
        tally.others += made.policy != old.digest
        tally.unseen |= unseen.get(made.policy, either)  # what any other policy names, nobody knows here
        before, after = (_may(policy, made) for policy in (old, new))
        if before == after:
            tally.same += 1
        else:
            tally.add(made, allowed=after)
    return tally


def _may(policy: Policy, made: Logged) -> bool:
    asked = made.asked
    return policy.may(asked.principal, asked.model, policy.holding(asked.at, asked.peer))


def _named(policy: Policy) -> frozenset[tuple[str, str]]:
    """What a line that it decided can tell of its caller: each with what it is."""
    book = policy.rulebook(0)
    return frozenset([*(("groups", name) for name in book.groups), *(("scopes", name) for name in book.scopes)])

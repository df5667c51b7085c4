"""Audit files, decided again line by line.

Knows: files of audit lines, where policies are kept. Must not know: what a decision hangs on.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from gateway.cli.auditfiles import every_line
from gateway.cli.policy.asking import BadCall, Site
from gateway.cli.saying import counted
from gateway.policy import history
from gateway.policy.engine import Policy
from gateway.policy.history import NotKept
from gateway.policy.replay import Logged, NotReplayable, difference, logged

# Policies held at one time: lines come in the order of time, and so do policies.
_POLICIES: Final = 8

# Differences that are told one by one.
_TOLD: Final = 10

_ID: Final = re.compile(r"(?:[0-9a-f]{0,32}\.)?[0-9a-f]{32}")


class Policies:
    """By digest: the one at hand, or one that was kept in the folder."""

    def __init__(self, site: Site, folder: Path | None) -> None:
        self._site = site
        self._folder = folder
        self._held: OrderedDict[tuple[str, bool], Policy | str] = OrderedDict()

    def __call__(self, made: Logged) -> Policy:
        """Raises `NotReplayable`."""
        key = (made.policy, made.hide_models)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = self._find(made)
            if len(self._held) > _POLICIES:
                self._held.popitem(last=False)
        if isinstance(held, str):
            raise NotReplayable(held)
        return held

    def kept(self, made: Logged) -> Path | None:
        """Where the policy that decided is kept; None where it is the one at hand."""
        return None if made.policy == self._site.written.digest or self._folder is None else self._folder / made.policy

    def _find(self, made: Logged) -> Policy | str:
        """The policy, or why it is not to be had."""
        written = self._site.written
        if made.policy != written.digest:
            if self._folder is None:
                return f"policy {made.policy} is not the one at hand, and no folder of policies.history is configured"
            try:
                place = self._site.place
                written = history.load(self._folder, made.policy, place if place.is_dir() else place.parent)
            except NotKept as error:
                return str(error)
        return Policy(written.rules, hide_models=made.hide_models, digest=made.policy)


@dataclass
class Tally:
    """What came of all lines. `unlike`: the first that came out otherwise."""

    identical: int = 0
    different: int = 0
    unlike: list[dict[str, str]] = field(default_factory=list)
    no_decisions: Counter[str] = field(default_factory=Counter)
    not_replayable: Counter[str] = field(default_factory=Counter)

    @property
    def good(self) -> bool:
        """Whether every decision came out the same again."""
        return not self.different and not self.not_replayable

    def words(self) -> Iterator[str]:
        """Line by line."""
        lost = self.not_replayable.total()
        alike = f"{counted(self.identical, 'decision')} identical"
        yield f"{alike}, {self.different} different, {lost} not to be made again"
        yield from (f"  {one['decision_id']}: {one['difference']}" for one in self.unlike)
        if self.different > len(self.unlike):
            yield f"  and {self.different - len(self.unlike)} more"
        for reasons in (self.not_replayable, self.no_decisions):
            told = reasons.most_common(_TOLD)
            yield from (f"  {counted(count, 'line')}: {why}" for why, count in told)
            if rest := reasons.total() - sum(count for _, count in told):
                yield f"  {counted(rest, 'line')} for {len(reasons) - len(told)} more reasons"

    def members(self) -> dict[str, Any]:
        """The JSON object (docs/policy-tools.md)."""
        return {
            "identical": self.identical,
            "different": self.different,
            "differences": self.unlike,
            "not_replayable": dict(self.not_replayable.most_common()),
            "no_decisions": dict(self.no_decisions.most_common()),
        }


def replay(files: Sequence[str], policies: Policies) -> Tally:
    """Decide everything again. Raises `Unreadable`."""
    tally = Tally()
    for line in every_line(files):
        try:
            made = logged(facts_of(line))
            unlike = difference(policies(made), made)
        except NotReplayable as why:
            (tally.no_decisions if why.harmless else tally.not_replayable)[str(why)] += 1
            continue
        if not unlike:
            tally.identical += 1
            continue
        tally.different += 1
        if len(tally.unlike) < _TOLD:
            tally.unlike.append({"decision_id": made.decision_id, "difference": unlike})
    return tally


def find(files: Sequence[str], wanted: str) -> dict[str, Any]:
    """The line of this decision; the id of its request will do. Raises `BadCall`, `Unreadable`."""
    if not _ID.fullmatch(wanted):
        raise BadCall(f"--decision: {wanted!r} is no decision id; copy the whole X-Decision-Id of the answer")
    text = wanted.encode()
    for line in every_line(files):
        if text in line:
            try:
                facts = facts_of(line)
            except NotReplayable:
                continue
            if wanted in (facts.get("decision_id"), facts.get("request_id")):
                return facts
    raise BadCall(f"--decision: no line of {', '.join(files)} is of {wanted}")


def facts_of(line: bytes) -> dict[str, Any]:
    """The members of an audit line. Raises `NotReplayable`."""
    try:
        facts = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise NotReplayable("not a whole line of JSON") from None
    if not isinstance(facts, dict) or "decision" not in facts:
        raise NotReplayable("no audit line of a call", harmless=True)
    return facts

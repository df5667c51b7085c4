"""Audit files, decided again line by line.

Knows: files of audit lines, where policies are kept. Must not know: what a decision hangs on.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from gateway.cli.policy.asking import BadCall, Site
from gateway.policy import history
from gateway.policy.engine import Policy
from gateway.policy.history import NotKept
from gateway.policy.replay import Logged, NotReplayable, difference, logged
from gateway.progress import progress

# Bytes of one line; the longest that a gateway writes has a fifth of it.
_LINE_LIMIT: Final = 1024 * 1024

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
        yield f"{self.identical} decisions identical, {self.different} different, {lost} not to be made again"
        yield from (f"  {one['decision_id']}: {one['difference']}" for one in self.unlike)
        if self.different > len(self.unlike):
            yield f"  and {self.different - len(self.unlike)} more"
        for why, count in chain(self.not_replayable.most_common(_TOLD), self.no_decisions.most_common(_TOLD)):
            yield f"  {count} line{'s' if count != 1 else ''}: {why}"

    def members(self) -> dict[str, Any]:
        """The JSON object (docs/policy-tools.md)."""
        return {
            "identical": self.identical,
            "different": self.different,
            "differences": self.unlike,
            "not_replayable": dict(self.not_replayable.most_common(_TOLD)),
            "no_decisions": dict(self.no_decisions.most_common(_TOLD)),
        }


def replay(files: Sequence[str], policies: Policies) -> Tally:
    """Decide everything again. Raises `BadCall` for a file that cannot be read."""
    tally = Tally()
    for line in lines_of(files):
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
    """The line of this decision; the id of its request will do. Raises `BadCall`."""
    if not _ID.fullmatch(wanted):
        raise BadCall(f"--decision: {wanted!r} is no decision id; copy the whole X-Decision-Id of the answer")
    text = wanted.encode()
    for line in lines_of(files):
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


def lines_of(files: Sequence[str]) -> Iterator[bytes]:
    """Every line of these files, with a bar. Raises `BadCall`."""
    with ExitStack() as opened:
        try:
            sources = [_opened(file, opened) for file in files]
            total = None if "-" in files else sum(Path(file).stat().st_size for file in files)
            yield from progress(chain.from_iterable(map(_split, sources)), "audit lines", total, len)
        except OSError as error:
            raise BadCall(f"--audit: {error.filename or 'the file'} cannot be read: {error.strerror}") from None


def _opened(file: str, opened: ExitStack) -> BinaryIO:
    return sys.stdin.buffer if file == "-" else opened.enter_context(Path(file).open("rb"))


def _split(source: BinaryIO) -> Iterator[bytes]:
    while line := source.readline(_LINE_LIMIT):
        yield line

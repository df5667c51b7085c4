"""In which order audit files were written: by their chain, and by their times where that does not tell.

Knows: what a file begins and ends with. Must not know: where files come from, whether they are whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final

from gateway.accounting import chain
from gateway.accounting.chain import Chain

# Bytes that are read at once, and of a line beyond which it is no line of ours.
_PIECE: Final = 1024 * 1024

# Bytes before the first link by which a file is still told from others: a file that was truncated while a line was cut
# short begins with the rest of that.
_LEAD: Final = 4 * 1024


@dataclass(frozen=True, slots=True)
class Ends:
    """What the place of a file among others hangs on."""

    #: What stands before the first link; None if that is too much to compare.
    lead: bytes | None
    #: What the first link refers to; None where there is no link.
    prev: str | None
    #: The time of the first link, or of the first line where there is none; empty where no line has one. Only that of
    #: a link is held by the chain.
    time: str
    #: All from the last link on.
    tail: Chain

    @property
    def root(self) -> bool:
        """Whether a chain begins here, or none is known."""
        return self.prev is None or (self.lead is not None and self.prev == _after(Chain(), self.lead))


def ends(file: IO[bytes]) -> Ends:
    """Of a file that was opened at its start. Raises what reading it raises."""
    running = Chain()
    lead: bytes | None = b""
    prev, time = None, ""
    while line := file.readline(_PIECE):
        if (found := chain.prev_of(line)) is not None:
            prev, time = found, chain.time_of(line) or time
            running.wrote(line, len(line))
            break
        time = time or chain.time_of(line) or ""
        running.wrote(line, 0)
        if lead is not None:
            lead = lead + line if len(lead) + len(line) <= _LEAD else None
    _run(running, file)
    return Ends(lead, prev, time, running)


def _run(running: Chain, file: IO[bytes]) -> None:
    """Take in the rest of the file."""
    rest = b""
    while piece := file.read(_PIECE):
        whole, line_end, rest = (rest + piece).rpartition(b"\n")
        whole += line_end
        if (at := chain.last_link(whole)) >= 0:
            running.wrote(whole[at:], 1)
        else:
            running.wrote(whole, 0)
        if len(rest) > _PIECE:
            running.wrote(rest, 0)
            rest = b""
    running.wrote(rest, len(rest) if chain.prev_of(rest) else 0)


def ordered(files: Sequence[Ends]) -> list[int]:
    """Where each of `files` stands, in the order in which they were written; what nothing tells apart stays so."""
    by_time = sorted(range(len(files)), key=lambda at: files[at].time)
    heads: dict[str, list[int]] = {}
    for at in by_time:
        heads.setdefault(files[at].tail.head(), []).append(at)
    following: dict[int, int] = {}
    firsts = []
    for at in by_time:
        before = _before(files, at, heads, following)
        if before is None:
            firsts.append(at)
        else:
            following[before] = at
    return [at for first in firsts for at in _row(first, following)]


def _before(files: Sequence[Ends], at: int, heads: dict[str, list[int]], taken: dict[int, int]) -> int | None:
    """Which file is the one that this one continues; None where that is not here."""
    one = files[at]
    if one.root or one.lead is None or one.prev is None:
        return None
    if one.lead:
        found = [other for other in range(len(files)) if _after(files[other].tail, one.lead) == one.prev]
    else:
        found = heads.get(one.prev, [])
    return next((other for other in found if other != at and other not in taken), None)


def _row(first: int, following: dict[int, int]) -> Iterator[int]:
    at: int | None = first
    while at is not None:
        yield at
        at = following.get(at)


def _after(tail: Chain, lead: bytes) -> str:
    """What a link refers to that stands behind both."""
    running = tail.copy()
    running.wrote(lead, 0)
    return running.head()

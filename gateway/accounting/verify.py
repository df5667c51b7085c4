"""Check the hash chain of audit files: whether a line was removed, changed, added or moved since it was written.

Knows: links, what can be known where they do not fit. Must not know: where files come from, how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway.accounting import chain
from gateway.accounting.chain import Chain

#: Breaks that are told one by one; behind that they are counted.
BREAKS: Final = 100


@dataclass(frozen=True, slots=True)
class Break:
    """Where something is not as it was written: at or before `line` of `file`, behind line `after` of `after_file`."""

    file: str
    line: int
    after_file: str
    after: int
    what: str


@dataclass(slots=True)
class FileReport:
    """One file, as far as it was read."""

    file: str
    lines: int = 0
    first: str | None = None
    last: str | None = None
    links: int = 0
    #: Audit lines of a file without links that no later link holds either: anybody may have written them.
    unheld: int = 0
    #: Lines that were cut short when they were written; lines that a line `lost` stands for.
    torn: int = 0
    lost: int = 0
    #: Lines of others, without which the chain holds: two streams were collected in one file.
    foreign: int = 0
    #: Starts of a process that did not find the last one's orderly end.
    crashes: int = 0
    #: Whether a new chain begins with it, because it was new when the gateway started: what was before, it cannot know.
    anew: bool = False
    #: Whether its last line says that the gateway ended in order, or went on in another file.
    closed: bool = False
    breaks: int = 0


@dataclass(slots=True)
class Report:
    """All files, read as one."""

    files: list[FileReport] = field(default_factory=list)
    found: list[Break] = field(default_factory=list)
    breaks: int = 0
    #: What the first link of all refers to: what `head` was when it was written.
    start: str | None = None
    #: Whether the first link of all begins the chain. False: earlier files were not given, or lines were taken away.
    from_start: bool = False
    #: What the next link will refer to, for a later check that begins with it.
    head: str = chain.NOTHING
    #: Lines at the end that no link holds yet: nobody could tell if they were changed.
    open_lines: int = 0
    #: Whether the last file says that it is over.
    closed: bool = False

    @property
    def whole(self) -> bool:
        """No link is broken, there are links, and no file is without."""
        return not self.breaks and any(one.links for one in self.files) and not any(one.unheld for one in self.files)

    @property
    def joined(self) -> bool:
        """No file begins a chain of its own behind others."""
        return not any(one.anew for one in self.files)


class Verifier:
    """Reads files in their order, line by line, and holds on to none of them."""

    def __init__(self, after: str | None = None) -> None:
        """`after`: the `head` of an earlier check, which the first file has to continue."""
        self.report = Report()
        self._after = after
        #: Of all bytes since the last link; None before the first byte.
        self._chain = Chain()
        #: The same of a file alone, before its first link: all that a gateway knows that found nothing else there.
        self._alone = Chain()
        #: Whether that is more than the end of a line that was cut short, and whose file was truncated then.
        self._led = False
        #: How many lines of others there were since the last link; where there were, the chain of all but those.
        self._ours, self._others = Chain(), 0
        #: Files without a link since the last one.
        self._without: list[FileReport] = []
        #: Where the last link stands; whether it says that a process or a file ended, and nothing follows it yet.
        self._file, self._line = "", 0
        self._linked = self._ended = False

    def read(self, file: str, lines: Iterable[bytes]) -> Iterator[int]:
        """Take the next file in; yields the size of each line once it is checked."""
        report, member, place = self.report, chain.MEMBER, -chain.LENGTH - 1
        one, self._alone, self._led = FileReport(file), Chain(), False
        report.files.append(one)
        for line in lines:
            one.lines += 1
            _time(one, line)
            # Behind a torn end a link may lack the end of its line, and stand elsewhere.
            if (line[place : place + len(member)] == member or line[-1:] != b"\n") and (prev := chain.prev_of(line)):
                self._link(one, line, prev)
            else:
                one.torn += line[-2:] != b"}\n" and line != b"\n"
                self._wrote(line)
                if not one.links:
                    one.unheld += chain.ours(line)
                    self._alone.wrote(line, 0)
                    self._led = self._led or line != b"\n"
                self._ended = False
                report.open_lines += 1
            yield len(line)
        if not one.links:
            self._without.append(one)
        report.head = (self._ours if one.foreign and self._others else self._chain).head()
        report.closed = one.closed = self._ended

    def _wrote(self, line: bytes) -> None:
        """A line that is no link."""
        if not chain.ours(line):
            if not self._others:
                self._ours = self._chain.copy()
            self._others += 1
        elif self._others:
            self._ours.wrote(line, 0)
        self._chain.wrote(line, 0)

    def _link(self, one: FileReport, line: bytes, prev: str) -> None:
        report, kind = self.report, chain.own(line)
        if self._others and prev != self._chain.head() and prev == self._ours.head():
            # An audit line that somebody made look like one of others is missing in these, and they do not hold.
            one.foreign += self._others
            self._chain = self._ours
        self._hold(one, prev)
        if not self._linked:
            self._start(one, prev, kind)
        elif self._begins(one, prev, kind):
            one.anew = self._ended = True
        elif prev != self._chain.head():
            self._break(one, self._why(one, prev, kind))
        if kind == "ended" and not chain.sealed(line):
            self._break(one, "this line, which says that the end was an orderly one, was changed")
        if kind == "began" and self._linked and not self._ended:
            one.crashes += 1
        if kind == "lost":
            one.lost += chain.lines_lost(line)
        one.links += 1
        self._chain.wrote(line, len(line))
        self._others = 0
        self._linked, self._ended = True, kind == "ended"
        self._file, self._line = one.file, one.lines
        report.open_lines = 0 if self._ended else 1

    def _hold(self, one: FileReport, prev: str) -> None:
        """A link that fits holds all since the last one; how its own file begins is looked at elsewhere."""
        one.unheld = 0
        if prev == self._chain.head():
            for other in self._without:
                other.unheld = 0
        self._without.clear()

    def _start(self, one: FileReport, prev: str, kind: str | None) -> None:
        """The first link: what it refers to was read, or is nothing, or is not here to be compared with."""
        report, before = self.report, self._chain.head()
        report.start, report.from_start = prev, prev == before
        if self._after is not None:
            if prev != self._after:
                what = "this does not continue what was checked before; what stood between the two is missing"
                self._break(one, what)
            elif before not in (prev, chain.NOTHING):
                self._break(one, "lines stand before this one that do not belong here: what it continues is older")
        elif not report.from_start:
            one.anew = report.from_start = self._begins(one, prev, kind)
            if self._led and not one.anew:
                what = "what stands before this line was added or changed, or belongs to an earlier file"
                self._break(one, what)

    def _begins(self, one: FileReport, prev: str, kind: str | None) -> bool:
        """Whether a chain begins with this link, which knows nothing but what stands before it in its file."""
        return kind == "began" and not one.links and prev == self._alone.head()

    def _why(self, one: FileReport, prev: str, kind: str | None) -> str:
        """As much as can be known of a link that does not fit."""
        if prev == chain.NOTHING and kind == "began":
            return "a new chain begins here, which knows nothing of what stands before it"
        if one.file != self._file:
            return f"this does not continue {self._file}: at the end of that, at the start of this, or between is a gap"
        return "lines were removed, changed, added or moved"

    def _break(self, one: FileReport, what: str) -> None:
        one.breaks += 1
        self.report.breaks += 1
        if len(self.report.found) < BREAKS:
            self.report.found.append(Break(one.file, one.lines, self._file, self._line, what))


def _time(one: FileReport, line: bytes) -> None:
    if (time := chain.time_of(line)) is not None:
        one.last = time
        one.first = one.first or time

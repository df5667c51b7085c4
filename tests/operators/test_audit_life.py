"""Audit files over several processes: any order of things that happen, with a file that is full now and then."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.accounting.appender import Appender
from gateway.settings import Audit
from tests.operators.test_audit_chain import LIMIT, at_most, line, reopen, verified, write


@dataclass
class Life:
    """One file, or several, over several processes."""

    folder: Path
    settings: Audit
    appender: Appender = field(init=False)
    rotated: int = 0
    number: int = 0
    lost: int = 0
    given: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin()

    @property
    def path(self) -> Path:
        return Path(self.settings.file)

    def begin(self) -> None:
        self.appender = Appender(self.settings)
        write(self.appender, [])

    def add(self, count: int) -> None:
        lines = [line(self.number + extra) for extra in range(count)]
        self.number += count
        self.given += lines
        write(self.appender, lines)

    def full(self, room: int) -> None:
        """Lines that find only `room` bytes."""
        with at_most(self.path.stat().st_size + room):
            self.add(3)

    def rotate(self) -> None:
        self.path.rename(self.folder / f"old.{self.rotated:03d}")
        self.rotated += 1
        reopen(self.appender)

    def restart(self) -> None:
        self.end()
        self.begin()

    def crash(self, cut: int) -> None:
        """What was written last may be missing; the next process finds the rest."""
        text = self.path.read_bytes()
        self.end()
        self.path.write_bytes(text[: max(0, len(text) - cut)])
        self.begin()

    def end(self) -> None:
        assert self.appender.close(LIMIT)
        self.lost += self.appender.lost

    def texts(self) -> list[bytes]:
        return [*(file.read_bytes() for file in sorted(self.folder.glob("old.*"))), self.path.read_bytes()]


EVENT: st.SearchStrategy[tuple[str, ...]] = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 4)),
    st.tuples(st.just("full"), st.integers(0, 400)),
    st.tuples(st.just("rotate")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash"), st.integers(0, 120)),
)


@given(events=st.lists(EVENT, max_size=12), fsync=st.sampled_from(["never", "always"]))
@example(events=[("rotate",), ("crash", 0)], fsync="never")
@example(events=[("rotate",), ("crash", 2)], fsync="never")
@example(events=[("full", 158)], fsync="never")
def test_whatever_happens_the_files_fit_together_and_say_how_much_is_missing(
    events: list[tuple[str, ...]], fsync: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), Audit(f"{folder}/audit.jsonl", fsync=fsync))
        for name, *facts in events:
            getattr(life, name)(*facts)
        life.end()
        texts = life.texts()
        report = verified(*texts)
        assert not report.found
        assert report.whole
        assert report.closed
        assert report.from_start
        if not any(event[0] == "crash" for event in events):
            assert sum(one.lost for one in report.files) == life.lost
            kept = [text for text in b"".join(texts).splitlines(keepends=True) if b'"request_id"' in text]
            assert sum(text.startswith(b"{") and text.endswith(b"}\n") for text in kept) == len(life.given) - life.lost

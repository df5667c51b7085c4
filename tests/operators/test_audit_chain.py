"""The hash chain of audit files: what was really written fits together, whatever happened; and nothing else does."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.accounting import chain
from gateway.accounting.appender import Appender
from gateway.accounting.verify import Report, Verifier
from gateway.settings import Audit

LIMIT = 10.0


def line(number: int, size: int = 20) -> bytes:
    return b'{"time":"2026-01-31T10:15:00.%03dZ","request_id":"%d","detail":"%b"}\n' % (
        number % 1000, number, b"x" * size,
    )  # fmt: skip


def write(appender: Appender, lines: Sequence[bytes], missing: int = 0) -> None:
    done = Event()
    appender.append(lines, done.set, missing)
    assert done.wait(LIMIT)


def reopen(appender: Appender) -> None:
    done = Event()
    appender.reopen(done.set)
    assert done.wait(LIMIT)


def verified(*texts: bytes, after: str | None = None) -> Report:
    """As files of their own."""
    verifier = Verifier(after)
    for number, text in enumerate(texts):
        for _ in verifier.read(f"file{number}", text.splitlines(keepends=True)):
            pass
    return verifier.report


def perfect(report: Report) -> bool:
    return (
        report.whole
        and report.from_start
        and report.joined
        and report.closed
        and not any(one.torn for one in report.files)
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of several batches, written by two processes that ended in order."""
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    for start in (0, 100):
        appender = Appender(Audit(str(path)))
        for first, count in ((0, 3), (10, 1), (20, 4)):
            write(appender, [line(start + first + number) for number in range(count)])
        assert appender.close(LIMIT)
    return path.read_bytes()


def test_a_file_as_it_was_written_is_whole(written: bytes) -> None:
    report = verified(written)
    assert perfect(report)
    assert (report.files[0].lines, report.files[0].crashes, report.open_lines) == (20, 0, 0)


@given(data=st.data())
def test_no_line_can_be_removed_changed_moved_or_added_unnoticed(written: bytes, data: st.DataObject) -> None:
    lines = written.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, len(lines) - 1).filter(lambda other: lines[other] != lines[at]))
    what = data.draw(st.sampled_from(["remove", "swap", "copy", "add", "replace"]))
    if what == "remove":
        del lines[at]
    elif what == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif what == "copy":
        lines.insert(other, lines[at])
    elif what == "add":
        lines.insert(at, line(999))
    else:
        lines[at] = lines[other]
    assert not perfect(verified(b"".join(lines)))


@given(data=st.data())
def test_no_byte_can_be_removed_changed_or_added_unnoticed(written: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(written) - 1))
    piece = data.draw(st.binary(max_size=3).filter(lambda piece: piece != written[at : at + 1]))
    assert not perfect(verified(written[:at] + piece + written[at + 1 :]))


@given(data=st.data())
def test_no_part_can_be_cut_out_unnoticed(written: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(written) - 1))
    end = data.draw(st.integers(start + 1, len(written)))
    assert not perfect(verified(written[:start] + written[end:]))


@given(data=st.data())
def test_what_is_torn_out_of_the_middle_breaks_a_link_right_behind_it(written: bytes, data: st.DataObject) -> None:
    """Also where nobody asks for a start and an end."""
    lines = written.splitlines(keepends=True)
    links = [number for number, text in enumerate(lines) if chain.prev_of(text)]
    at = data.draw(st.integers(1, links[-1] - 1))
    report = verified(b"".join((*lines[:at], *lines[at + 1 :])))
    assert not report.whole
    behind = next(number for number in links if number > at)
    assert behind in (report.found[0].line, at + 1)


def test_a_chained_line_is_json_and_its_own_lines_say_what_they_are(written: bytes) -> None:
    kinds = [orjson.loads(text).get("audit") for text in written.splitlines()]
    assert [kind for kind in kinds if kind] == ["began", "ended", "began", "ended"]


@given(
    text=st.binary(max_size=200)
    | st.builds(lambda a, b: a + b, st.binary(max_size=9), st.just(b',"prev":"' + b"0" * 64))
)
def test_any_bytes_can_be_checked(text: bytes) -> None:
    verified(text)
    chain.own(text)
    chain.sealed(text)
    assert chain.last_link(text) <= len(text)


def test_what_the_caller_writes_is_no_link() -> None:
    forged = '","prev":"' + "0" * 64 + '"}'
    assert chain.prev_of(orjson.dumps({"path": forged}) + b"\n") is None


# -- what happens to files


def test_rotated_files_fit_together_and_each_says_that_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path)))
    for number in range(3):
        write(appender, [line(number), line(number + 10)])
        path.rename(tmp_path / f"audit.{number}")
        reopen(appender)
    assert appender.close(LIMIT)
    texts = [*(file.read_bytes() for file in sorted(tmp_path.glob("audit.[012]"))), path.read_bytes()]

    assert perfect(verified(*texts))
    assert all(verified(text).closed for text in texts)
    later = verified(*texts[1:])
    assert later.whole
    assert not later.from_start
    assert later.start == verified(texts[0]).head
    assert verified(*texts[1:], after=verified(texts[0]).head).whole
    assert not verified(*texts[2:], after=verified(texts[0]).head).whole
    assert "does not continue" in verified(texts[0], *texts[2:]).found[0].what
    assert not verified(texts[1], texts[0], *texts[2:]).joined
    assert not verified(texts[1], texts[0], *texts[2:]).whole


def test_a_signal_without_a_rotation_leaves_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path)))
    write(appender, [line(1)])
    reopen(appender)
    write(appender, [line(2)])
    assert appender.close(LIMIT)
    assert perfect(verified(path.read_bytes()))
    assert path.read_bytes().count(b'"ended"') == 1


def test_a_file_that_was_copied_and_truncated_begins_in_the_middle_and_fits_to_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path)))
    write(appender, [line(1), line(2)])
    copy = path.read_bytes()
    os.truncate(path, 0)
    write(appender, [line(3)])
    assert appender.close(LIMIT)
    text = path.read_bytes()
    alone = verified(text)
    assert alone.whole
    assert not alone.from_start
    assert perfect(verified(copy, text))
    assert not verified(copy[: copy.rindex(b"{")], text).whole


def test_a_crash_is_no_break_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path)))
    write(appender, [line(1), line(2), line(3)])
    text = path.read_bytes()
    assert appender.close(LIMIT)
    for end in (len(text), len(text) - 1, len(text) - 20, text.index(b"\n"), text.index(b"\n") + 1, 30, 1):
        path.write_bytes(text[:end])
        again = Appender(Audit(str(path)))
        write(again, [line(4)])
        assert again.close(LIMIT)
        report = verified(path.read_bytes())
        assert report.whole, end
        assert report.closed
        assert report.files[0].crashes == (end >= text.index(b"\n"))


def test_a_file_from_before_there_was_a_chain_is_held_by_it_from_now_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(map(line, range(2000))))
    appender = Appender(Audit(str(path)))
    assert appender.close(LIMIT)
    text = path.read_bytes()
    assert perfect(verified(text))
    assert not perfect(verified(text.replace(line(500), b"")))
    assert not verified(b"".join(map(line, range(3)))).whole


def test_the_last_link_is_found_behind_a_megabyte_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        appender = Appender(Audit(str(path)))
        write(appender, [line(number) for number in range(1)])
        write(appender, [line(number, 200) for number in range(9000)])
        text = path.read_bytes()
        assert appender.close(LIMIT)
        path.write_bytes(text)  # as after a crash: without the last line
    assert verified(path.read_bytes()).whole


def test_what_was_lost_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path)))
    write(appender, [line(1)], missing=7)
    write(appender, [line(2)])
    write(appender, [line(3)], missing=2)
    assert appender.close(LIMIT)
    report = verified(path.read_bytes())
    assert perfect(report)
    assert report.files[0].lost == 9


# -- any order of things that happen, with a file that is full now and then


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes meanwhile: a write is cut short, the next fails (EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4)),
        st.tuples(st.just("full"), st.integers(0, 400)),
        st.tuples(st.just("rotate")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("crash"), st.integers(0, 120)),
    ),
    max_size=12,
)


@given(events=EVENTS, fsync=st.sampled_from(["never", "always"]))
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

"""The hash chain of audit files: what was really written fits together, whatever happened; and nothing else does."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import orjson
import pytest
from hypothesis import given
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
        and not any(one.torn or one.foreign for one in report.files)
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


LOG = b'{"time":"2026-01-31T10:15:00.000Z","level":"info","event":"ready"}\n'


def mixed(written: bytes, data: st.DataObject) -> list[bytes]:
    """As it comes from a supervisor that collects standard output and standard error in one file."""
    lines = written.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 6))):
        lines.insert(
            data.draw(st.integers(0, len(lines) - 1)), data.draw(st.sampled_from([LOG, b"Traceback\n", b"\n"]))
        )
    return lines


@given(data=st.data())
def test_lines_of_others_are_counted_and_break_nothing(written: bytes, data: st.DataObject) -> None:
    lines = mixed(written, data)
    report = verified(b"".join(lines))
    assert (report.whole, report.from_start, report.head) == (True, True, verified(written).head)
    assert report.files[0].foreign == len(lines) - 20


@given(data=st.data())
def test_among_lines_of_others_no_audit_line_is_removed_changed_or_moved_unnoticed(
    written: bytes, data: st.DataObject
) -> None:
    lines = mixed(written, data)
    ours = [at for at, line in enumerate(lines) if chain.ours(line)]
    at = data.draw(st.sampled_from(ours[:-1]))
    what = data.draw(st.sampled_from(["remove", "hide", "change", "swap"]))
    if what == "remove":
        del lines[at]
    elif what == "hide":
        lines[at] = LOG
    elif what == "change":
        lines[at] = lines[at].replace(b"2026", b"2027", 1)
    else:
        other = data.draw(st.sampled_from([other for other in ours if lines[other] != lines[at]]))
        lines[at], lines[other] = lines[other], lines[at]
    report = verified(b"".join(lines))
    assert not (report.whole and report.from_start and report.closed)


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


@given(data=st.data())
def test_no_line_can_be_put_before_a_file_unnoticed_wherever_a_check_begins(data: st.DataObject) -> None:
    forged = b"".join(data.draw(st.lists(st.sampled_from([line(1), line(2), b"x", b"\n\n\n"]), min_size=1, max_size=3)))
    first, second = rotated()
    head = verified(first).head
    assert verified(second, after=head).whole
    assert not verified(forged + second, after=head).whole
    if forged.strip():  # empty lines say nothing, and may be the rest of a line whose file was truncated
        assert not verified(forged + second).whole
        report = verified(forged + first)
        assert not report.whole or report.files[0].foreign


def test_files_without_a_chain_are_not_made_whole_by_those_with_one(written: bytes) -> None:
    """Whoever takes all links out of the newest file makes it look like one from before there was a chain."""
    report = verified(line(1) + line(2), written)
    assert not report.whole
    assert report.files[0].unheld == 2
    assert verified(b'{"level":"info"}\n', written).whole
    assert not report.joined
    assert report.files[1].anew


def test_a_time_that_a_terminal_would_obey_is_no_time() -> None:
    report = verified(b'{"time":"%b"}\n' % b"\x1b[2J\x1b]0;owned\x07".ljust(24))
    assert (report.files[0].first, report.files[0].last) == (None, None)


# -- what happens to files


def rotated() -> tuple[bytes, bytes]:
    """A file and the one after it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "audit.jsonl")
        appender = Appender(Audit(str(path), fsync="never"))
        write(appender, [line(1), line(2)])
        path.rename(Path(folder, "old"))
        reopen(appender)
        write(appender, [line(3)])
        assert appender.close(LIMIT)
        return Path(folder, "old").read_bytes(), path.read_bytes()


def test_a_file_that_was_truncated_while_a_line_was_cut_short_begins_with_a_link(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path)))
    write(appender, [line(1)])
    with at_most(path.stat().st_size + 30):
        write(appender, [line(2)])
    copy = path.read_bytes()
    assert not copy.endswith(b"\n")
    os.truncate(path, 0)
    write(appender, [line(3)])
    assert appender.close(LIMIT)
    text = path.read_bytes()
    assert chain.prev_of(text.splitlines(keepends=True)[0]) == verified(copy).head
    assert verified(copy, text).whole
    assert verified(text).whole


def test_starts_after_crashes_are_counted_in_a_new_file_as_well(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    older = rotated()[0]
    for _ in range(3):
        appender = Appender(Audit(str(path)))
        write(appender, [line(1)])
        text = path.read_bytes()
        assert appender.close(LIMIT)
        path.write_bytes(text)
    report = verified(older, path.read_bytes())
    assert (report.files[1].anew, report.files[1].crashes) == (True, 2)


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


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes meanwhile: a write is cut short, the next fails (EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

"""The audit file while nothing takes its lines: calls go on, what is lost is counted, what is written is whole."""

from __future__ import annotations

import array
import asyncio
import fcntl
import logging
import os
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from gateway.accounting.appender import Appender
from gateway.accounting.auditfile import AuditFile
from gateway.settings import Audit
from tests.parts.process import wait_until

#: What a pipe holds (`man 7 pipe`): more than that waits for a reader.
ROOM = 64 * 1024
LINE = b"x" * (ROOM - 1) + b"\n"
#: Seconds after which somebody reads in any case, so that a test that is held up fails and does not hang.
PATIENCE = 5.0


class Pipe:
    """A pipe with a name and a reader that reads nothing until it is told to."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self.text = bytearray()
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._told = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def read(self) -> None:
        """Read from now on; until then from the end of patience on."""
        self._told.set()

    def watch(self) -> None:
        """Let patience begin."""
        self._thread.start()

    def waiting(self) -> int:
        """Bytes that nobody has read."""
        count = array.array("i", [0])
        fcntl.ioctl(self._end, termios.FIONREAD, count)
        return count[0]

    def leave(self) -> None:
        """The reader goes away; another one comes with `return_`."""
        os.close(self._end)
        self._end = -1

    def return_(self) -> None:
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def end(self) -> bytes:
        """Everything, once the writer has closed."""
        self._told.set()
        self._thread.join()
        return bytes(self.text)

    def close(self) -> None:
        self._told.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)  # the writer of a test that failed may never close
        with suppress(OSError):
            os.close(self._end)

    def _read(self) -> None:
        self._told.wait(PATIENCE)
        os.set_blocking(self._end, True)
        while piece := os.read(self._end, 1 << 20):
            self.text += piece


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    one = Pipe(tmp_path / "audit")
    yield one
    one.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  a pipe tells nobody that it is full
            await asyncio.sleep(0.002)


async def test_a_pipe_that_nobody_reads_holds_up_no_call_and_its_lines_are_whole_once_somebody_does(pipe: Pipe) -> None:
    lost: list[int] = []
    audit = AuditFile(Audit(pipe.path, chain=False), lost.append)
    pipe.watch()
    began, added = time.monotonic(), 0
    while not lost:
        for _ in range(20):
            audit.add(LINE)
        added += 20
        await asyncio.sleep(0.001)
    assert time.monotonic() - began < PATIENCE - 1, "calls waited for the reader"
    assert added * len(LINE) > 16 * 1024 * 1024

    pipe.read()
    await until(lambda: len(pipe.text) == (added - sum(lost)) * len(LINE))
    refused = -1
    while refused != sum(lost):  # that there is room again is known a moment later
        await asyncio.sleep(0.001)
        refused = sum(lost)
        audit.add(b"after\n")
    audit.close()
    lines = pipe.end().splitlines(keepends=True)
    assert set(lines) == {LINE, b"after\n"}
    assert lines[-1] == b"after\n"


async def test_a_line_that_was_cut_short_does_not_swallow_the_next(pipe: Pipe) -> None:
    lost: list[int] = []
    audit = AuditFile(Audit(pipe.path, chain=False), lost.append)
    audit.add(b"first\n")
    audit.add(LINE)
    audit.add(b"lost\n")
    await until(lambda: pipe.waiting() == ROOM)
    pipe.leave()
    await until(lambda: lost)
    pipe.return_()
    pipe.watch()
    pipe.read()
    audit.add(b"after\n")
    audit.close()

    assert lost == [2]
    assert pipe.end() == b"first\n" + LINE[: ROOM - 6] + b"\nafter\n"


async def test_the_end_does_not_wait_for_ever_and_counts_what_it_left(pipe: Pipe) -> None:
    lost: list[int] = []
    audit = AuditFile(Audit(pipe.path, chain=False), lost.append, closing=0.05)
    pipe.watch()
    audit.add(b"first\n")
    audit.add(LINE)
    await until(lambda: pipe.waiting() == ROOM)
    audit.add(b"waits\n")
    began = time.monotonic()
    audit.close()

    assert time.monotonic() - began < PATIENCE - 1
    assert sum(lost) == 3


async def test_a_rotation_while_the_disk_is_stuck_holds_up_nobody(pipe: Pipe, tmp_path: Path) -> None:
    audit = AuditFile(Audit(pipe.path, chain=False), lambda _: None)
    pipe.watch()
    audit.add(LINE)
    audit.add(b"before\n")
    await until(lambda: pipe.waiting() == ROOM)
    os.rename(pipe.path, pipe.path + ".1")
    began = time.monotonic()
    for _ in range(100):
        audit.reopen()
    audit.add(b"after\n")
    await asyncio.sleep(0)
    assert time.monotonic() - began < PATIENCE - 1

    assert pipe.end() == LINE + b"before\n"
    audit.close()
    assert (tmp_path / "audit").read_bytes() == b"after\n"


async def test_a_rotation_to_a_file_that_cannot_be_opened_is_logged_and_the_old_one_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    audit = AuditFile(Audit(str(folder / "audit.log"), chain=False), lambda _: None)
    folder.rename(tmp_path / "old")
    with caplog.at_level(logging.ERROR):
        audit.reopen()
        await until(lambda: caplog.records)
    assert "audit.reopen_failed" in caplog.records[0].getMessage()
    audit.add(b"one\n")
    audit.close()
    assert (tmp_path / "old" / "audit.log").read_bytes() == b"one\n"


async def test_a_pipe_that_nobody_reads_is_no_audit_file_and_nobody_waits_for_a_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit")
    with pytest.raises(OSError, match="No such device or address"):
        AuditFile(Audit(str(tmp_path / "audit")), lambda _: None)


async def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        AuditFile(Audit(str(tmp_path)), lambda _: None)


@pytest.mark.parametrize("on_full", ["drop", "block"])
async def test_a_rotation_to_a_pipe_that_nobody_reads_keeps_the_old_file_and_the_next_one_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, on_full: Literal["drop", "block"]
) -> None:
    lost: list[int] = []
    path, old = tmp_path / "audit", tmp_path / "old"
    audit = AuditFile(Audit(str(path), on_full=on_full, chain=False), lost.append)
    path.rename(old)
    os.mkfifo(path)
    audit.reopen()
    await until(lambda: caplog.records)
    assert "audit.reopen_failed" in caplog.records[0].getMessage()
    audit.add(b"one\n")
    await until(lambda: old.read_bytes() == b"one\n")
    path.unlink()
    audit.reopen()
    await until(path.exists)
    audit.add(b"two\n")
    audit.close()
    assert (path.read_bytes(), old.read_bytes(), lost) == (b"two\n", b"one\n", [])
    assert len(caplog.records) == 1


async def test_a_second_gateway_on_one_file_is_logged_and_a_signal_to_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit"
    audit = AuditFile(Audit(str(path)), lambda _: None)
    audit.reopen()
    audit.add(b"one}\n")
    await until(lambda: b"one" in path.read_bytes())
    path.rename(tmp_path / "old")
    audit.reopen()
    await until(lambda: path.exists() and b"continued" in path.read_bytes())
    assert not caplog.records
    other = AuditFile(Audit(str(path)), lambda _: None)
    assert [one.getMessage() for one in caplog.records] == [f"audit.shared file={path}"]
    other.close()
    audit.close()


@pytest.mark.parametrize("fsync", ["interval", "always"])
def test_a_disk_that_keeps_nothing_is_not_well_again_because_it_takes_lines(
    caplog: pytest.LogCaptureFixture, fsync: Literal["interval", "always"]
) -> None:
    """A file of the kernel's: what is written is taken, and fsync says EINVAL."""
    path = Path("/proc/self/comm")
    name = path.read_bytes()
    caplog.set_level(logging.INFO)
    try:
        appender = Appender(Audit(str(path), on_full="block", fsync=fsync, chain=False))
        for _ in range(2):
            done = threading.Event()
            appender.append([b"a line\n"], done.set)
            assert done.wait(PATIENCE)
            wait_until(lambda: appender.failing, PATIENCE)
        assert appender.close(PATIENCE)
    finally:
        path.write_bytes(name)
    assert [one.getMessage() for one in caplog.records] == [
        f"audit.failing file={path} error=[Errno 22] Invalid argument"
    ]


async def test_lines_that_a_full_pipe_did_not_take_in_time_at_the_end_are_counted_and_logged(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[int] = []
    audit = AuditFile(Audit(pipe.path, chain=False), lost.append, closing=0.05)
    pipe.watch()
    for _ in range(4):
        audit.add(LINE)
    audit.close()
    assert sum(lost) > 0
    assert [one.getMessage() for one in caplog.records] == [f"audit.lost_at_end lines={sum(lost)}"]


async def test_a_pipe_that_does_not_block_is_waited_for_as_well(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[int] = []
    with os.fdopen(os.open(pipe.path, os.O_WRONLY | os.O_NONBLOCK), "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        audit = AuditFile(Audit("-", chain=False), lost.append)
        pipe.watch()
        audit.add(LINE)
        audit.add(b"second\n")
        await until(lambda: pipe.waiting() == ROOM)
        pipe.read()
        audit.close()
    assert pipe.end() == LINE + b"second\n"
    assert lost == []

"""`on_full: block`: no call goes on while its line would find no room, and no line is lost for that."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.accounting.auditfile import AuditFile
from gateway.accounting.verify import Verifier
from gateway.drive import Drive
from gateway.errors import Overloaded
from gateway.settings import Audit
from tests.operators.test_audit_chain import at_most, line
from tests.operators.test_audit_file import LINE, PATIENCE, ROOM, Pipe, pipe, until

__all__ = ["pipe"]


class Caller:
    """One call at the door of the path: driven by hand, as calls are."""

    def __init__(self, audit: AuditFile) -> None:
        self.outcome = "waits"
        self._audit = audit
        Drive(self._go()).step()

    async def _go(self) -> None:
        try:
            if self._audit.holds_calls:
                await self._audit.room()
        except Overloaded as refusal:
            self.outcome = f"refused: {refusal.detail}"
        else:
            self.outcome = "goes on"


def blocking(path: str | Path, **more: bool) -> Audit:
    return Audit(str(path), on_full="block", fsync="never", **more)


async def test_callers_wait_for_a_reader_that_comes_in_time_and_nothing_is_lost(pipe: Pipe) -> None:
    lost: list[int] = []
    audit = AuditFile(blocking(pipe.path, chain=False), lost.append, waiting=4 * ROOM, holding=PATIENCE * 2)
    pipe.watch()
    for _ in range(5):
        assert Caller(audit).outcome == "goes on"
        audit.add(LINE)
    callers = [Caller(audit) for _ in range(3)]
    assert {caller.outcome for caller in callers} == {"waits"}
    pipe.read()
    await until(lambda: {caller.outcome for caller in callers} == {"goes on"})
    assert not audit.holds_calls
    audit.close()
    assert pipe.end() == LINE * 5
    assert lost == []


async def test_callers_who_waited_long_enough_are_refused_and_later_ones_at_once(pipe: Pipe) -> None:
    audit = AuditFile(blocking(pipe.path, chain=False), lambda _: None, waiting=ROOM, holding=0.05)
    pipe.watch()
    audit.add(LINE)
    audit.add(LINE)
    one = Caller(audit)
    assert one.outcome == "waits"
    await until(lambda: one.outcome == "refused: audit lines wait for a slow file")
    assert Caller(audit).outcome == one.outcome
    pipe.read()
    await until(lambda: not audit.holds_calls)
    assert Caller(audit).outcome == "goes on"
    audit.close()


async def test_a_call_that_a_backend_heard_of_always_finds_room_and_others_as_much_as_there_is(pipe: Pipe) -> None:
    lost: list[int] = []
    audit = AuditFile(blocking(pipe.path, chain=False), lost.append, waiting=4 * ROOM)
    pipe.watch()
    for _ in range(20):
        audit.add(LINE)
    assert sum(lost) == 20 - 9
    for _ in range(20):
        audit.add(LINE, sent=True)
    assert sum(lost) == 20 - 9
    pipe.read()
    audit.close()
    assert pipe.end() == LINE * 29


async def test_a_caller_who_leaves_while_waiting_harms_nobody(pipe: Pipe) -> None:
    audit = AuditFile(blocking(pipe.path, chain=False), lambda _: None, waiting=ROOM, holding=PATIENCE * 2)
    pipe.watch()
    audit.add(LINE)
    audit.add(LINE)

    async def path() -> None:
        await audit.room()

    drive = Drive(path())
    drive.step()
    with pytest.raises(Overloaded):
        drive.stop(Overloaded())
    other = Caller(audit)
    pipe.read()
    await until(lambda: other.outcome == "goes on")
    audit.close()


async def test_a_full_disk_closes_the_door_and_opens_it_again_without_a_line_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[int] = []
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(blocking(path), lost.append)
    lines = [line(number) for number in range(5)]
    audit.add(lines[0])
    await until(lambda: lines[0][:-3] in path.read_bytes())
    caplog.set_level(logging.INFO)
    with at_most(path.stat().st_size + 100):
        audit.add(lines[1])
        audit.add(lines[2])
        await until(lambda: audit.holds_calls)
        assert audit.failing
        assert Caller(audit).outcome == "refused: the audit file cannot be written"
        audit.add(lines[3])  # was under way
        audit.add(lines[4])
    await until(lambda: not audit.holds_calls)
    assert not audit.failing
    assert Caller(audit).outcome == "goes on"
    audit.close()
    assert lost == []
    text = path.read_bytes()
    assert all(text.count(b'"request_id":"%d"' % number) >= 1 for number in range(5))
    assert [one.msg.split()[0] for one in caplog.records] == ["audit.failing", "audit.recovered"]
    verifier = Verifier()
    for _ in verifier.read("audit", text.splitlines(keepends=True)):
        pass
    assert verifier.report.whole
    assert verifier.report.files[0].torn == 1


async def test_a_line_that_lacks_nothing_but_its_end_opens_the_door_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(blocking(path, chain=False), lambda _: None)
    with at_most(len(line(0)) - 1):
        audit.add(line(0))
        await until(lambda: audit.holds_calls)
    await until(lambda: not audit.holds_calls)
    audit.close()
    assert path.read_bytes() == line(0)


async def test_a_rotation_away_from_a_full_disk_opens_the_door(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(blocking(path), lambda _: None)
    audit.add(line(0))
    await until(lambda: b'"0"' in path.read_bytes())
    with at_most(path.stat().st_size + 10):
        audit.add(line(1))
        await until(lambda: audit.holds_calls)
        path.rename(tmp_path / "old")
        audit.reopen()
        await until(lambda: not audit.holds_calls)
        assert b'"1"' in path.read_bytes()
    audit.close()


async def test_where_lines_may_be_lost_nobody_waits(tmp_path: Path) -> None:
    lost: list[int] = []
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(Audit(str(path)), lost.append)
    await until(lambda: path.exists() and path.stat().st_size)
    with at_most(path.stat().st_size):
        audit.add(line(0))
        audit.add(line(1))
        await until(lambda: lost == [2])
        assert audit.failing
        assert not audit.holds_calls
    await until(lambda: not audit.failing)  # tried again, though nobody calls
    audit.close()
    assert b'"audit":"lost","lines":2,' in path.read_bytes()


async def test_at_the_end_what_is_kept_for_a_full_disk_is_lost_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[int] = []
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(blocking(path), lost.append)
    await until(lambda: path.exists() and path.stat().st_size)
    with at_most(path.stat().st_size):
        audit.add(line(0))
        audit.add(line(1))
        await until(lambda: audit.holds_calls)
        audit.close()
    assert caplog.records[-1].getMessage() == "audit.lost_at_end lines=2"
    assert sum(lost) == 2
    assert not audit.holds_calls

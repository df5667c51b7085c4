"""The audit file as a gateway finds it at its start: the chain goes on from the last link, however far that is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting import chain
from gateway.accounting.appender import Appender
from gateway.accounting.chain import Chain
from gateway.accounting.files import Found
from gateway.settings import Audit
from tests.operators.test_audit_chain import LIMIT, line, perfect, rotated, verified, write


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


@pytest.mark.parametrize("links", [True, False])
def test_lines_without_a_chain_are_held_by_the_next_link_however_many_they_are(tmp_path: Path, *, links: bool) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path), fsync="never", chain=links))
    write(appender, [line(1)])
    assert appender.close(LIMIT)
    with path.open("ab") as file:
        file.write(line(2, 1000) * 70_000)
    appender = Appender(Audit(str(path), fsync="never"))
    assert appender.close(LIMIT)
    assert perfect(verified(path.read_bytes()))


def test_a_link_that_is_too_far_from_the_end_is_not_looked_for_and_that_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(rotated()[0] + line(1, 9000) + b"torn")
    size = path.stat().st_size
    assert Found(str(path), chained=True, furthest=size).chain.head() != chain.NOTHING
    assert not caplog.records
    found = Found(str(path), chained=True, furthest=9000)
    assert (found.chain.head(), found.torn) == (chain.NOTHING, True)
    assert [one.getMessage() for one in caplog.records] == [
        f"audit.chain_anew file={path} error=its last 9000 bytes have no link"
    ]


@given(pieces=st.lists(st.integers(0, 3), max_size=8))
def test_the_chain_of_a_file_that_is_found_is_the_one_that_it_was_written_with(pieces: list[int]) -> None:
    """0, 1: lines without a link, short and long; 2: one with; 3: the end of a process."""
    running, text = Chain(), b""
    for piece in pieces:
        part = line(1, 3_000_000 if piece == 1 else 5)
        if piece == 3:
            part = chain.ended(1.0, running.head())
        elif piece == 2:
            part = chain.linked(part, running.head())
        running.wrote(part, len(part) if piece > 1 else 0)
        text += part
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        assert Found(file.name, chained=True).chain.head() == running.head()

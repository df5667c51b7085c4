"""In which order audit files were written: the chain says so, whatever clocks, names and forged lines say."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.accounting import chain
from gateway.accounting.chain import Chain
from gateway.accounting.order import ends, ordered
from gateway.settings import Audit
from tests.operators.test_audit_chain import line, perfect, verified
from tests.operators.test_audit_life import EVENT, Life

EARLY = b'{"time":"2000-01-01T00:00:00.000Z"}\n'


def files_at(*times: float) -> list[bytes]:
    """Files of one chain, one after the other; what the clock said when each began."""
    running, files = Chain(), []
    for number, at in enumerate(times):
        text = b""
        for part in (chain.continued(at) if number else chain.began(at), line(number), line(number + 100)):
            linked = chain.linked(part, running.head()) if part is not line(number) and not text else part
            running.wrote(linked, len(linked) if not text else 0)
            text += linked
        last = chain.ended(at, running.head())
        running.wrote(last, len(last))
        files.append(text + last)
    return files


def in_order(files: Sequence[bytes]) -> list[bytes]:
    return [files[at] for at in ordered([ends(io.BytesIO(text)) for text in files])]


@given(times=st.lists(st.floats(0, 2e9), min_size=1, max_size=6), data=st.data())
def test_files_of_one_chain_are_in_order_whatever_the_clock_said(times: list[float], data: st.DataObject) -> None:
    files = files_at(*times)
    assert perfect(verified(*files))
    assert in_order(data.draw(st.permutations(files))) == files


def test_an_early_line_before_a_file_does_not_hide_that_the_one_before_it_was_cut() -> None:
    first, second = files_at(1000.0, 2000.0)
    cut = first[: first.index(b"\n", first.index(b"request_id")) + 1]
    assert not verified(*in_order([cut, second])).whole
    assert in_order([EARLY + second, cut]) == [cut, EARLY + second]
    assert not verified(cut, EARLY + second).whole


def test_a_file_that_is_missing_leaves_the_others_in_the_order_of_the_times_of_their_links() -> None:
    files = files_at(*(1000.0 * number for number in range(1, 6)))
    assert in_order([files[4], EARLY + files[3], files[1], files[0]]) == [
        files[0],
        files[1],
        EARLY + files[3],
        files[4],
    ]


def test_what_was_truncated_in_the_middle_of_a_line_follows_its_copy() -> None:
    running = Chain()
    begun = chain.linked(chain.began(2e9), running.head())
    running.wrote(begun, len(begun))
    torn = b'{"time":"20'
    running.wrote(torn, 0)
    running.wrote(b"\n", 0)
    next_ = chain.linked(chain.continued(1e9), running.head())
    copy, rest = begun + torn, b"\n" + next_
    assert in_order([rest, copy]) == [copy, rest]
    assert verified(copy, rest).whole


def test_files_without_links_keep_the_order_of_their_times_and_empty_ones_come_first() -> None:
    early, late = line(1), line(2)
    assert in_order([late, b"", early]) == [b"", early, late]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_copies_of_one_file_are_each_there_once(end: bytes) -> None:
    files = files_at(1.0, 2.0)
    assert sorted(in_order([files[1], files[0], files[1], files[0] + end])) == sorted(
        [*files, files[1], files[0] + end]
    )


@given(texts=st.lists(st.binary(max_size=40) | st.sampled_from(files_at(3.0, 2.0, 1.0)), max_size=5))
def test_any_bytes_have_a_place(texts: list[bytes]) -> None:
    assert sorted(in_order(texts)) == sorted(texts)


class Copied(Life):
    """Rotated by a copy as well; nothing is written meanwhile. The place of a file without a link nobody can tell."""

    def copytruncate(self) -> None:
        if ends(io.BytesIO(self.path.read_bytes())).prev is None:
            return
        (self.folder / f"old.{self.rotated:03d}").write_bytes(self.path.read_bytes())
        self.rotated += 1
        os.truncate(self.path, 0)


@given(events=st.lists(EVENT | st.just(("copytruncate",)), max_size=12), data=st.data())
@example(events=[("full", 200), ("copytruncate",), ("add", 1), ("copytruncate",), ("add", 2)], data=None)
def test_whatever_happened_files_in_any_order_fit_together(
    events: list[tuple[str, ...]], data: st.DataObject | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Copied(Path(folder), Audit(f"{folder}/audit.jsonl", fsync="never"))
        for name, *facts in events:
            getattr(life, name)(*facts)
        life.end()
        texts = life.texts()
    report = verified(*in_order(data.draw(st.permutations(texts)) if data else texts[::-1]))
    assert not report.found
    assert report.whole

"""Events end where the standard says, whatever ends the lines (B012)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.answers.sse import EDGES, event, first_edge, last_edge, split

ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.sampled_from(
    [b"data: x", b"data:y", b": note", b"event: e", b"id: 7", b"data", b"data: \xe2\x80\xa8", b"data:  two"]
)


@given(st.lists(st.lists(lines, min_size=1, max_size=3), max_size=4), ends)
def test_a_text_is_split_into_the_events_it_was_made_of(events: list[list[bytes]], end: bytes) -> None:
    text = b"".join(end.join(each) + end + end for each in events)
    assert split(text) == [end.join(each) for each in events]
    if events:
        assert text.endswith(EDGES)
        assert last_edge(text, 0) == len(text)
        assert first_edge(text) == len(end.join(events[0])) + 2 * len(end)


@given(st.binary(max_size=30).map(lambda noise: noise.translate(bytes(b"\r\nab"[each % 4] for each in range(256)))))
def test_a_text_ends_at_an_edge_when_its_last_two_lines_are_a_line_and_nothing(text: bytes) -> None:
    broken = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if text.endswith(EDGES):
        assert broken.endswith(b"\n\n")
    elif broken.endswith(b"\n\n"):
        raise AssertionError("an edge was not seen")
    assert (last_edge(text, 0) >= 0) == (b"\n\n" in broken)


@pytest.mark.parametrize(
    ("text", "name", "data"),
    [
        (b"data: a\ndata: b", b"", b"a\nb"),
        (b"data:a\r\ndata:  b", b"", b"a\n b"),
        (b"event: e\n: note\nid: 1\ndata: a:b", b"e", b"a:b"),
        (b"data", b"", b""),
        (b"data: \xe2\x80\xa8\xc2\x85", b"", b"\xe2\x80\xa8\xc2\x85"),
        (b" data: x\ndatax: y", b"", b""),
    ],
)
def test_one_event_is_read_as_the_standard_says(text: bytes, name: bytes, data: bytes) -> None:
    assert (event(text).name, event(text).data) == (name, data)

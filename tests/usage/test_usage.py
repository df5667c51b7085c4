"""Tokens are counted once and rightly, however an answer is cut, and a cut stream is never taken for a whole one."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.answers.usage import MAX_EVENT, MAX_TAIL, UsageReader, reader_for
from gateway.seams import UsageKind
from tests.usage import streams

SSE = b"text/event-stream; charset=utf-8"


def events(*pieces: bytes) -> UsageReader:
    make = reader_for(UsageKind.OPENAI, SSE)
    assert make is not None
    reader = make()
    for piece in pieces:
        reader.feed(piece)
    return reader


def document(*pieces: bytes) -> UsageReader:
    make = reader_for(UsageKind.OPENAI, b"application/json")
    assert make is not None
    reader = make()
    for piece in pieces:
        reader.feed(piece)
    return reader


def counts(reader: UsageReader) -> tuple[int | None, int | None]:
    return reader.counts()


@pytest.mark.parametrize("name", streams.WITH_COUNTS)
def test_counts_are_found_and_the_end_is_seen_cut_at_any_place(name: str) -> None:
    """B010, B012"""
    text = streams.WITH_COUNTS[name]
    for cut in range(len(text) + 1):
        reader = events(text[:cut], text[cut:])
        assert (counts(reader), reader.complete, reader.at_edge) == ((3, 5), True, True), cut


@pytest.mark.parametrize("name", streams.WITH_COUNTS)
def test_counts_are_found_when_bytes_come_one_by_one(name: str) -> None:
    reader = events(*(bytes([byte]) for byte in streams.WITH_COUNTS[name]))
    assert (counts(reader), reader.complete, reader.at_edge) == ((3, 5), True, True)


@given(st.sampled_from(sorted(streams.WITH_COUNTS)), st.lists(st.integers(0, 2000), max_size=8))
def test_how_a_stream_is_cut_makes_no_difference(name: str, cuts: list[int]) -> None:
    text = streams.WITH_COUNTS[name]
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    reader = events(*(text[start:end] for start, end in pairwise(places)))
    assert (counts(reader), reader.complete, reader.at_edge) == ((3, 5), True, True)


@pytest.mark.parametrize("name", streams.WITH_COUNTS)
def test_a_stream_that_breaks_off_is_not_complete(name: str) -> None:
    """B003"""
    text = streams.WITH_COUNTS[name]
    last = max(text.rfind(b"data: [DONE]"), text.rfind(b"data:[DONE]"), text.rfind(b"event: "))
    for cut in range(last):
        assert not events(text[:cut]).complete


def test_an_event_may_be_put_in_only_between_events() -> None:
    text = streams.OK
    edges = [cut for cut in range(len(text) + 1) if text[:cut].endswith(b"\n\n") or cut == 0]
    assert [cut for cut in range(len(text) + 1) if events(text[:cut]).at_edge] == edges
    assert events().at_edge
    assert not events(b"id: 7\n").at_edge
    assert events(b": keep-alive\r\n\r\n").at_edge


@pytest.mark.parametrize(
    "text",
    [
        streams.OK,
        streams.frame('"usage":{"prompt_tokens":9,"completion_tokens":9}'),
        streams.frame("x", metadata={"usage": {"prompt_tokens": 9, "completion_tokens": 9}}),
        b'data: {"usage":{"prompt_tokens":9\n\n',
        b'data: [{"usage":{"prompt_tokens":9}}]\n\n',
        b': "usage":{"prompt_tokens":9}\n\n',
        b'data: {"usage":{"prompt_tokens":"9","completion_tokens":true}}\n\n',
        b'data: {"usage":{"prompt_tokens":-1,"completion_tokens":1e99}}\n\n',
        b'data: {"usage":[9]}\n\n',
    ],
)
def test_what_merely_looks_like_counts_is_not_counted(text: bytes) -> None:
    assert counts(events(text)) == (None, None)


@pytest.mark.parametrize(
    "text", [streams.frame("data: [DONE]"), b": [DONE]\n\n", b'data: "[DONE]"\n\n', streams.frame("event: error\n")]
)
def test_a_last_word_inside_a_text_is_not_the_last_word(text: bytes) -> None:
    assert not events(text).complete


@pytest.mark.parametrize(
    "text",
    [
        streams.named("error", error={}),
        streams.named("message_stop"),
        streams.named("response.failed", response={}),
        streams.named("response.incomplete", response={}),
        b"event:message_stop\r\n\r\n",
        b"data:[DONE]\n\n",
    ],
)
def test_every_protocol_has_its_own_last_word(text: bytes) -> None:
    assert events(text).complete


def test_a_last_word_is_heard_though_its_event_ends_in_the_middle_of_a_piece() -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        assert events(b"data: [DONE]" + end, end + b": half a note").complete


@pytest.mark.parametrize("size", [700_000, MAX_EVENT - 20, MAX_EVENT, MAX_EVENT + 20])
@pytest.mark.parametrize("step", [4096, 65_536, 10**9])
def test_an_event_of_any_length_is_lived_through(size: int, step: int) -> None:
    """B006"""
    text = streams.frame("a") + streams.frame("x" * size) + streams.LAST
    reader = events(*(text[start : start + step] for start in range(0, len(text), step)))
    assert (counts(reader), reader.complete, reader.at_edge) == ((3, 5), True, True)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_the_end_of_a_long_event_is_found_wherever_it_is_cut(ends: bytes) -> None:
    long = streams.frame("x" * MAX_EVENT).replace(b"\n", ends)
    rest = streams.LAST.replace(b"\n", ends)
    for cut in range(len(long) - 6, len(long) + 6):
        text = long + rest
        reader = events(text[: MAX_EVENT + 30], text[MAX_EVENT + 30 : cut], text[cut:])
        assert (counts(reader), reader.complete, reader.at_edge) == ((3, 5), True, True)


def test_a_long_last_event_is_known_by_its_name() -> None:
    text = streams.named("response.completed", response={"output": "x" * 2 * MAX_EVENT})
    for step in (4096, 10**9):
        assert events(*(text[start : start + step] for start in range(0, len(text), step))).complete


def test_what_is_kept_of_a_stream_is_bounded() -> None:
    reader: Any = events(*[b"x" * 65_536] * 64)
    assert len(reader._open) + len(reader._skipping) < MAX_EVENT
    assert not reader.at_edge


def answer(**more: Any) -> bytes:
    message = {"role": "assistant", "content": 'about "usage":{"prompt_tokens":9}'}
    return json.dumps({"id": "c1", "choices": [{"message": message}], **more}).encode()


DOCUMENTS = {
    "openai": (answer(usage=streams.counted(3, 5), prompt_logprobs=None), (3, 5)),
    "embeddings": (json.dumps({"data": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}}).encode(), (3, 0)),
    "anthropic": (
        json.dumps({"content": [], "usage": {"input_tokens": 3, "output_tokens": 5}}, indent=2).encode(),
        (3, 5),
    ),
    "none": (answer(), (None, None)),
    "null": (answer(usage=None), (None, None)),
    "nested": (answer(tool={"usage": {"prompt_tokens": 9}}), (None, None)),
    "nested, then real": (answer(tool={"usage": {"prompt_tokens": 9}}, usage=streams.counted(3, 5)), (3, 5)),
    "real, then nested": (answer(usage=streams.counted(3, 5), tool={"usage": {"prompt_tokens": 9}}), (3, 5)),
    "cut": (answer(usage=streams.counted(3, 5))[:-1], (None, None)),
    "nothing": (b"", (None, None)),
    "no object": (b'["usage"]', (None, None)),
}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("padding", [0, 3 * MAX_TAIL])
def test_a_json_answer_is_counted_however_long_it_is_and_however_it_is_cut(name: str, padding: int) -> None:
    text, wanted = DOCUMENTS[name]
    if text.startswith(b"{"):
        text = b'{"pad":"' + b"x" * padding + b'",' + text[1:]
    assert counts(document(text)) == wanted
    for cut in range(max(0, len(text) - 200), len(text)):
        assert counts(document(text[:cut], text[cut:])) == wanted
    assert counts(document(*(text[start : start + 7] for start in range(0, len(text), 7)))) == wanted


@given(st.text(max_size=40), st.integers(0, 2**30), st.integers(0, 2**30), st.integers(MAX_TAIL - 300, MAX_TAIL + 300))
def test_no_text_in_an_answer_changes_its_counts(text: str, given_: int, made: int, padding: int) -> None:
    content = {
        "text": text,
        "pad": "x" * padding,
        "u": {"usage": text},
        "usage": streams.counted(given_, made),
        "z": text,
    }
    assert counts(document(json.dumps(content).encode())) == (given_, made)
    assert counts(events(b"data: " + json.dumps(content).encode() + b"\n\n")) == (given_, made)


def test_a_json_answer_keeps_only_its_end() -> None:
    reader: Any = document(*[b"x" * 65_536] * 16)
    assert len(reader._tail) <= MAX_TAIL


@pytest.mark.parametrize(
    ("kind", "content_type", "coding"),
    [
        (UsageKind.NONE, b"application/json", b""),
        (UsageKind.OPENAI, b"audio/wav", b""),
        (UsageKind.OPENAI, b"", b""),
        (UsageKind.OPENAI, b"application/jsonx", b""),
        (UsageKind.OPENAI, SSE, b"gzip"),
        (UsageKind.ANTHROPIC, b"application/json", b"br"),
    ],
)
def test_an_answer_that_cannot_be_read_has_no_reader(kind: UsageKind, content_type: bytes, coding: bytes) -> None:
    assert reader_for(kind, content_type, coding) is None


def test_media_types_are_compared_without_case_and_parameters() -> None:
    assert reader_for(UsageKind.OPENAI, b"Text/Event-Stream;charset=UTF-8", b"identity") is not None


def test_a_stream_without_a_last_word_is_whole_at_each_edge() -> None:
    make = reader_for(UsageKind.NONE, SSE)
    assert make is not None
    reader = make()
    reader.feed(b'data: {"text_output":"a"}\n\n')
    assert reader.complete
    reader.feed(b'data: {"text_ou')
    assert not reader.complete
    assert not reader.at_edge

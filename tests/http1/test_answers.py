"""Answers read from bytes: where they end, and what may not follow them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import AnswerHead, Fields
from gateway.errors import Refusal, UpstreamNonsense
from gateway.http1.answers import AnswerReader, known


@dataclass
class Story:
    heads: list[tuple[int, Fields, int | None]] = field(default_factory=list)
    body: bytes = b""

    def on_answer(self, head: AnswerHead) -> None:
        self.heads.append((head.status, head.fields, head.length))

    def on_answer_data(self, piece: bytes) -> None:
        self.body += piece


def read(*pieces: bytes, head_only: bool = False) -> tuple[Story, AnswerReader]:
    story = Story()
    reader = AnswerReader(story, head_only=head_only, limit=4096)
    for piece in pieces:
        reader.feed(piece)
    return story, reader


SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Two: a\r\nX-Two: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"
)


@pytest.mark.parametrize("answer", [SIZED, CHUNKED])
def test_an_answer_reads_the_same_wherever_it_is_cut(answer: bytes) -> None:
    for cut in range(len(answer)):
        story, reader = read(answer[:cut], answer[cut:])
        assert story.body == b"hello"
        assert len(story.heads) == 1
        assert (reader.complete, reader.reusable, reader.extra) == (True, True, False)


def test_repeated_fields_keep_their_order_and_trailers_stay_out() -> None:
    """B014."""
    assert [value for name, value in read(SIZED)[0].heads[0][1] if name == b"x-two"] == [b"a", b"b"]
    assert all(name not in (b"x-t", b"link") for name, _ in read(CHUNKED)[0].heads[0][1])


def test_bytes_behind_a_complete_answer_are_noticed_and_never_its_body() -> None:
    """B144."""
    for extra in (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", b"junk"):
        story, reader = read(SIZED + extra)
        assert reader.complete
        assert reader.extra
        assert story.body == b"hello"
        assert len(story.heads) == 1


def test_an_answer_to_head_has_no_body_whatever_it_announces() -> None:
    story, reader = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", head_only=True)

    assert reader.complete
    assert story.heads[0][2] == 5


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_body_are_complete_with_their_head(status: int) -> None:
    assert read(b"HTTP/1.1 %d X\r\n\r\n" % status)[1].complete


def test_without_length_the_end_of_the_connection_ends_the_answer() -> None:
    story, reader = read(b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo")

    assert not reader.complete
    assert not reader.delimited
    assert reader.eof()
    assert story.body == b"hello"
    assert not reader.reusable


def test_an_announced_length_is_not_ended_by_the_end_of_the_connection() -> None:
    assert not read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")[1].eof()


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 000000000000000000005\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
        b"HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 103 Hints\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 5000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_nonsense(answer: bytes) -> None:
    reader = AnswerReader(Story(), head_only=False, limit=4096)
    with pytest.raises(UpstreamNonsense):
        reader.feed(answer)
    assert not reader.started, "what had not begun cannot be cut"


def test_connection_close_is_not_reused() -> None:
    assert not read(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")[1].reusable


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    reader = AnswerReader(Story(), head_only=False, limit=4096)
    try:
        for piece in pieces:
            reader.feed(piece)
    except Refusal as refusal:
        assert refusal.status == 502  # noqa: PT017  either outcome is right


@given(
    st.lists(st.sampled_from(["date: a", "date: b", "x: 1"]), max_size=2),
    st.lists(st.sampled_from(["date: a", "date: b", "x: 1"]), max_size=2),
    st.binary(max_size=12),
    st.binary(max_size=12),
    st.sampled_from(["200 OK", "503 Busy"]),
    st.integers(-1, 2),
)
def test_an_answer_whose_head_comes_again_reads_as_if_it_were_parsed(
    first: list[str], second: list[str], content: bytes, again: bytes, status: str, extra: int
) -> None:
    def answer(fields: list[str], body: bytes) -> bytes:
        return (
            "\r\n".join([f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}"]).encode() + b"\r\n\r\n" + body
        )

    learnt = known(answer(first, content), read(answer(first, content))[1])
    assert learnt is not None
    data = answer(second, again)
    data = data[:-1] if extra < 0 else data + b"z" * extra
    recalled = learnt.read(data)
    story, reader = read(data)

    if recalled is None:
        return
    head, body = recalled
    assert (reader.complete, reader.extra, reader.reusable) == (True, False, True)
    assert (head.status, head.length, body) == (story.heads[0][0], story.heads[0][2], story.body)
    assert [f for f in head.fields if f[0] != b"content-length"] == [
        f for f in story.heads[0][1] if f[0] != b"content-length"
    ]


def test_the_same_head_with_another_length_is_recognised() -> None:
    learnt = known(SIZED, read(SIZED)[1])

    assert learnt is not None
    recalled = learnt.read(SIZED.replace(b"Length: 5", b"Length: 11").replace(b"hello", b"hello again"))
    assert recalled is not None
    assert (recalled[0].length, recalled[1]) == (11, b"hello again")


@pytest.mark.parametrize(
    "answer", [CHUNKED, SIZED + b"x", SIZED[:-1], SIZED.replace(b"X-Two: a", b"Connection: close")]
)
def test_other_answers_are_not_kept_in_mind(answer: bytes) -> None:
    assert known(answer, read(answer)[1]) is None


@given(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=8), st.data())
def test_chunks_that_come_whole_read_as_if_they_were_parsed(pieces: list[bytes], data: st.DataObject) -> None:
    """Cut mostly at the edges of chunks, now and then anywhere."""
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    stream = b"".join(chunks) + b"0\r\n\r\n"
    edges, at = {0, len(stream)}, 0
    for one in chunks:
        at += len(one)
        edges.add(at if data.draw(st.integers(0, 4)) else data.draw(st.integers(1, len(stream))))
    story = Story()
    reader = AnswerReader(story, head_only=False, limit=4096)
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    taken = 0
    for start, end in pairwise(sorted(edges)):
        part = stream[start:end]
        if (content := reader.whole_chunk(part)) is not None:
            story.on_answer_data(content)
            taken += 1
        else:
            reader.feed(part)

    assert story.body == b"".join(pieces)
    assert (reader.complete, reader.reusable, reader.extra) == (True, True, False)


def test_a_chunk_is_taken_whole_only_where_the_parser_stands_before_one() -> None:
    _, reader = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"a\r\nhello")

    assert reader.whole_chunk(b"1\r\nx\r\n") is None  # inside of a chunk it is content
    reader.feed(b"12345\r\n")
    assert reader.whole_chunk(b"1\r\nx\r\n") == b"x"
    for other in (
        b"1;e\r\nx\r\n",
        b"0\r\n\r\n",
        b"2\r\nx\r\n",
        b"1\r\nx\r\n1\r\ny\r\n",
        b"+1\r\nx\r\n",
        b"\r\n",
        b"1\r\nx",
    ):
        assert reader.whole_chunk(other) is None
    reader.feed(b"3")
    assert reader.whole_chunk(b"1\r\nx\r\n") is None  # behind half a size it would be another size

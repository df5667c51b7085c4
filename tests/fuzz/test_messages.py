"""What we take for HTTP/1.1, h11 and both parsers of aiohttp take for the same; where they do not, a table says why."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz import answers, requests
from fuzz.references.messages import REQUESTS, Refused
from tests.fuzz import messages
from tests.parts import rawcases

SEEDS = st.binary(min_size=1, max_size=1)
RAW = [data for case in rawcases.cases() if len(data := b"".join(case.sent("tok"))) < 700]


@settings(max_examples=80)
@given(SEEDS, st.lists(messages.requests(), min_size=1, max_size=3))
def test_requests_that_anybody_takes_are_all_taken_and_read_alike(seed: bytes, whole: list[bytes]) -> None:
    requests.check(seed + b"".join(whole))
    told = requests.read(whole)
    assert (told.refusal, told.ended) == ("", len(whole))
    for parse in REQUESTS.values():
        for message in whole:
            parse(message)


@settings(max_examples=300)
@given(SEEDS, messages.mutated(st.lists(messages.requests(), min_size=1, max_size=3).map(b"".join)))
@example(b"\x00", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
@example(b"\x00", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 000000000000000000003\r\n\r\nabc")
@example(b"\x00", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n")
@example(b"\x00", b"GET / HTTP/1.1\nHost: a\n\n")
@example(b"\x00", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n")
@example(b"\x00", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n")
def test_requests_that_were_meddled_with_are_refused_or_read_alike(seed: bytes, stream: bytes) -> None:
    """B032, B033, B034."""
    requests.check(seed + stream)


@settings(max_examples=300)
@given(SEEDS, messages.mutated(st.sampled_from(RAW)))
def test_hostile_requests_that_were_meddled_with_are_refused_or_read_alike(seed: bytes, stream: bytes) -> None:
    """B029 to B034: the raw requests that a running gateway is held to."""
    requests.check(seed + stream)


@settings(max_examples=100)
@given(messages.answers(), st.integers(0, 63))
def test_answers_that_anybody_takes_are_taken_and_read_alike(whole: bytes, seed: int) -> None:
    answers.check(bytes([seed << 2 | 2]) + whole)
    told, reader = answers.read([whole], head_only=False, closed=True)
    assert told.refusal == ""
    assert reader.complete
    assert not reader.extra


@settings(max_examples=300)
@given(messages.mutated(messages.answers()), st.binary(min_size=1, max_size=1))
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 000000000000000000003\r\n\r\nabc", b"\x00")
def test_answers_that_were_meddled_with_are_refused_or_read_alike(stream: bytes, seed: bytes) -> None:
    answers.check(seed + stream)


def one(*more: str, body: bytes = b"") -> bytes:
    return "\r\n".join(["POST / HTTP/1.1", "Host: gw.test", *more]).encode("latin-1") + b"\r\n\r\n" + body


def test_the_references_refuse_by_themselves_what_frames_a_body_in_two_ways() -> None:
    """So that agreeing with them means something."""
    for stream in (
        one("Content-Length: 3", "Content-Length: 4", body=b"abc"),
        one("Transfer-Encoding: chunked", body=b"+3\r\nabc\r\n0\r\n\r\n"),
        one("X : y"),
    ):
        for parse in REQUESTS.values():
            with pytest.raises(Refused):
                parse(stream)
        told = requests.read([stream])
        assert told.refusal, stream
        assert told.ended == 0

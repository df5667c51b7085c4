"""What the load tools say is read strictly: a call that failed is never counted as one that was fast."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load import Calls, LoadFailedError, parse_wrk
from bench.steady import arrivals, complete

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + b'{"ok":true}'


def test_the_line_of_the_script_is_found_among_wrks_own() -> None:
    text = "Running 3s test\n  1 threads and 32 connections\nRequests/sec: 9\ncounted 45000 3000000 0\n"
    assert parse_wrk(text, "nginx") == Calls(45000, 3.0)


@pytest.mark.parametrize("text", ["counted 45000 3000000 1\n", "counted 0 3000000 0\n", "unable to connect\n", ""])
def test_failed_calls_or_none_at_all_are_no_measurement(text: str) -> None:
    with pytest.raises(LoadFailedError, match="nginx"):
        parse_wrk(text, "nginx")


@given(st.integers(min_value=0, max_value=len(ANSWER)))
def test_an_answer_is_whole_only_at_its_last_byte(cut: int) -> None:
    assert complete(ANSWER[:cut]) is (cut == len(ANSWER))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "503"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "Content-Length"),
    ],
)
def test_another_answer_than_the_backends_is_a_failure(answer: bytes, why: str) -> None:
    with pytest.raises(LoadFailedError, match=why):
        complete(answer)


@given(st.floats(min_value=10, max_value=5000), st.integers())
def test_calls_arrive_in_order_within_the_time_given(rate: float, seed: int) -> None:
    moments = arrivals(rate, 1.0, Random(seed))  # noqa: S311  chance, not secrecy
    assert moments == sorted(moments)
    assert all(0 <= moment < 1 for moment in moments)


def test_calls_arrive_at_about_the_rate_asked_for() -> None:
    moments = arrivals(1000, 10.0, Random(1))  # noqa: S311  chance, not secrecy
    assert len(moments) == pytest.approx(10_000, rel=0.05)

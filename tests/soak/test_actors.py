"""A soak that would not notice a wrong answer proves nothing."""

from __future__ import annotations

import asyncio

import pytest

from soak.__main__ import plan
from soak.lines import Got, Line, chunked
from soak.site import Wrong, must_be_ok, own

MINE, OTHER = "m-0123456789abcd00", "m-fedcba9876543200"


def test_an_answer_of_another_caller_is_noticed() -> None:
    own(f"... {MINE} ...".encode(), MINE, needed=True)
    for body in (OTHER, MINE + OTHER):
        with pytest.raises(Wrong, match="another caller"):
            own(body.encode(), MINE, needed=False)


def test_an_answer_without_its_marker_is_noticed_where_there_must_be_one() -> None:
    own(b"", MINE, needed=False)
    with pytest.raises(Wrong, match="without its marker"):
        own(b"{}", MINE, needed=True)


@pytest.mark.parametrize("status", [201, 401, 429, 500, 503])
def test_a_good_call_is_answered_with_200_and_nothing_else(status: int) -> None:
    must_be_ok(Got(200, {}, b""))
    with pytest.raises(Wrong, match=str(status)):
        must_be_ok(Got(status, {}, b""))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"hello", 2),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
    ],
)
async def test_the_client_of_the_actors_reads_each_framing(answer: bytes) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        line = await Line.open(server.sockets[0].getsockname()[1], None)
        got = await line.answer()
        line.leave()
    assert (got.status, got.body) == (200, b"hello")


def test_the_warm_up_is_a_part_of_the_time_but_never_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert (plan(["--seconds", "9"]).warm_up, plan([]).warm_up, plan([]).seconds) == (3, 30, 600)
    assert plan(["--seed", "7"]).seed == 7
    with pytest.raises(SystemExit):
        plan(["--seconds", "0"])
    assert "above 0" in capsys.readouterr().err

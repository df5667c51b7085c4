"""A caller's body: read whole within a limit, or handed on as it comes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.doors.body import HOLD_LIMIT, REPLAY_LIMIT, IncomingBody
from gateway.drive import Drive
from gateway.errors import BadRequest, Refusal, TooLarge


@dataclass
class Faucet:
    """The connection's flow: how often it was told to wait and to go on."""

    story: list[str] = field(default_factory=list)

    def pause(self) -> None:
        self.story.append("pause")

    def resume(self) -> None:
        self.story.append("resume")

    def allow(self) -> None:
        self.story.append("continue")


@dataclass
class Drain:
    """Where a streamed body goes."""

    got: bytes = b""
    ended: bool = False
    refused: Refusal | None = None

    def data(self, piece: bytes) -> None:
        self.got += piece

    def end(self) -> None:
        self.ended = True

    def failed(self, refusal: Refusal) -> None:
        self.refused = refusal


@dataclass
class Reading:
    """A path that reads the body whole."""

    body: IncomingBody
    limit: int = 1000
    got: bytes | None = None
    refused: Refusal | None = None

    async def _read(self) -> None:
        try:
            self.got = await self.body.whole(self.limit)
        except Refusal as refusal:
            self.refused = refusal

    def begin(self) -> Reading:
        Drive(self._read()).step()
        return self


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10), st.integers(0, 10))
def test_whole_gives_what_came_before_and_after_it_was_asked_for(pieces: list[bytes], before: int) -> None:
    body = IncomingBody(None, Faucet(), None)
    for piece in pieces[:before]:
        body.arrived(piece)
    reading = Reading(body).begin()
    for piece in pieces[before:]:
        body.arrived(piece)
    assert reading.got is None
    body.finished()

    assert reading.got == b"".join(pieces)


@pytest.mark.parametrize("length", [1001, None])
def test_a_body_beyond_the_limit_is_refused_and_one_at_the_limit_is_not(length: int | None) -> None:
    """M18: the same for an announced length and for chunks, exact at the border."""
    body = IncomingBody(length, Faucet(), None)
    reading = Reading(body).begin()
    if length is None:
        body.arrived(b"x" * 1000)
        assert reading.refused is None
        body.arrived(b"x")
    assert isinstance(reading.refused, TooLarge)

    exact = IncomingBody(1000, Faucet(), None)
    exact.arrived(b"x" * 1000)
    exact.finished()
    assert Reading(exact).begin().got == b"x" * 1000


def test_the_caller_is_asked_to_go_on_once_and_only_when_somebody_reads() -> None:
    """B024."""
    faucet = Faucet()
    body = IncomingBody(5, faucet, faucet.allow)
    assert faucet.story == []
    Reading(body).begin()
    assert faucet.story == ["continue"]


def test_a_refused_length_is_never_asked_for() -> None:
    faucet = Faucet()
    Reading(IncomingBody(5000, faucet, faucet.allow)).begin()

    assert faucet.story == []


def test_what_nobody_reads_is_bounded() -> None:
    faucet = Faucet()
    body = IncomingBody(None, faucet, None)
    body.arrived(b"x" * HOLD_LIMIT)
    assert faucet.story == []
    body.arrived(b"x")
    assert faucet.story == ["pause"]
    drain = Drain()
    body.stream(drain, HOLD_LIMIT * 4)

    assert faucet.story == ["pause", "resume"]
    assert len(drain.got) == HOLD_LIMIT + 1


def test_a_stream_gets_everything_and_can_be_replayed_while_it_is_small() -> None:
    body = IncomingBody(10, Faucet(), None)
    body.arrived(b"hello")
    first, second = Drain(), Drain()
    body.stream(first, 100)
    body.arrived(b"world")
    body.finished()
    assert body.replayable
    body.stream(second, 100)

    assert (first.got, first.ended) == (second.got, second.ended) == (b"helloworld", True)


def test_a_large_stream_cannot_be_replayed() -> None:
    body = IncomingBody(None, Faucet(), None)
    body.stream(Drain(), REPLAY_LIMIT * 4)
    body.arrived(b"x" * (REPLAY_LIMIT + 1))

    assert not body.replayable


def test_a_stream_beyond_its_limit_fails_at_the_sink() -> None:
    body = IncomingBody(None, Faucet(), None)
    drain = Drain()
    body.stream(drain, 10)
    body.arrived(b"x" * 11)

    assert isinstance(drain.refused, TooLarge)
    assert drain.got == b""


def test_a_body_that_breaks_off_fails_whoever_reads_it() -> None:
    """B027."""
    whole = IncomingBody(10, Faucet(), None)
    reading = Reading(whole).begin()
    whole.arrived(b"{}")
    whole.broke_off()
    assert isinstance(reading.refused, BadRequest)

    streamed, drain = IncomingBody(10, Faucet(), None), Drain()
    streamed.stream(drain, 100)
    streamed.broke_off()
    assert isinstance(drain.refused, BadRequest)
    assert not drain.ended


def test_a_body_that_broke_off_before_anybody_read_it_is_refused_and_not_waited_for() -> None:
    body = IncomingBody(None, Faucet(), None)
    body.arrived(b"12")
    body.broke_off()

    assert isinstance(Reading(body).begin().refused, BadRequest)


@pytest.mark.parametrize("came", [b"", b"four", b"sixsix"])
def test_an_end_before_or_behind_the_announced_length_is_no_end(came: bytes) -> None:
    body = IncomingBody(5, Faucet(), None)
    if came:
        body.arrived(came)
    body.finished()

    assert not body.complete
    assert isinstance(Reading(body).begin().refused, BadRequest)


@given(st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=300))
def test_small_pieces_are_joined_and_kept_in_order(pieces: list[bytes]) -> None:
    body = IncomingBody(None, Faucet(), None)
    for piece in pieces:
        body.arrived(piece)
    body.arrived(b"x" * 5000)
    body.arrived(b"end")
    body.finished()

    assert Reading(body, limit=10_000).begin().got == b"".join(pieces) + b"x" * 5000 + b"end"

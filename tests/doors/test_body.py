"""A caller's body: read whole within a limit, or handed on as it comes."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.deadline import Deadline
from gateway.doors.body import HOLD_LIMIT, REPLAY_LIMIT, IncomingBody
from gateway.doors.room import UNCOUNTED, Room, Share
from gateway.drive import Drive
from gateway.errors import BadRequest, Overloaded, Refusal, RequestTimeout, TooLarge


@dataclass
class Faucet:
    """The connection's flow: how often it was told to wait and to go on."""

    story: list[str] = field(default_factory=list)
    held: bool = False

    def pause(self) -> None:
        self.story.append("pause")

    def resume(self) -> None:
        self.story.append("resume")

    def allow(self) -> None:
        self.story.append("continue")


def incoming(
    length: int | None, flow: Faucet | None = None, allow: Callable[[], None] | None = None, room: Room | None = None
) -> IncomingBody:
    return IncomingBody(length, flow or Faucet(), allow, room or Room(1 << 30))


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
    body = incoming(None)
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
    body = incoming(length)
    reading = Reading(body).begin()
    if length is None:
        body.arrived(b"x" * 1000)
        assert reading.refused is None
        body.arrived(b"x")
    assert isinstance(reading.refused, TooLarge)

    exact = incoming(1000)
    exact.arrived(b"x" * 1000)
    exact.finished()
    assert Reading(exact).begin().got == b"x" * 1000


def test_the_caller_is_asked_to_go_on_once_and_only_when_somebody_reads() -> None:
    """B024."""
    faucet = Faucet()
    body = incoming(5, faucet, faucet.allow)
    assert faucet.story == []
    Reading(body).begin()
    assert faucet.story == ["continue"]


def test_a_refused_length_is_never_asked_for() -> None:
    faucet = Faucet()
    Reading(incoming(5000, faucet, faucet.allow)).begin()

    assert faucet.story == []


def test_what_nobody_reads_is_bounded() -> None:
    faucet = Faucet()
    body = incoming(None, faucet)
    body.arrived(b"x" * HOLD_LIMIT)
    assert faucet.story == []
    body.arrived(b"x")
    assert faucet.story == ["pause"]
    drain = Drain()
    body.stream(drain, HOLD_LIMIT * 4)

    assert faucet.story == ["pause", "resume"]
    assert len(drain.got) == HOLD_LIMIT + 1


@pytest.mark.parametrize("read", ["not at all", "whole", "as a stream"])
def test_a_body_that_was_held_and_then_came_whole_holds_up_nothing_behind_it(read: str) -> None:
    """The rest was under way when the caller was told to wait; the next request comes on the same connection."""
    faucet = Faucet()
    body = incoming(HOLD_LIMIT + 2, faucet)
    body.arrived(b"x" * (HOLD_LIMIT + 1))
    body.arrived(b"x")
    body.finished()
    if read == "whole":
        assert Reading(body, HOLD_LIMIT * 2).begin().got == b"x" * (HOLD_LIMIT + 2)
    elif read == "as a stream":
        drain = Drain()
        body.stream(drain, HOLD_LIMIT * 2)
        assert drain.ended
    assert faucet.story == ["pause", "resume"]


def test_a_stream_gets_everything_and_can_be_replayed_while_it_is_small() -> None:
    body = incoming(10)
    body.arrived(b"hello")
    first, second = Drain(), Drain()
    body.stream(first, 100)
    body.arrived(b"world")
    body.finished()
    assert body.replayable
    body.stream(second, 100)

    assert (first.got, first.ended) == (second.got, second.ended) == (b"helloworld", True)


def test_a_large_stream_cannot_be_replayed() -> None:
    body = incoming(None)
    body.stream(Drain(), REPLAY_LIMIT * 4)
    body.arrived(b"x" * (REPLAY_LIMIT + 1))

    assert not body.replayable


def test_a_stream_beyond_its_limit_fails_at_the_sink() -> None:
    body = incoming(None)
    drain = Drain()
    body.stream(drain, 10)
    body.arrived(b"x" * 11)

    assert isinstance(drain.refused, TooLarge)
    assert drain.got == b""


def test_a_body_that_breaks_off_fails_whoever_reads_it() -> None:
    """B027."""
    whole = incoming(10)
    reading = Reading(whole).begin()
    whole.arrived(b"{}")
    whole.broke_off()
    assert isinstance(reading.refused, BadRequest)

    streamed, drain = incoming(10), Drain()
    streamed.stream(drain, 100)
    streamed.broke_off()
    assert isinstance(drain.refused, BadRequest)
    assert not drain.ended


def test_a_body_that_broke_off_before_anybody_read_it_is_refused_and_not_waited_for() -> None:
    body = incoming(None)
    body.arrived(b"12")
    body.broke_off()

    assert isinstance(Reading(body).begin().refused, BadRequest)


@pytest.mark.parametrize("came", [b"", b"four", b"sixsix"])
def test_an_end_before_or_behind_the_announced_length_is_no_end(came: bytes) -> None:
    body = incoming(5)
    if came:
        body.arrived(came)
    body.finished()

    assert not body.complete
    assert isinstance(Reading(body).begin().refused, BadRequest)


@given(st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=300))
def test_small_pieces_are_joined_and_kept_in_order(pieces: list[bytes]) -> None:
    body = incoming(None)
    for piece in pieces:
        body.arrived(piece)
    body.arrived(b"x" * 5000)
    body.arrived(b"end")
    body.finished()

    assert Reading(body, limit=10_000).begin().got == b"".join(pieces) + b"x" * 5000 + b"end"


def test_a_body_that_finds_no_room_is_refused_and_may_be_sent_again_while_small_ones_are_read() -> None:
    room = Room(10 * UNCOUNTED)
    first = incoming(None, room=room)
    reading = Reading(first, limit=1 << 30).begin()
    for _ in range(10):
        first.arrived(b"x" * UNCOUNTED)
    second, small = incoming(None, room=room), incoming(UNCOUNTED, room=room)
    refused, read = Reading(second, limit=1 << 30).begin(), Reading(small, limit=1 << 30).begin()
    for body in (second, small):
        body.arrived(b"x" * UNCOUNTED)
    assert refused.refused is None
    second.arrived(b"x")
    small.finished()
    first.finished()
    assert isinstance(refused.refused, Overloaded)
    assert refused.refused.retry_after is not None
    assert 1 <= refused.refused.retry_after <= 60
    assert read.got == b"x" * UNCOUNTED
    assert reading.got == b"x" * 10 * UNCOUNTED


def test_a_length_that_finds_no_room_is_refused_before_it_is_asked_for() -> None:
    faucet, room = Faucet(), Room(10 * UNCOUNTED)
    held = Share(room)
    assert held.grow(2 * UNCOUNTED)
    reading = Reading(incoming(9 * UNCOUNTED, faucet, faucet.allow, room), limit=1 << 30).begin()
    assert isinstance(reading.refused, Overloaded)
    assert faucet.story == []


def test_what_came_with_the_head_is_not_counted_twice() -> None:
    room = Room(10 * UNCOUNTED)
    body = incoming(10 * UNCOUNTED, room=room)
    body.arrived(b"x" * 2 * UNCOUNTED)
    reading = Reading(body, limit=1 << 30).begin()
    body.arrived(b"x" * 8 * UNCOUNTED)
    body.finished()
    assert reading.got == b"x" * 10 * UNCOUNTED


def test_a_length_for_which_there_never_will_be_room_is_too_large() -> None:
    faucet, room = Faucet(), Room(10 * UNCOUNTED)
    reading = Reading(incoming(11 * UNCOUNTED, faucet, faucet.allow, room), limit=1 << 30).begin()
    assert isinstance(reading.refused, TooLarge)
    assert faucet.story == []


def test_a_stream_that_finds_no_room_goes_on_but_cannot_be_sent_again() -> None:
    body, drain = incoming(None, room=Room(UNCOUNTED)), Drain()
    body.stream(drain, 1 << 30)
    body.arrived(b"x" * UNCOUNTED)
    assert body.replayable
    body.arrived(b"y")
    body.finished()
    assert not body.replayable
    assert drain.got == b"x" * UNCOUNTED + b"y"
    assert drain.ended


def test_who_finds_no_room_before_anybody_reads_is_told_to_wait() -> None:
    faucet = Faucet()
    body = incoming(None, faucet, room=Room(UNCOUNTED))
    body.arrived(b"x" * (UNCOUNTED + 1))
    assert faucet.story == ["pause"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["piece", "leave", "break", "go"])), max_size=40))
def test_room_is_taken_by_what_is_held_and_given_back_with_it(story: list[tuple[int, str]]) -> None:
    room = Room(6 * UNCOUNTED)
    bodies = {number: incoming(None, room=room) for number in range(4)}
    for number, what in story:
        if number not in bodies:
            continue
        if what == "piece":
            bodies[number].arrived(b"x" * UNCOUNTED)
        elif what == "leave":
            bodies[number].leave()
        elif what == "break":
            bodies[number].broke_off()
        else:
            del bodies[number]
        assert 0 <= room.taken <= room.limit
        assert room.taken <= sum(body.received for body in bodies.values() if body.replayable)
    bodies.clear()
    assert room.taken == 0


class Loop:
    """As much of one as a deadline needs; its time is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Loop:
        self.timers.append((when, call))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def move_to(self, when: float) -> None:
        self.now = when
        due = [call for at, call in self.timers if at <= when]
        self.timers = [(at, call) for at, call in self.timers if at > when]
        for call in due:
            call()


@pytest.mark.parametrize(("piece", "refused"), [(1, True), (1024, False)])
def test_a_byte_now_and_then_does_not_put_off_the_limit_on_silence(piece: int, *, refused: bool) -> None:
    """B134."""
    body, loop, passed = incoming(None), Loop(), list[float]()
    deadline = Deadline(cast("AbstractEventLoop", loop), lambda: passed.append(loop.now))
    body.hurry(deadline, 60.0)
    for second in range(1, 200):
        body.arrived(b"x" * piece)
        body.hurry(deadline, 60.0)
        loop.move_to(float(second))
    assert passed == ([60.0] if refused else [])


@pytest.mark.parametrize("held", [False, True])
def test_a_caller_is_late_only_while_he_is_listened_to(*, held: bool) -> None:
    """B134."""
    body, loop = incoming(None, Faucet(held=held)), Loop()
    drain = Drain()
    body.stream(drain, 1 << 30)
    body.late(Deadline(cast("AbstractEventLoop", loop), lambda: None), 60.0)
    assert isinstance(drain.refused, RequestTimeout) is not held
    assert bool(loop.timers) is held

"""The caller's body, as it comes in over one connection.

Knows: how much may wait, who reads it, when it is complete.
Must not know: HTTP/1.1, models, JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gateway.deadline import Deadline
from gateway.doors.room import UNCOUNTED, Room, Share
from gateway.drive import Moment
from gateway.errors import BadRequest, Overloaded, Refusal, RequestTimeout, TooLarge
from gateway.exchange import Flow, Sink

# What may wait before anybody reads the body; beyond it the caller is told to wait (TCP backpressure).
HOLD_LIMIT = 256 * 1024

# What is kept of a streamed body so that it can be sent again when nothing was executed.
REPLAY_LIMIT = 256 * 1024

# What must come within the limit on silence, or the body's end: who sends a byte now and then is as good as silent. A
# call's audio, coded for speech, is ten times this within the default limit.
_PROGRESS = 16 * 1024

# Seconds after which a body that found no room may be sent again: a large one takes about as long to be relayed.
_AGAIN = 5

# Pieces below the first size are joined up to the second.
_SMALL = 4 * 1024
_JOINED = 64 * 1024


class Tap(Flow, Protocol):
    """A flow that knows whether it is held, by anybody and for any reason."""

    @property
    def held(self) -> bool: ...


class IncomingBody:
    """Implements `exchange.Body`. The door calls `arrived`, `finished` and `broke_off`; the path reads."""

    __slots__ = (
        "_allow", "_awaited", "_due", "_failure", "_flow", "_held", "_limit", "_moment", "_pieces", "_room", "_share",
        "_sink", "_small", "complete", "length", "received", "replayable",
    )  # fmt: skip

    def __init__(
        self,
        length: int | None,
        flow: Tap,
        allow: Callable[[], None] | None,
        room: Room,
        awaited: Callable[[], None] | None = None,
    ) -> None:
        """`flow`: whom to pause when too much waits. `allow`: called once before the first read (100 Continue).

        `room`: what is kept of it takes a share of this.
        `awaited`: called once when somebody begins to wait for the rest: the caller may have stopped before that.
        """
        self.length = length
        self.received = 0
        self.complete = length == 0
        self.replayable = True
        self._flow = flow
        self._allow = allow
        self._awaited = awaited
        self._pieces: list[bytes] = []
        self._held = False
        self._limit = -1
        self._sink: Sink | None = None
        self._moment: Moment | None = None
        self._failure: Refusal | None = None
        self._small = bytearray()
        self._room = room
        self._share: Share | None = None
        self._due = 0

    # -- the path reads

    now = None

    async def whole(self, limit: int) -> bytes:
        """All of it, at most `limit` bytes. Raises `TooLarge`, `Overloaded`, `RequestTimeout`, or `BadRequest`."""
        if (self.length or 0) > limit or self.received > limit:
            raise TooLarge.beyond(limit)
        if not self.complete and self._failure is None:
            self._find_room(max(self.length or 0, self.received))
            self._limit = limit
            self._moment = Moment()
            self._let_in()
            await self._moment
        if self._failure is not None:
            raise self._failure
        pieces = self._kept()
        if len(pieces) > 1:
            self._pieces = pieces = [b"".join(pieces)]
        return pieces[0] if pieces else b""

    def stream(self, sink: Sink, limit: int) -> Flow:
        """Everything from the first byte on goes to `sink`, at most `limit` bytes."""
        self._sink = sink
        self._limit = limit
        if (self.length or 0) > limit or self.received > limit:
            sink.failed(TooLarge.beyond(limit))
            return self._flow
        for piece in tuple(self._kept()):
            sink.data(piece)
        self._forget_beyond_replay()
        if self.complete:
            sink.end()
        elif self._failure is not None:
            sink.failed(self._failure)
        else:
            self._let_in()
        return self._flow

    def leave(self) -> None:
        """Nobody reads on: what still comes is dropped by the door."""
        self._sink = None
        self._forget()

    @property
    def missing(self) -> int | None:
        """Bytes that were announced and did not come yet; None where nothing is announced."""
        return None if self.length is None else self.length - self.received

    # -- the door writes

    def arrived(self, piece: bytes) -> None:
        """More of the body."""
        self.received += len(piece)
        if self._limit >= 0 and self.received > self._limit:
            self.broke_off(TooLarge.beyond(self._limit))
            return
        if self._failure is not None:
            return
        room = True
        if self.replayable:
            self._keep(piece)
            room = self.received <= UNCOUNTED or self._has_room()
        if self._sink is not None:
            self._sink.data(piece)
            self._forget_beyond_replay()
        elif self._moment is not None:
            if not room:
                never = self.received > self._room.limit
                self.broke_off(TooLarge.beyond(self._room.limit) if never else _no_room())
        elif not self._held and (self.received > HOLD_LIMIT or not room):
            self._held = True
            self._flow.pause()

    def finished(self) -> None:
        """That was all of it."""
        if self._failure is not None:
            return
        if self.length is not None and self.received != self.length:
            self.broke_off()  # whatever ended it, it is not what was announced
            return
        self.complete = True
        self._release()
        if self._sink is not None:
            self._sink.end()
        if self._moment is not None:
            self._moment.fire()

    def broke_off(self, refusal: Refusal | None = None) -> None:
        """It will not be complete."""
        if self.complete or self._failure is not None:
            return
        self._failure = refusal or BadRequest("The request body broke off.")
        self._forget()
        if self._sink is not None:
            self._sink.failed(self._failure)
        if self._moment is not None:
            self._moment.fire()

    @property
    def wanted(self) -> bool:
        """True while somebody waits for more of it: the caller's silence then has a limit."""
        return not self.complete and self._failure is None and (self._sink is not None or self._moment is not None)

    def hurry(self, deadline: Deadline, limit: float) -> None:
        """Put `deadline` off by `limit` seconds, if enough came since the last time."""
        if self.received >= self._due:
            self._due = self.received + _PROGRESS
            deadline.set(limit)

    def late(self, deadline: Deadline, limit: float) -> None:
        """The deadline has passed. While nobody reads it is not the caller who is slow, and the backend has its own."""
        if self._flow.held:
            deadline.set(limit)
        else:
            self.broke_off(RequestTimeout())

    def _has_room(self) -> bool:
        """Take room for what is kept. Without it a body that is streamed can still be sent, but not again."""
        share = self._share
        if share is None:
            share = self._share = Share(self._room)
        if share.grow(self.received):
            return True
        if self._sink is not None:
            self._forget()
        return False

    def _find_room(self, size: int) -> None:
        """Raises `Overloaded`, or `TooLarge` where there never will be room."""
        if size > max(self._room.limit, UNCOUNTED):
            raise TooLarge.beyond(self._room.limit)
        if not self._room.has(size - (0 if self._share is None else self._share.size)):
            raise _no_room()

    def _let_in(self) -> None:
        if self._allow is not None and not self.received:
            self._allow()
        self._allow = None
        self._release()
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            awaited()

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._flow.resume()

    def _keep(self, piece: bytes) -> None:
        """Small pieces are joined as they come: each would take some 40 bytes more than it holds."""
        if len(piece) < _SMALL:
            self._small += piece
            if len(self._small) >= _JOINED:
                self._kept()
        else:
            self._kept().append(piece)

    def _kept(self) -> list[bytes]:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()
        return self._pieces

    def _forget_beyond_replay(self) -> None:
        if self.received > REPLAY_LIMIT:
            self._forget()

    def _forget(self) -> None:
        self.replayable = False
        self._pieces = []
        self._small.clear()
        self._share = None


class WholeBody:
    """A body that came in one piece with its head. Implements `exchange.Body`."""

    __slots__ = ("length", "now")

    complete = True
    replayable = True
    wanted = False

    def __init__(self, content: bytes) -> None:
        self.now = content
        self.length = len(content)

    @property
    def received(self) -> int:
        """Bytes that came."""
        return self.length

    async def whole(self, limit: int) -> bytes:
        """All of it. Raises `TooLarge`."""
        if self.length > limit:
            raise TooLarge.beyond(limit)
        return self.now

    def stream(self, sink: Sink, limit: int) -> Flow:
        """All of it, at once."""
        if self.length > limit:
            sink.failed(TooLarge.beyond(limit))
        else:
            if self.now:
                sink.data(self.now)
            sink.end()
        return _STILL

    def leave(self) -> None:
        """Nobody reads on."""

    def hurry(self, deadline: Deadline, limit: float) -> None:
        """Nothing still comes."""

    def late(self, deadline: Deadline, limit: float) -> None:
        """Nothing is waited for."""

    def broke_off(self, refusal: Refusal | None = None) -> None:
        """It cannot: it is complete."""


class _Still:
    """A flow of nothing."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


_STILL = _Still()


def _no_room() -> Overloaded:
    return Overloaded(retry_after=_AGAIN)

"""The two ends of a conversation, in words that every protocol shares: start, chunks, end, or fail.

Knows: the moments of an answer and of a body. Must not know: any protocol, any library.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from gateway.call import Call, Dialect, FieldBlock, Fields
from gateway.errors import Refusal


class Flow(Protocol):
    """An end that can be told to wait: whoever writes into a full buffer pauses the one it reads from."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Sink(Protocol):
    """Where a body goes while it comes in. `failed` says that it will never be complete."""

    def data(self, piece: bytes) -> None: ...
    def end(self) -> None: ...
    def failed(self, refusal: Refusal) -> None: ...


class Body(Protocol):
    """What the caller sends behind the head. Reading it is the caller's permission to send (`100 Continue`)."""

    @property
    def length(self) -> int | None:
        """Announced length in bytes; 0 when there is none, None when it is not announced (chunked)."""
        ...

    @property
    def received(self) -> int:
        """Bytes that came so far."""
        ...

    @property
    def replayable(self) -> bool:
        """True while everything that was taken from it can be taken again."""
        ...

    @property
    def now(self) -> bytes | None:
        """All of it, if it came in one piece with the head: no need to wait for it."""
        ...

    async def whole(self, limit: int) -> bytes:
        """All of it.

        Raises `TooLarge` beyond `limit` bytes (at once when announced), `Overloaded` where there is no memory for it,
        `RequestTimeout` when it stops coming, `BadRequest` when it breaks off.
        """
        ...

    def stream(self, sink: Sink, limit: int) -> Flow:
        """Hand it on piece by piece, from the start. `sink.failed(TooLarge)` beyond `limit` bytes."""
        ...


class Reply(Protocol):
    """The caller's end. Nothing is written before `flush` or `end`, so that a head travels with what follows it.

    `mark`: with the name of the call behind it the name of the decision, told in each answer; empty: there is none.
    """

    mark: bytes

    @property
    def started(self) -> bool:
        """True once the head was given: from here on no other answer is possible."""
        ...

    def tell(self, fields: Fields) -> None:
        """Further fields for the answer, whatever it will be, in place of those told before; before it starts.

        They hold no line end.
        """
        ...

    def start(self, status: int, fields: FieldBlock, length: int | None) -> None:
        """Begin the answer; `length` in bytes, or None where it is not known. `fields` are end-to-end fields only."""
        ...

    def send(self, piece: bytes) -> None: ...
    def flush(self) -> None: ...
    def end(self) -> None: ...

    def piece(self, piece: bytes) -> None:
        """One piece, written at once: like send and flush. `piece` is not empty."""
        ...

    def whole(self, status: int, fields: FieldBlock, content: bytes) -> None:
        """A whole answer at once: like start, send and end."""
        ...

    def fail(self, refusal: Refusal, dialect: Dialect) -> None:
        """Refuse (nothing was started: an error answer) or cut (the answer must not look complete)."""
        ...

    def last_words(self, piece: bytes) -> None:
        """Write `piece` and then cut: an in-band error event at the edge of an event, for protocols that have one."""
        ...

    def feeds_from(self, flow: Flow | None) -> None:
        """Whom to pause while the caller reads slowly."""
        ...


class Exchange:
    """One call, what comes in with it, and where the answer goes."""

    __slots__ = ("body", "call", "reply")

    def __init__(self, call: Call, body: Body, reply: Reply) -> None:
        self.call = call
        self.body = body
        self.reply = reply


#: What a door is given: the path of one call, ready to be driven (`drive.Drive`).
Serve = Callable[[Exchange], Coroutine[Any, Any, None]]

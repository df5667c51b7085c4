"""One connection to a backend, carrying one request at a time.

Knows: sockets, HTTP/1.1 framing, backpressure, the silences a backend may keep.
Must not know: pools of connections, who calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from gateway.call import AnswerHead
from gateway.deadline import Deadline
from gateway.drive import Moment
from gateway.errors import Refusal, RequestTimeout, Stalled, Truncated, UpstreamBroke, UpstreamBusy, UpstreamTimeout
from gateway.exchange import Flow
from gateway.http1 import heads
from gateway.http1.answers import AnswerReader, KnownAnswer, known
from gateway.pools.backends import Backend
from gateway.seams import Answer, Outbound

# uvicorn drops idle connections after 5 s (vLLM and NIM stand on it); ours must be gone before.
IDLE_LIMIT = 4.0

# A connection serves this long at most, so that a changed DNS record is followed under constant traffic.
AGE_LIMIT = 60.0

# Seconds after a request went out on a kept connection in which its end means that it was closed already.
STALE_WITHIN = 1.0

# Bytes of an answer's header; engines send a few hundred.
_HEADER_LIMIT = 64 * 1024

# What a request may pile up before the caller is told to wait.
_WRITE_HIGH = 256 * 1024
_WRITE_LOW = 64 * 1024

# Chunks of a streamed request are joined to this size: Triton takes 65 536 chunks a request at most.
_CHUNK_SIZE = 64 * 1024


class Stale(UpstreamBroke):
    """A kept connection closed before a byte of the answer.

    The backend had closed it, or closed as the request came.
    """

    retry = True


class _State(Enum):
    IDLE = "idle"
    TAKEN = "taken"
    BUSY = "busy"
    CLOSED = "closed"


class Owner(Protocol):
    def __call__(self, connection: Connection, *, spoke: bool) -> None: ...


class Connection(asyncio.Protocol):
    """Implements `exchange.Sink` for the request's body and `exchange.Flow` for the answer's."""

    __slots__ = (
        "_after_target", "_answer", "_before_target", "_begun", "_broke", "_chunks", "_deadline", "_full", "_gone",
        "_known", "_loop", "_moment", "_outbound", "_owed", "_paused", "_reader", "_sending", "_settled", "_source",
        "_state", "_transport", "_until", "_used", "_whole", "backend",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        backend: Backend,
        settled: Callable[[Connection], None],
        gone: Owner,
    ) -> None:
        """`settled`: told when it may serve again. `gone`: told when it closed while idle."""
        self.backend = backend
        self._loop = loop
        self._settled = settled
        self._gone = gone
        self._state = _State.IDLE
        self._used = False
        self._known: KnownAnswer | None = None
        credential = b"" if backend.credential is None else b"%b: %b\r\n" % backend.credential
        self._before_target = b" " + backend.base_path
        self._after_target = b" HTTP/1.1\r\nhost: %b\r\n%b" % (backend.authority, credential)
        self._begun = loop.time()
        self._until = self._begun + AGE_LIMIT
        self._deadline = Deadline(loop, self._late)
        self._transport: asyncio.Transport
        self._answer: Answer | None = None
        self._outbound: Outbound | None = None
        self._moment: Moment | None = None
        self._reader: AnswerReader | None = None
        self._source: Flow | None = None
        self._chunks: bytearray | None = None
        self._owed = 0
        self._sending = False
        self._broke: Refusal | None = None
        self._full = False
        self._paused = False
        self._whole = False

    # -- the wire calls these

    def take(self) -> bool:
        """Reserve it for one request; False if it is closed or closing."""
        if self._state is not _State.IDLE or self._transport.is_closing():
            return False
        self._state = _State.TAKEN
        return True

    def begin(self, outbound: Outbound, answer: Answer) -> Moment:
        """Send the request and hand its answer on as it comes; the moment is its end.

        Fails as `seams.Wire.relay` raises.
        """
        self._state = _State.BUSY
        self._outbound = outbound
        self._answer = answer
        self._moment = moment = Moment()
        self._begun = self._loop.time()
        self._write_request(outbound)
        self._deadline.set(outbound.first_byte)
        answer.feeds_from(self)
        return moment

    def settle(self) -> None:
        """The request is over: back among the idle if the answer ended cleanly, else closed."""
        reader = self._reader
        whole = self._whole or (reader is not None and reader.complete and reader.reusable and not reader.extra)
        clean = whole and self._state is _State.BUSY and not self._sending and self._broke is None
        if self._answer is not None and not whole:
            self._answer.feeds_from(None)
        if reader is not None:
            reader.close()
        if not clean or self._transport.is_closing() or self._loop.time() > self._until:
            self.close()
        elif self._paused:
            self._transport.resume_reading()
        self._answer = self._outbound = self._moment = self._reader = self._source = self._chunks = self._broke = None
        if self._state is _State.CLOSED:
            return
        self._paused = self._full = self._whole = False
        self._state = _State.IDLE
        self._used = True
        self._deadline.set(IDLE_LIMIT)
        self._settled(self)

    def close(self) -> None:
        """Close at once; the backend sees its caller gone."""
        if self._state is not _State.CLOSED:
            self._state = _State.CLOSED
            self._deadline.close()
            self._transport.abort()

    # -- the request's body (exchange.Sink)

    def data(self, piece: bytes) -> None:
        if self._state is not _State.BUSY:
            return
        if self._chunks is None:
            self._owed -= len(piece)
            self._transport.write(piece)
        else:
            self._chunks += piece
            if len(self._chunks) >= _CHUNK_SIZE:
                self._write_chunk(b"")
        if self._outbound is not None:
            self._deadline.set(self._outbound.first_byte)

    def end(self) -> None:
        if self._state is _State.BUSY:
            if self._chunks is not None:
                self._write_chunk(heads.LAST_CHUNK)
            elif self._owed:
                self._fail(UpstreamBroke(detail="the body that was announced did not come"))
                return
            self._sending = False

    def failed(self, refusal: Refusal) -> None:
        """The caller's body will not be complete, so this request must not look complete either."""
        self._fail(refusal)

    # -- the answer's flow (exchange.Flow)

    def pause(self) -> None:
        if self._state is _State.BUSY and not self._transport.is_closing():
            self._paused = True
            self._deadline.clear()  # it is the caller who is slow
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and self._state is _State.BUSY and not self._transport.is_closing():
            self._paused = False
            self._wait()
            self._transport.resume_reading()

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream transport, by construction
        self._transport.set_write_buffer_limits(_WRITE_HIGH, _WRITE_LOW)

    def data_received(self, data: bytes) -> None:
        answer, outbound = self._answer, self._outbound
        if answer is None or outbound is None or self._state is not _State.BUSY or self._whole:
            self._unasked()
            return
        reader = self._reader
        if reader is not None and (content := reader.whole_chunk(data)) is not None:
            answer.piece(content)
            if not self._paused:
                self._deadline.set(outbound.idle)
            return
        fresh = reader is None
        try:
            if reader is None:
                head_only = outbound.method == "HEAD"
                if self._known is not None and not head_only and (read := self._known.read(data)) is not None:
                    answer.whole(*read)
                    self._whole = True
                    self._finish()
                    return
                self._reader = reader = AnswerReader(self, head_only=head_only, limit=_HEADER_LIMIT)
            reader.feed(data)
            if reader.complete:
                if fresh and not head_only:
                    self._known = known(data, reader)
                answer.end(delimited=True)
                self._finish()
                return
            answer.flush()
        except Refusal as refusal:
            started = reader is not None and reader.started and not isinstance(refusal, UpstreamBusy)
            self._fail(_truncated(refusal) if started and not isinstance(refusal, Truncated) else refusal)
            return
        if reader.started and not self._paused:
            self._deadline.set(outbound.idle)

    def _unasked(self) -> None:
        """RFC 9112 §9.2: bytes that nobody asked for are never the next caller's answer."""
        spoke = self._state is _State.IDLE
        self.close()
        if spoke:
            self._gone(self, spoke=True)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        state, self._state = self._state, _State.CLOSED
        self._deadline.close()
        if state is _State.BUSY:
            self._state = _State.BUSY
            self._lost(error)
            self._state = _State.CLOSED
        elif state is _State.IDLE:
            self._gone(self, spoke=False)

    def pause_writing(self) -> None:
        self._full = True
        if self._source is not None:
            self._source.pause()

    def resume_writing(self) -> None:
        self._full = False
        if self._source is not None:
            self._source.resume()

    # -- the reader calls these

    def on_answer(self, head: AnswerHead) -> None:
        assert self._answer is not None  # noqa: S101  data_received checked it
        self._answer.head(head)

    def on_answer_data(self, piece: bytes) -> None:
        assert self._answer is not None  # noqa: S101  data_received checked it
        self._answer.data(piece)

    # -- inside

    def _write_request(self, outbound: Outbound) -> None:
        parts = [
            outbound.method.encode("ascii"),
            self._before_target,
            outbound.target,
            self._after_target,
            heads.block(outbound.shared),
            heads.lines(outbound.fields),
        ]
        payload = outbound.payload
        if payload is None and outbound.body.length == 0:
            payload = b""
        if payload is not None:
            if payload or outbound.method in ("POST", "PUT", "PATCH"):
                parts.append(b"content-length: %d\r\n" % len(payload))
            parts += (b"\r\n", payload)
            self._transport.write(b"".join(parts))
            return
        length = outbound.body.length
        parts.append(
            b"transfer-encoding: chunked\r\n\r\n" if length is None else b"content-length: %d\r\n\r\n" % length
        )
        self._transport.write(b"".join(parts))
        self._chunks = bytearray() if length is None else None
        self._owed = length or 0
        self._sending = True
        self._source = source = outbound.body.stream(self, outbound.limit)
        if self._full:  # what had waited filled the buffer before there was anybody to pause
            source.pause()

    def _write_chunk(self, more: bytes) -> None:
        chunks = self._chunks
        if chunks:
            self._transport.write(heads.chunk(bytes(chunks)) + more)
            chunks.clear()
        elif more:
            self._transport.write(more)

    def _wait(self) -> None:
        if self._outbound is not None:
            started = self._reader is not None and self._reader.started
            self._deadline.set(self._outbound.idle if started else self._outbound.first_byte)

    def _finish(self) -> None:
        if self._moment is not None:
            self._moment.fire()

    def _fail(self, refusal: Refusal) -> None:
        if self._broke is None and self._moment is not None and not self._moment.fired:
            self._broke = refusal
            self._moment.fail(refusal)

    def _lost(self, error: Exception | None) -> None:
        reader, answer = self._reader, self._answer
        if answer is None or self._whole or (reader is not None and reader.complete):
            return
        detail = f"{self.backend.name}: {error or 'closed by the backend'}"
        if reader is None or not reader.started:
            # Closed as the request came, or because of it? On a kept connection, a moment after the request, it is the
            # former; later the backend has had time to begin, and what may have run is not sent again.
            at_once = self._used and reader is None and self._loop.time() - self._begun < STALE_WITHIN
            self._fail(Stale(detail=detail) if at_once else UpstreamBroke(detail=detail))
        elif error is None and reader.eof():
            try:
                answer.end(delimited=False)
                self._finish()
            except Refusal as refusal:
                self._fail(refusal)
        else:
            self._fail(Truncated(detail=detail))

    def _late(self) -> None:
        if self._state is _State.IDLE:
            self.close()
            self._gone(self, spoke=False)
        elif self._reader is not None and self._reader.started:
            self._fail(Stalled(detail=f"{self.backend.name}: idle limit"))
        elif self._sending and not self._full:  # the backend took all there was: the caller has stopped in his body
            self._fail(RequestTimeout())
        else:
            self._fail(UpstreamTimeout(detail=f"{self.backend.name}: no answer in time"))


def _truncated(refusal: Refusal) -> Truncated:
    return Truncated(detail=refusal.detail or refusal.message)

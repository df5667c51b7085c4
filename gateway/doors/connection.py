"""One caller's connection: HTTP/1.1 over TLS, one request after the other.

Knows: when a request begins and ends, pipelining, which silence has which limit.
Must not know: who callers are, models, backends.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from gateway.call import Call, Channel, ClientCertificate, Dialect, Outcome
from gateway.deadline import Deadline
from gateway.doors.body import IncomingBody, WholeBody
from gateway.doors.door import LINGER, WRITE_HIGH, WRITE_LOW, Door, Incoming
from gateway.doors.reading import NOWHERE, Hold, Reading
from gateway.doors.reply import HttpReply
from gateway.drive import Drive
from gateway.errors import ClientGone, Refusal, RequestTimeout
from gateway.exchange import Flow
from gateway.headers import client_address
from gateway.http1 import heads
from gateway.http1.requests import UNREADABLE, RequestHead, RequestReader, crowded, portion
from gateway.tls import peer_certificate

# Requests that may wait behind the one being answered (RFC 9112 §9.3.2); what came with them is kept unread meanwhile.
_PIPELINE_LIMIT = 16

# Requests answered on one connection before others have their turn.
_TURN = 8


class ClientConnection(asyncio.Protocol):
    """One caller's connection. Requests are answered one after the other, in order."""

    def __init__(self, door: Door, loop: asyncio.AbstractEventLoop, peer: str) -> None:
        self._door = door
        self._loop = loop
        self._limits = door.settings.timeouts
        self._queue: deque[Incoming] = deque()
        self._current: Incoming | None = None
        self._newest: Incoming | None = None
        self._drive: Drive | None = None
        self._receiving: IncomingBody | None = None
        self._last: Call | None = None
        self._last_head: RequestHead | None = None
        self._refusal: Refusal | None = None
        self._feeder: Flow | None = None
        self._started = 0.0
        self._write_left = 0
        self._unread = b""
        self._advancing = self._scheduled = self._closing = self._write_paused = self._in_head = self._last_one = False
        self._transport: asyncio.Transport
        self._peer = peer

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream transport, by construction of the server
        self._transport.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)
        der = peer_certificate(transport.get_extra_info("ssl_object"))
        self._certificate = None if der is None else ClientCertificate(der)
        self._reading = Reading(self._loop, self._transport, self._left)
        self._reader = RequestReader(self, self._door.settings.header)
        self._deadline = Deadline(self._loop, self._late)
        self._door.entered(self)
        self._deadline.set(self._limits.header)

    def data_received(self, data: bytes) -> None:
        if self._closing or self._refusal is not None or self._reader.broken:
            return  # lingering: what still comes is dropped
        if not self._reader.begun:
            self._started = time.monotonic()
        if not (self._unread or self._queue or crowded(data)):
            self._feed(data)
        else:
            self._unread += data
            self._feed_unread()
        self._advance()

    def connection_lost(self, _error: Exception | None) -> None:
        self._closing = True
        self._door.gone(self)
        self.stop(ClientGone())
        # Nothing of it may wait for the collector, which looks seldom: a TLS connection takes 50 KiB.
        for part in (self._deadline, self._reading, self._reader):
            part.close()
        self._transport = NOWHERE
        self._refusal = self._newest = self._drive = self._feeder = self._receiving = None

    def pause_writing(self) -> None:
        self._write_paused = True
        self._write_left = self._transport.get_write_buffer_size()
        if self._feeder is not None:
            self._feeder.pause()
        if self._receiving is None:  # who reads no answers is not read from; but an upload under way goes on
            self._reading.hold("answers")
        self._deadline.set(self._limits.write)

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._feeder is not None:
            self._feeder.resume()
        self._reading.release("answers")
        self._rearm()
        self._advance()

    # -- the reader calls these

    def on_request(self, head: RequestHead) -> None:
        allow = self._allow if head.expects_continue else None
        flow, room = Hold(self._reading, "body"), self._door.room
        self._receiving = body = IncomingBody(head.length, flow, allow, room, self._rearm)
        self._queue_up(self._call(head), head, body)

    def on_request_again(self, head: RequestHead, content: bytes) -> None:
        last = self._last
        if head is self._last_head and last is not None:
            call = last.again(self._door.new_id(), self._started)
        else:
            call = self._call(head)
        self._queue_up(call, head, WholeBody(content))
        self._started = time.monotonic()

    def _call(self, head: RequestHead) -> Call:
        path, mark, query = head.target.partition("?")
        peer = client_address(self._peer, head.fields, self._door.settings.trusted_proxies)
        return Call(
            self._door.new_id(),
            Channel.HTTP,
            head.method,
            path,
            query if mark else None,
            head.fields,
            peer,
            self._started,
            self._certificate,
        )

    def _queue_up(self, call: Call, head: RequestHead, body: IncomingBody | WholeBody) -> None:
        self._last, self._last_head = call, head
        self._newest = incoming = Incoming(call, body, HttpReply(self, call.id, head))
        self._queue.append(incoming)

    def on_request_data(self, piece: bytes) -> None:
        assert self._receiving is not None  # noqa: S101  the reader gives the head first
        self._receiving.arrived(piece)

    def on_request_end(self) -> None:
        assert self._receiving is not None  # noqa: S101  the reader gives the head first
        self._receiving.finished()
        self._receiving = None
        self._started = time.monotonic()

    # -- the reply calls these

    @property
    def leaving(self) -> bool:
        """True when no request may follow the one being answered: what is unread of its body would be taken for one."""
        unread = self._current is not None and not self._current.came.complete
        return self._door.draining or self._last_one or unread

    def write(self, data: bytes) -> None:
        if not self._closing:
            self._transport.write(data)

    def write_last(self, data: bytes) -> None:
        if self._closing:
            return
        self._transport.write(data)
        self.answered(persist=True)

    def answered(self, *, persist: bool) -> None:
        """The current request has its answer. `persist`: another may follow on this connection."""
        incoming, self._current, self._feeder = self._current, None, None
        self._newest = self._newest if self._queue else None  # a body that was answered holds no memory
        if self._closing:
            return
        if incoming is not None and not incoming.came.complete:
            incoming.came.leave()
            persist = False
        if not persist or self._last_one:
            self._close_soon(everything_read=incoming is not None and incoming.came.complete and self._refusal is None)
        elif self._queue or self._unread or self._refusal is not None:
            self._advance_soon()  # the path behind this answer first gives back what it holds
        else:
            self._rearm()

    def cut(self, *, abruptly: bool) -> None:
        """Close in the middle of an answer."""
        self._current = self._feeder = None
        if self._closing:
            return
        self._closing = True
        if abruptly:
            self._transport.abort()
        else:
            self._transport.close()
            self._deadline.set(self._limits.write)

    def now_feeds_from(self, flow: Flow | None) -> None:
        self._feeder = flow
        if flow is not None and self._write_paused:
            flow.pause()

    # -- the door calls these

    @property
    def busy(self) -> bool:
        """True while a request is not answered."""
        return bool(self._current or self._queue or self._unread or self._reader.begun)

    @property
    def kept(self) -> bool:  # for another request
        return self._last is not None and not (self.busy or self._closing)

    def close_if_idle(self) -> None:
        if not self.busy and not self._closing:
            self._closing = True
            self._transport.close()

    def retire_certified(self) -> None:
        """If it was opened with a certificate: close it behind the answer under way, or at once."""
        if self._certificate is not None:
            self._last_one = True
            self._certificate = self._last = self._last_head = None  # what is read from now on goes without it
            self.close_if_idle()

    def end(self, reason: Refusal) -> None:
        """Stop the call under way and close, orderly: what was written still goes out."""
        self.stop(reason)
        if not self._closing:
            self._closing = True
            self._transport.close()

    def drop(self) -> None:
        """Close at once, whatever still waits to go out."""
        self._closing = True
        self._transport.abort()

    def stop(self, reason: Refusal) -> None:
        """Stop the call under way where it stands; it gives back what it holds before this returns."""
        self._queue.clear()
        self._unread = b""
        incoming = self._current
        if incoming is None:
            return
        if self._drive is not None:
            self._drive.stop(reason)
        incoming.came.broke_off()
        self._current = None

    # -- inside

    def _feed(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
        except Refusal as refusal:
            self._refuse_rest(refusal)
        if self._reader.broken and self._newest is not None and self._refusal is None:
            self._newest.answer.last()

    def _feed_unread(self) -> None:
        """Feed what is unread, by portions, until enough requests wait. An announced body is fed in one piece."""
        data, start = self._unread, 0
        while start < len(data) and len(self._queue) <= _PIPELINE_LIMIT and not self._stopped:
            stride = portion(data, start, 0 if self._receiving is None else self._receiving.missing)
            self._feed(data[start : start + stride])
            start += stride
        self._unread = b"" if self._stopped else data[start:]
        if self._unread:
            self._reading.hold("pipeline")
        else:
            self._reading.release("pipeline")

    @property
    def _stopped(self) -> bool:
        """True when nothing that still comes is read."""
        return self._closing or self._refusal is not None or self._reader.broken

    def _advance(self) -> None:
        """Begin the next request, if none is under way and the caller reads its answers."""
        self._scheduled = False
        if self._advancing:
            return
        self._advancing = True
        try:
            more = self._begin_some()
        finally:
            self._advancing = False
        current = self._current
        if more:
            self._advance_soon()  # others have their turn first
        if current is not None:
            if not current.came.complete:
                self._rearm()
        elif self._refusal is not None and not self._queue and not self._closing:
            self._answer_refusal(self._refusal)
        elif self._queue or self._reader.begun:
            self._rearm()

    def _begin_some(self) -> bool:
        """Begin requests until one is under way; True when there are more than this turn has room for."""
        left = _TURN
        while self._queue or self._unread:
            if not self._queue:  # what is unread may hold the rest of the body that is now being read
                self._feed_unread()
            if self._current is not None or self._closing or self._write_paused:
                return False
            if not left:
                return True
            if self._queue:
                left -= 1
                self._begin(self._queue.popleft())
        return False

    def _advance_soon(self) -> None:
        """Go on in the next turn of the loop; once, however often it is asked for."""
        if not (self._advancing or self._scheduled):
            self._scheduled = True
            self._loop.call_soon(self._advance)

    def _begin(self, incoming: Incoming) -> None:
        self._current = incoming
        self._in_head = False
        self._drive = drive = Drive(self._door.serve(incoming))
        drive.step()

    def _left(self) -> None:
        """The caller left while nobody read from the connection."""
        self.stop(ClientGone())
        self.drop()

    def _refuse_rest(self, refusal: Refusal) -> None:
        """The bytes that follow cannot be told apart: a body under way breaks off, the refusal is the last answer."""
        self._refusal = refusal
        if (newest := self._newest) is not None and not newest.came.complete:
            newest.came.broke_off(refusal)
            self._refusal = None if newest is self._current or newest in self._queue else refusal
            newest.answer.last()

    def _answer_refusal(self, refusal: Refusal) -> None:
        door = self._door
        call = Call(door.new_id(), Channel.HTTP, "", "", None, (), self._peer, self._started or time.monotonic())
        HttpReply(self, call.id, UNREADABLE).fail(refusal, Dialect.OPENAI)
        outcome = Outcome(call)
        outcome.refusal, outcome.status = refusal, refusal.status
        door.account(outcome)

    def _close_soon(self, *, everything_read: bool) -> None:
        """Close when the answer is out. Closing with unread bytes resets the connection and could lose the answer."""
        self._closing = True
        if everything_read:
            self._transport.close()
            self._deadline.set(self._limits.write)
        else:
            self._reading.open()
            self._deadline.set(LINGER)

    def _allow(self) -> None:
        self._transport.write(heads.CONTINUE)

    def _rearm(self) -> None:
        """Which silence is being waited for now, and how long it may last."""
        if self._closing or self._write_paused:
            return
        current = self._current
        was_in_head, self._in_head = self._in_head, current is None and self._reader.in_head
        if self._in_head:
            if not was_in_head:  # the limit is on the whole head, not on the silence between its bytes
                self._deadline.set(self._limits.header)
        elif current is None:
            self._deadline.set(self._limits.keep_alive)
        elif current.came.wanted:
            current.came.hurry(self._deadline, self._limits.idle)
        else:
            self._deadline.clear()

    def _late(self) -> None:
        if self._write_paused and not self._closing:
            left = self._transport.get_write_buffer_size()
            if left < self._write_left:  # slow, but reading
                self._write_left = left
                self._deadline.set(self._limits.write)
                return
            self._transport.abort()
        elif self._closing:
            self._transport.abort()
        elif self._current is not None:
            self._current.came.late(self._deadline, self._limits.idle)
        elif self._reader.in_head:
            self._refuse_rest(RequestTimeout())
            self._advance()
        else:
            self._closing = True
            self._transport.close()

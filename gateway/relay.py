"""An answer on its way from a backend to the caller: passed on as it comes, looked at in passing.

Knows: what of an answer crosses, when its tokens are counted, when it is whole, how it is cut.
Must not know: sockets, HTTP/1.1, who is allowed what.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway import dialects
from gateway.answers import usage
from gateway.call import AnswerHead, Dialect, Outcome
from gateway.errors import Refusal, Truncated, UpstreamBusy
from gateway.exchange import Reply
from gateway.headers import AnswerCrossing
from gateway.pools.backends import Backend
from gateway.pools.ejection import FAILING_STATUS
from gateway.seams import UsageKind

_Watching = tuple[bool, Callable[[], usage.UsageReader] | None]


class Relay:
    """Implements `seams.Answer` for one call, over all its attempts."""

    __slots__ = (
        "_another",
        "_backend",
        "_crossing",
        "_kind",
        "_last",
        "_outcome",
        "_reply",
        "_streamed",
        "feeds_from",
        "usage",
    )

    def __init__(
        self,
        reply: Reply,
        outcome: Outcome,
        kind: UsageKind,
        crossing: AnswerCrossing,
        another: Callable[[], bool],
    ) -> None:
        """`another`: whether one more backend may be tried in place of a 502, 503 or 504."""
        self._reply = reply
        self._outcome = outcome
        self._kind = kind
        self._crossing = crossing
        self._another = another
        self._backend: Backend | None = None
        self._streamed = False
        self._last = 0.0
        self.feeds_from = reply.feeds_from
        self.usage: usage.UsageReader | None = None

    def attempt(self, backend: Backend) -> None:
        """The next answer comes from `backend`."""
        self._backend = backend

    def head(self, head: AnswerHead) -> None:
        outcome, status = self._outcome, head.status
        if status in FAILING_STATUS:
            self._rest(head)
            if self._another():
                raise UpstreamBusy(detail=f"answered {status}")
        outcome.status = status
        outcome.first_byte = self._last = time.monotonic()
        if status == 200:
            self._streamed, make = self._watching(head)
            self.usage = make() if make is not None else None
        self._reply.start(status, self._crossing.outbound(head), head.length)

    def whole(self, head: AnswerHead, content: bytes) -> None:
        outcome = self._outcome
        watching = self._watching(head)
        if head.status != 200 or watching[0]:
            self.head(head)
            self.data(content)
            self.end(delimited=True)
            return
        outcome.status = 200
        outcome.first_byte = time.monotonic()
        outcome.sent = len(content)
        if watching[1] is not None and self._kind is not UsageKind.NONE:
            outcome.counts_tokens = True
            outcome.tokens_in, outcome.tokens_out = usage.counts_of(content)
        self._reply.whole(200, self._crossing.outbound(head), content)

    def _watching(self, head: AnswerHead) -> _Watching:
        """Whether the answer is an event stream, and who watches it; the same for all answers with this head."""
        noted: _Watching | None = head.derived.get(self._kind)
        if noted is None:
            content_type = head.value(b"content-type")
            noted = (
                usage.is_event_stream(content_type),
                usage.reader_for(self._kind, content_type, head.value(b"content-encoding")),
            )
            head.note(self._kind, noted)
        return noted

    def piece(self, piece: bytes) -> None:
        outcome = self._outcome
        outcome.sent += len(piece)
        if self.usage is not None:
            self.usage.feed(piece)
        self._reply.piece(piece)
        if self._streamed and outcome.series is not None:
            now = time.monotonic()
            outcome.series.gaps.observe(now - self._last)
            self._last = now

    def data(self, piece: bytes) -> None:
        self._outcome.sent += len(piece)
        if self.usage is not None:
            self.usage.feed(piece)
        self._reply.send(piece)

    def flush(self) -> None:
        self._reply.flush()
        if self._streamed and self._outcome.series is not None:
            now = time.monotonic()
            self._outcome.series.gaps.observe(now - self._last)
            self._last = now

    def end(self, *, delimited: bool) -> None:
        if not delimited and self._streamed and (self.usage is None or not self.usage.complete):
            raise Truncated(detail="the connection ended before the stream's last event")
        self._reply.end()

    def cut(self, refusal: Refusal, dialect: Dialect) -> None:
        """The answer had begun and breaks off: an error event where an event may stand, and never a proper end."""
        if self._streamed and self.usage is not None and self.usage.at_edge:
            event = dialects.error_event(refusal, dialect)
            if event is not None:
                self._reply.last_words(event)
                return
        self._reply.fail(refusal, dialect)

    def settle(self) -> None:
        """What was counted in passing, into the outcome."""
        outcome, reader = self._outcome, self.usage
        if reader is not None and self._kind is not UsageKind.NONE:
            outcome.counts_tokens = True
            outcome.tokens_in, outcome.tokens_out = reader.counts()

    def _rest(self, head: AnswerHead) -> None:
        """RFC 9110 §10.2.3: a backend that says when to come back is left alone until then."""
        value = head.value(b"retry-after")
        if value.isdigit() and self._backend is not None:
            now = time.monotonic()
            seconds = int(value) if len(value) <= 4 else 3600  # Python makes no number of some thousand digits
            self._backend.rest_until(now + min(seconds, 3600), now)

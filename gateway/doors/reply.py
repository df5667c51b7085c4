"""The answer to one request, written as HTTP/1.1.

Knows: RFC 9112 framing, persistence, how an answer is cut so that it cannot look complete.
Must not know: where the answer comes from.
"""

from __future__ import annotations

from typing import Protocol

from gateway import dialects
from gateway.call import Dialect, FieldBlock, Fields
from gateway.errors import Refusal
from gateway.exchange import Flow
from gateway.http1 import heads
from gateway.http1.requests import RequestHead


class Line(Protocol):
    """The connection that carries the answer."""

    @property
    def leaving(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    def write_last(self, data: bytes) -> None:
        """Write the end of an answer that another request may follow."""
        ...

    def answered(self, *, persist: bool) -> None: ...
    def cut(self, *, abruptly: bool) -> None: ...
    def now_feeds_from(self, flow: Flow | None) -> None: ...


class HttpReply:
    """Implements `exchange.Reply`, for a request with `head`. `persist`: the connection may carry another request."""

    started = False
    ended = False
    _chunked = False
    mark = b""
    _told = b""
    _left = -1

    def __init__(self, line: Line, request_id: str, head: RequestHead) -> None:
        self._line = line
        self._request_id = request_id
        self._head = head
        self._out: list[bytes] = []
        self.persist = head.keep_alive
        self.feeds_from = line.now_feeds_from

    def last(self) -> None:
        """The connection carries no request after this one."""
        self.persist = False

    def tell(self, fields: Fields) -> None:
        """Further fields for the answer, whatever it will be."""
        self._told = b"".join([b"%b: %b\r\n" % field for field in fields])

    def start(self, status: int, fields: FieldBlock, length: int | None) -> None:
        """Begin; nothing is written yet."""
        self.started = True
        if self._line.leaving:
            self.persist = False
        bodiless = self._head.head_only or status in (204, 304)
        framing = b""
        if length is not None and status != 204:
            framing = b"content-length: %d\r\n" % length
        elif not bodiless:
            if self._head.http_1_0:
                self.persist = False
            else:
                self._chunked = True
                framing = b"transfer-encoding: chunked\r\n"
        self._left = 0 if bodiless else -1 if length is None else length
        if not self.persist:
            framing += b"connection: close\r\n"
        elif self._head.http_1_0:
            framing += b"connection: keep-alive\r\n"
        name = self._request_id.encode()
        decision = b"X-Decision-Id: %b%b\r\n" % (self.mark, name) if self.mark else b""
        self._out.append(
            b"%b%b%b%b%bx-request-id: %b\r\n\r\n"
            % (heads.status_line(status), heads.block(fields), framing, self._told, decision, name)
        )

    def whole(self, status: int, fields: FieldBlock, content: bytes) -> None:
        """A whole answer, in one write."""
        line = self._line
        head = self._head
        if head.head_only or head.http_1_0 or not (self.persist and self.mark) or line.leaving or status in (204, 304):
            self.start(status, fields, len(content))
            self.send(content)
            self.end()
            return
        self.started = self.ended = True
        name = self._request_id.encode()
        line.write_last(
            b"%b%bcontent-length: %d\r\n%bX-Decision-Id: %b%b\r\nx-request-id: %b\r\n\r\n%b"
            % (
                heads.status_line(status),
                heads.block(fields),
                len(content),
                self._told,
                self.mark,
                name,
                name,
                content,
            )
        )

    def send(self, piece: bytes) -> None:
        """More of the body; an empty piece is nothing."""
        if not piece or self._left == 0:
            return
        if self._chunked:
            piece = heads.chunk(piece)
        elif self._left > 0:
            self._left -= len(piece)
        self._out.append(piece)

    def piece(self, piece: bytes) -> None:
        """More of the body, written at once."""
        if self._chunked and not self._out:
            self._line.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            self.send(piece)
            self.flush()

    def flush(self) -> None:
        """Hand what was given so far to the connection, in one write."""
        if out := self._out:
            self._line.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()

    def end(self) -> None:
        """The answer is complete."""
        if self._left > 0:
            self._cut()
            return
        if self._chunked:
            self._out.append(heads.LAST_CHUNK)
        self.flush()
        self.ended = True
        self._line.answered(persist=self.persist)

    def fail(self, refusal: Refusal, dialect: Dialect) -> None:
        """Refuse, or cut an answer that had begun."""
        if self.ended:
            return
        if self.started:
            self._cut()
            return
        content_type, body = dialects.render(refusal, dialect)
        fields = [(b"content-type", content_type), (b"cache-control", b"no-store"), *refusal.headers]
        if refusal.retry_after is not None:
            fields.append((b"retry-after", b"%d" % refusal.retry_after))
        self.start(refusal.status, FieldBlock(tuple(fields)), len(body))
        self.send(body)
        self.end()

    def last_words(self, piece: bytes) -> None:
        """An error event, then the cut: no last chunk, so that who overlooks the event still sees a broken answer."""
        if not self._chunked:
            self._cut()
            return
        self.send(piece)
        self.flush()
        self.ended = True
        self._line.answered(persist=False)

    def _cut(self) -> None:
        """Where only the end of the connection ends the answer, the end must not be an orderly one."""
        self.flush()
        self.ended = True
        self._line.cut(abruptly=not self._chunked and self._left < 0)

"""Read answers from bytes, whatever the borders of the pieces.

Knows: RFC 9112 §6.3 (how long an answer is), interim answers, what may follow an answer.
Must not know: sockets, who asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import httptools

from gateway.call import AnswerHead, Fields
from gateway.errors import Refusal, UpstreamNonsense

# A backend may send 100 and 103 before its answer; more than this is nonsense.
_INTERIM_LIMIT = 8


class AnswerSink(Protocol):
    """Who is told, in this order: head, data (any number of times), end."""

    def on_answer(self, head: AnswerHead) -> None: ...
    def on_answer_data(self, piece: bytes) -> None: ...


_LENGTH = re.compile(rb"\r\ncontent-length:[ ]?([0-9]{1,15})\r\n", re.IGNORECASE)

# A chunk's size and its line end, up to 16 MiB.
_HEX = re.compile(rb"[0-9A-Fa-f]{1,6}")
_SIZE_DIGITS = 8
# Sizes as most servers write them; others are read.
_SIZES = {b"%x" % size: size for size in range(1, 1024)}

# As many as 2**64 has. More are leading zeros, and beyond some thousand of them Python makes no number of it.
_MOST_DIGITS = 20

# Heads longer than this are parsed each time.
_KNOWN_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The head of an answer as it came, before and behind the digits of its length: a backend's next answer often has
    the very same, and equal bytes have an equal meaning."""

    before: bytes
    after: bytes
    head: AnswerHead

    def read(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """Head and content, if `data` is exactly one whole answer with this head and any length."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        end = data.find(b"\r", start, start + 16)
        digits = data[start:end]
        if not digits.isdigit() or not data.startswith(self.after, end):
            return None
        content, head, length = data[end + len(self.after) :], self.head, int(digits)
        if len(content) != length:
            return None
        return (head if length == head.length else AnswerHead(head.status, head.fields, length, head.derived)), content


def known(data: bytes, reader: AnswerReader) -> KnownAnswer | None:
    """What to compare the next answer with, from `data` that held one whole answer and was read by `reader`."""
    end = data.find(b"\r\n\r\n") + 4
    head = reader.head
    if (
        head is None
        or not (reader.complete and reader.reusable)
        or reader.extra
        or reader.interim
        or not 4 < end <= _KNOWN_LIMIT
    ):
        return None
    raw = data[:end]
    found = _LENGTH.search(raw)
    if found is None or head.length != len(data) - end or head.status in (204, 304):
        return None
    return KnownAnswer(raw[: found.start(1)], raw[found.end(1) :], head)


class AnswerReader:
    """Reads one answer. `complete` is True after its last byte, `extra` when bytes came behind it.

    `delimited` is False when only the end of the connection says where the answer ends; tell it by `eof`.
    """

    __deletable__ = ("_parser", "_sink")  # compiled, an attribute can be deleted only where this says so
    __slots__ = (
        "_before_chunk", "_chunk_ended", "_fields", "_final", "_head_only", "_limit", "_parser", "_sink", "_size",
        "complete", "delimited", "extra", "head", "interim", "reusable", "started",
    )  # fmt: skip

    def __init__(self, sink: AnswerSink, *, head_only: bool, limit: int) -> None:
        """`head_only`: the answer to HEAD, which has no body whatever it announces. `limit`: bytes of its header."""
        self._sink = sink
        self._head_only = head_only
        self._limit = limit
        self._parser = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._size = 0
        self.interim = 0
        self._final = False
        self.head: AnswerHead | None = None
        self.started = False
        self.complete = False
        self._chunk_ended = self._before_chunk = False
        self.delimited = True
        self.extra = False
        self.reusable = False

    def whole_chunk(self, data: bytes) -> bytes | None:
        """The content, if `data` is exactly one plain chunk of a chunked answer: the usual form of a streamed event.

        The parser stands before a chunk and does not see it; it stands before the next one afterwards.
        """
        if not self._before_chunk:
            return None
        end = data.find(b"\r\n", 0, _SIZE_DIGITS)
        if end <= 0 or not data.endswith(b"\r\n"):
            return None
        digits = data[:end]
        size = _SIZES.get(digits, 0) or (int(digits, 16) if _HEX.fullmatch(digits) else 0)
        return data[end + 2 : -2] if size and len(data) == end + size + 4 else None

    def close(self) -> None:
        """Nothing more comes. Until then the sink, this and the parser hold each other."""
        del self._parser, self._sink

    def feed(self, data: bytes) -> None:
        """Take bytes. Raises `UpstreamNonsense` for what is no answer; a refusal of the sink comes out as it is."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, Refusal):
                raise error.__context__ from None
            raise
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.complete:  # what follows a complete answer is not this answer's fault; the connection is not kept
                self.extra = True
                return
            raise UpstreamNonsense(detail=f"not an HTTP answer: {error}") from None
        # A line that is complete would have been the head of the next chunk, and told.
        self._before_chunk = self._chunk_ended and data.endswith(b"\r\n")
        if not self.started and self._size > self._limit:
            raise UpstreamNonsense(detail="answer header too large")

    def eof(self) -> bool:
        """The connection ended cleanly: True if that completes the answer."""
        if self._final and not self.delimited:
            self.complete = True
        return self.complete

    # -- httptools calls these

    def on_message_begin(self) -> None:
        if self._final:
            self.extra = True
            return
        self._fields = []
        self._size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._size += len(name) + len(value) + 4
        if self._size > self._limit:
            raise UpstreamNonsense(detail="answer header or trailers too large")
        if not self._final:
            self._fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._final:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self.interim += 1
            if status < 100 or status == 101 or self.interim > _INTERIM_LIMIT:
                raise UpstreamNonsense(detail=f"unexpected {status}")
            # The parser would read a body, and others the next head there (RFC 9110 §15.2: it ends with its head).
            if any(
                name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
                for name, value in self._fields
            ):
                raise UpstreamNonsense(detail=f"a {status} with a body")
            return
        if status > 599:
            raise UpstreamNonsense(detail=f"unexpected status {status}")
        if self._parser.get_http_version() not in ("1.1", "1.0"):
            raise UpstreamNonsense(detail="not HTTP/1.1")
        fields = tuple(self._fields)
        length = self._length(status, fields)
        self._final = self.started = True
        self.reusable = self.delimited and self._parser.should_keep_alive()
        self.head = head = AnswerHead(status, fields, length)
        self._sink.on_answer(head)
        if self._head_only:
            self.complete = True

    def on_body(self, piece: bytes) -> None:
        if self.complete:
            self.extra = True
        elif self._final:
            self._sink.on_answer_data(piece)

    def on_chunk_header(self) -> None:
        self._chunk_ended = False

    def on_chunk_complete(self) -> None:
        self._chunk_ended = True

    def on_message_complete(self) -> None:
        self._chunk_ended = False
        if self._final:
            self.complete = True

    def _length(self, status: int, fields: Fields) -> int | None:
        """RFC 9112 §6.3. For HEAD and 304 it is what is announced, though no body follows."""
        length: int | None = None
        codings: list[bytes] = []
        for name, value in fields:
            if name == b"content-length":
                if not value.isdigit() or len(value) > _MOST_DIGITS:
                    raise UpstreamNonsense(detail="bad Content-Length")
                length = int(value)
            elif name == b"transfer-encoding":
                codings.append(value.lower())
        if codings:
            if codings != [b"chunked"] or self._parser.get_http_version() == "1.0":
                raise UpstreamNonsense(detail="transfer coding other than chunked")
            return None
        if length is None and status not in (204, 304) and not self._head_only:
            self.delimited = False
        return length

"""Read requests from bytes, whatever the borders of the pieces.

A caller's next request often has the very same head, but for the number behind Content-Length. Such a head is
recognised by comparing bytes (`_Known`) and not parsed again: equal bytes have an equal meaning.
Knows: RFC 9112, its limits, and what llhttp accepts that must be refused.
Must not know: sockets, callers, models.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import httptools

from gateway.call import Fields
from gateway.errors import BadRequest, ExpectationFailed, HeaderTooLarge, MethodNotAllowed, Misdirected, Refusal

ALLOWED = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_METHODS = frozenset(ALLOWED.decode().split(", "))

# RFC 3986 §3.2.2 host and port; no userinfo.
_AUTHORITY = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")

_LENGTH = re.compile(rb"\r\ncontent-length:[ ]?([0-9]{1,15})\r\n", re.IGNORECASE)

# Heads longer than this are parsed each time; a token takes one or two KiB.
_KNOWN_LIMIT = 8192

# As many as 2**64 has. More are leading zeros, and beyond some thousand of them Python makes no number of it.
_MOST_DIGITS = 20

# Bytes in which only few requests fit; bytes read at once at most; ends of heads (or what looks like one) among them.
_FEW_FIT = 2 * 1024
_MOST_AT_ONCE = 16 * 1024
_HEADS_AT_ONCE = 8

# Bytes of chunk sizes, extensions and trailers allowed beside the data: one header's worth, and 16 per byte of data,
# which is room for one-byte chunks but not for an extension without end.
_CHUNK_COST = 16


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request's head, checked. `target` is origin-form (or `*`). `length`: bytes, or None for chunked."""

    method: str
    target: str
    fields: Fields
    length: int | None
    expects_continue: bool
    keep_alive: bool
    http_1_0: bool

    @property
    def head_only(self) -> bool:
        """The answer has no body, whatever it announces."""
        return self.method == "HEAD"


#: What is answered to when nobody knows what was asked.
UNREADABLE = RequestHead("", "", (), 0, expects_continue=False, keep_alive=False, http_1_0=False)


class RequestSink(Protocol):
    """Who is told, for each request: head, data (any number of times), end; or all of it at once."""

    def on_request(self, head: RequestHead) -> None: ...
    def on_request_data(self, piece: bytes) -> None: ...
    def on_request_end(self) -> None: ...
    def on_request_again(self, head: RequestHead, content: bytes) -> None:
        """A whole request whose head is that of the one before, but for its length. `head.length` may be another."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """A head as it came: what stands before and behind the digits of its Content-Length (all of it before, if none)."""

    before: bytes
    after: bytes
    sized: bool
    head: RequestHead


class RequestReader:
    """Feed it what arrives. `begun` is True while a request is incomplete, `in_head` while its head is.

    A refusal raised here ends the connection: where the next request begins is unknown.
    """

    __deletable__ = ("_parser", "_sink")  # compiled, an attribute can be deleted only where this says so
    __slots__ = (
        "_body", "_chunked", "_fed", "_fields", "_first", "_known", "_limit", "_parser", "_sink", "_size", "_target",
        "begun", "broken", "in_head",
    )  # fmt: skip

    def __init__(self, sink: RequestSink, limit: int) -> None:
        """`limit`: bytes of request line and header fields together."""
        self._sink = sink
        self._limit = limit
        self._parser = httptools.HttpRequestParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._target = b""
        self._size = 0
        self._body = 0
        self._fed = 0
        self.begun = False
        self.in_head = False
        self._chunked = False
        self._known: _Known | None = None
        self._first: RequestHead | None = None
        self.broken = False

    def feed(self, data: bytes) -> None:
        """Take bytes. Raises a `Refusal` for what is no acceptable request; nothing may be fed after that."""
        if self.begun:
            self._parse(data)
            return
        while data and (known := self._known) is not None:
            taken = self._take_known(known, data)
            if not taken:
                break
            if taken == len(data):
                return
            data = data[taken:]
        self._first = None
        self._parse(data)
        self._remember(data)

    def _remember(self, data: bytes) -> None:
        """What `data` began with may come again."""
        if self._first is not None and not self.broken:
            self._known = _known(data, self._first)

    def close(self) -> None:
        """Nothing more comes. Until then the sink, this and the parser hold each other."""
        del self._parser, self._sink

    def _take_known(self, known: _Known, data: bytes) -> int:
        """How many bytes were a whole request with the known head; 0 if they are anything else."""
        if not data.startswith(known.before):
            return 0
        start, head = len(known.before), known.head
        length = 0
        if known.sized:
            end = data.find(b"\r", start, start + 16)
            digits = data[start:end]
            if not digits.isdigit() or not data.startswith(known.after, end):
                return 0
            start, length = end + len(known.after), int(digits)
        end = start + length
        if len(data) < end:
            return 0
        self._sink.on_request_again(head, data[start:end])
        return end

    def _parse(self, data: bytes) -> None:
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # RFC 9110 §7.8: an upgrade may be ignored; what follows on this connection is not read.
            self.broken = True
        except httptools.HttpParserInvalidMethodError as error:
            self.broken = True
            raise _method_refused(str(error)) from None
        except httptools.HttpParserCallbackError as error:
            self.broken = True
            if isinstance(error.__context__, Refusal):
                raise error.__context__ from None
            raise
        except httptools.HttpParserError as error:
            self.broken = True
            raise BadRequest(f"The request is not valid HTTP/1.1: {error}.") from None
        self._check_size()

    def _check_size(self) -> None:
        if self.begun and not self.in_head:
            if self._chunked and self._fed > self._limit + self._size + self._body * (1 + _CHUNK_COST):
                self.broken = True
                raise BadRequest("The chunked body is mostly framing.")
        elif self._fed > self._limit + 2:
            self.broken = True
            raise HeaderTooLarge(f"The request header is larger than {self._limit} bytes.")

    # -- httptools calls these

    def on_message_begin(self) -> None:
        self._known = None
        self._fields = []
        self._target = b""
        self._size = self._body = 0
        self.begun = self.in_head = True
        self._chunked = False

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._grow(len(name) + len(value) + 4)
        if self.in_head:  # after the head it is a trailer, which never becomes a field (RFC 9110 §6.5.1)
            self._fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        head = _checked_head(
            self._parser.get_method().decode("ascii"),
            self._target,
            self._parser.get_http_version(),
            tuple(self._fields),
        )
        if head.length != 0 and self._parser.should_upgrade():
            # llhttp takes such a body for another protocol's bytes; RFC 9110 §7.8 lets a server ignore the upgrade, but
            # only one that still reads the body.
            raise BadRequest("A request with a body cannot ask for an upgrade here; leave out 'Upgrade'.")
        self.in_head = False
        self._chunked = head.length is None
        if self._first is None:  # the head that `data` begins with, whatever else is in it
            self._first = head
        self._sink.on_request(head)

    def on_body(self, piece: bytes) -> None:
        self._body += len(piece)
        self._sink.on_request_data(piece)

    def on_message_complete(self) -> None:
        self._fed = 0
        self.begun = self.in_head = False
        self._sink.on_request_end()

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise HeaderTooLarge(f"The request header is larger than {self._limit} bytes.")


def crowded(data: bytes) -> bool:
    """Whether more requests may begin in `data` than should be read at once. Each that waits takes about 3 KiB."""
    return len(data) > _FEW_FIT and (len(data) > _MOST_AT_ONCE or data.count(b"\r\n\r\n") > _HEADS_AT_ONCE)


def portion(data: bytes, start: int, missing: int | None) -> int:
    """How many bytes of `data` to read at once from `start` on, so that not many requests begin in them.

    `missing`: bytes of the body under way, 0 without one, None where it is chunked.
    """
    if missing:
        return missing
    return _MOST_AT_ONCE if missing is None and not crowded(data[start : start + _MOST_AT_ONCE]) else _FEW_FIT


def _known(data: bytes, head: RequestHead) -> _Known | None:
    """What to compare the next request with; None where more than the head decides how it is read."""
    end = data.find(b"\r\n\r\n") + 4
    if (
        head.length is None
        or head.expects_continue
        or not head.keep_alive
        or not 4 < end <= _KNOWN_LIMIT
        or data[:1] <= b" "
    ):
        return None
    raw = data[:end]
    found = _LENGTH.search(raw)
    if found is None:
        return _Known(raw, b"", False, head) if head.length == 0 else None
    return _Known(raw[: found.start(1)], raw[found.end(1) :], True, head)


def _method_refused(detail: str) -> MethodNotAllowed:
    return MethodNotAllowed(
        f"This method is not taken here; these are: {ALLOWED.decode()}.", detail=detail, headers=((b"allow", ALLOWED),)
    )


def _line_refused(method: str, version: str) -> Refusal:
    """Why a request line is not taken: its version first, then its method."""
    if version not in ("1.1", "1.0"):
        return BadRequest("Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    return _method_refused(method)


def _checked_head(method: str, target: bytes, version: str, fields: Fields) -> RequestHead:
    if version not in ("1.1", "1.0") or method not in _METHODS:
        raise _line_refused(method, version)
    old = version == "1.0"
    host = expect = connection = length = coding = None
    for name, value in fields:
        if name == b"host":
            if host is not None:
                raise BadRequest("The Host field must stand once.")
            host = value
        elif name == b"content-length":
            length = value
        elif name == b"transfer-encoding":
            coding = value if coding is None else b","
        elif name == b"connection":
            connection = value.lower() if connection is None else connection + b"," + value.lower()
        elif name == b"expect":
            expect = value.lower() if expect is None else b","
        elif not name:
            raise BadRequest("A header field has no name.")
    _check_host(host, old=old)
    return RequestHead(
        method,
        _origin_form(target, host or b""),
        fields,
        _body_length(length, coding, old=old),
        _continues(expect, old=old),
        _keeps_alive(connection, old=old),
        old,
    )


def _check_host(host: bytes | None, *, old: bool) -> None:
    """RFC 9112 §3.2: exactly one Host in HTTP/1.1, and one that is a host."""
    if host is None:
        if not old:
            raise BadRequest("The Host field is missing.")
    elif host and not _AUTHORITY.fullmatch(host):
        raise BadRequest("The Host field does not name a host.")


def _body_length(length: bytes | None, coding: bytes | None, *, old: bool) -> int | None:
    """RFC 9112 §6.3. llhttp has refused both together and repeated or odd lengths already."""
    if coding is not None:
        if old or coding.lower() != b"chunked" or length is not None:
            raise BadRequest("The only transfer coding taken is 'chunked', in HTTP/1.1, without Content-Length.")
        return None
    if length is None:
        return 0
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        raise BadRequest("Content-Length is not a number.")
    return int(length)


def _continues(expect: bytes | None, *, old: bool) -> bool:
    """RFC 9110 §10.1.1: an HTTP/1.0 expectation is ignored, an unknown one fails."""
    if expect is None or old:
        return False
    if expect != b"100-continue":
        raise ExpectationFailed
    return True


def _keeps_alive(connection: bytes | None, *, old: bool) -> bool:
    """RFC 9112 §9.3."""
    options = {option.strip() for option in connection.split(b",")} if connection else set()
    if old:
        return b"keep-alive" in options and b"close" not in options
    return b"close" not in options


def _origin_form(target: bytes, host: bytes) -> str:
    """RFC 9112 §3.2: origin-form as it is; absolute-form only when it names the host that `Host` names."""
    text = target.decode("latin-1")
    if text.startswith("/"):
        return text
    if not text.lower().startswith(("http://", "https://")):
        raise BadRequest("The request target must be a path.")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise BadRequest("The request target is not a valid URL.") from None
    authority = parts.netloc.encode("latin-1")
    if not _AUTHORITY.fullmatch(authority):
        raise BadRequest("The request target names no host.")
    if authority.lower() != host.lower():
        raise Misdirected
    rest = text[text.index("//") + 2 + len(parts.netloc) :]
    return rest if rest.startswith("/") else "/" + rest

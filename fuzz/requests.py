"""The request codec: one reading wherever the stream is cut, and the same one as three other parsers.

An input is one byte, the seed of the cuts, and then the stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import urlsplit

from fuzz.material import Untold, bytewise, cut
from fuzz.references.messages import REQUESTS, Fields, Reading, Refused
from gateway.errors import Refusal
from gateway.http1.requests import RequestHead, RequestReader

LIMIT = 1 << 16  # bytes; above every input, because what is over a limit hangs on the pieces

#: A trailer that says so closes the connection behind its request; the head alone would have kept it.
CLOSED = "Data after `Connection: close`"

# A request line but for what stands before it and the number of spaces in it.
_LINE = r"%s['\"](\\r|\\n)*([A-Z]+ +[^ ]+ +HTTP/1\.[01])?['\"]"

#: What we take and a reference does not, by its words; everything else that one of them refuses, we refuse.
WE_TAKE: tuple[tuple[str, str, str], ...] = (
    ("h11", "^no request line received$", "an empty line before a request is passed over (RFC 9112 section 2.2)"),
    ("h11", _LINE % r"^illegal request line: bytearray\(b", "llhttp takes CR and LF one by one there, and more spaces"),
    ("aiohttp", _LINE % "Bad status line ", "than one (section 3); none of it goes to a backend"),
    ("h11", r"^illegal chunk header: bytearray\(b['\"]0{10,}[0-9A-Fa-f]+[;\\]", "leading zeros, in a bounded number"),
    ("aiohttp", r"Bad HTTP method in status line ['\"](\\r|\\n)", "the same"),
    (
        "aiohttp",
        "Duplicate '",
        "in a head only fields that say where a request ends matter (held below); trailers are dropped",
    ),
    ("aiohttp-c", "Duplicate '", "the same, and it counts fields of the head and trailers together"),
)

#: Fields of which one head has one at most.
SINGLE = (b"host", b"content-length", b"transfer-encoding")

#: What we refuse and all references take, by our words.
WE_REFUSE: tuple[tuple[str, str], ...] = (
    ("Only HTTP/1.1 and HTTP/1.0 are spoken here", "nobody knows what another version means"),
    ("The Host field does not name a host", "another host than the one meant could be read in it"),
    ("^Misdirected", "an absolute target names another host than Host does"),
    ("^MethodNotAllowed", "no interface of a backend has a call by it"),
    ("^ExpectationFailed", "RFC 9110 section 10.1.1 wants an unknown expectation to fail"),
    ("The request target must be a path", "only http and https are served"),
    ("The request target names no host", "the host of an absolute target has to be one"),
    ("cannot ask for an upgrade", "llhttp takes such a body for another protocol's bytes"),
    ("The only transfer coding taken", "a coding in HTTP/1.0 is no framing to some (RFC 9112 section 6.1)"),
    (CLOSED, "a trailer of the request before said that it is the last"),
)


@dataclass
class Told:
    """What a reader told of a stream, and how it ended. `borders`: how many bytes had been fed at each end."""

    heads: list[RequestHead] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    ended: int = 0
    refusal: str = ""
    borders: list[int] = field(default_factory=list, compare=False)
    fed: int = field(default=0, compare=False)

    def on_request(self, head: RequestHead) -> None:
        self.heads.append(head)
        self.bodies.append(b"")

    def on_request_data(self, piece: bytes) -> None:
        self.bodies[-1] += piece

    def on_request_end(self) -> None:
        self.ended += 1
        self.borders.append(self.fed)

    def on_request_again(self, head: RequestHead, content: bytes) -> None:
        self.on_request(_with_length(head, len(content)))
        self.on_request_data(content)
        self.on_request_end()


def _with_length(head: RequestHead, length: int) -> RequestHead:
    """A head that came again, with the length it has this time."""
    fields = tuple((n, b"%d" % length if n == b"content-length" else v) for n, v in head.fields)
    return RequestHead(
        head.method, head.target, fields, length, head.expects_continue, head.keep_alive, head.http_1_0
    )  # fmt: skip


def read(pieces: list[bytes]) -> Told:
    """The stream in these pieces. Only a refusal that is the caller's fault may come out of the reader."""
    told = Told()
    reader = RequestReader(told, LIMIT)
    for piece in pieces:
        told.fed += len(piece)
        try:
            reader.feed(piece)
        except Refusal as refusal:
            assert 400 <= refusal.status < 500, refusal
            told.refusal = f"{type(refusal).__name__}: {refusal}"
            break
        if reader.broken:  # an upgrade that was ignored: nothing behind it is read
            break
    return told


def check(data: bytes) -> None:
    """Raises `AssertionError` for a difference that is not allowed."""
    stream = data[1:]
    told = read(bytewise(stream))
    whole = [stream[start:end] for start, end in pairwise((0, *told.borders, len(stream)))]
    for pieces in ([stream], cut(stream, data[0] if data else 0), whole):
        assert read(pieces) == told, pieces
    for number, message in enumerate(whole[: told.ended]):
        if told.heads[number].keep_alive:
            _check_again(message)
            _check_near(message, data[0])
        _check_read(message, told.heads[number], told.bodies[number])
        if not told.heads[number].keep_alive:
            return
    if told.refusal:
        _check_refused(whole[-1], told.refusal)
    elif told.ended < len(told.heads):
        _check_waiting(whole[-1])


def _check_again(message: bytes) -> None:
    """A message that comes three times is read three times alike, whether or not its head is recognised."""
    alone = read([message])
    if len(alone.heads) != 1 or alone.ended != 1 or alone.refusal:
        return
    for pieces in ([message] * 3, [message * 3], [message, message * 2]):
        again = read(pieces)
        if CLOSED in again.refusal or again.ended == 1:  # an upgrade, or a trailer that says close, was the last
            assert (again.heads, again.bodies, again.ended) == (alone.heads, alone.bodies, alone.ended)
            return
        assert [_plain(head) for head in again.heads] == [_plain(alone.heads[0])] * 3
        assert again.bodies == alone.bodies * 3


def _check_near(message: bytes, seed: int) -> None:
    """A message that differs in one byte from the one before is not taken for the same."""
    for number in range(1, 4):
        at = (seed * 37 + number * 61) % len(message)
        other = message[:at] + bytes([message[at] ^ number]) + message[at + 1 :]
        near, parsed = read([message, other]), read(bytewise(message + other))
        assert [_plain(head) for head in near.heads] == [_plain(head) for head in parsed.heads]
        assert (near.bodies, near.ended, near.refusal) == (parsed.bodies, parsed.ended, parsed.refusal)


def _plain(head: RequestHead) -> RequestHead:
    """Its Content-Length spelled without leading zeros."""
    return head if head.length is None else _with_length(head, head.length)


def _check_read(message: bytes, head: RequestHead, body: bytes) -> None:
    """Every reference that takes this message too reads the same in it."""
    names = [name for name, _ in head.fields]
    assert all(names.count(name) <= 1 for name in SINGLE)
    ours = Reading((head.method.encode(), head.target.encode("latin-1")), _told(list(head.fields)), body)
    for name, parse in REQUESTS.items():
        try:
            theirs = parse(message)
        except Refused as refused:
            if not any(name == who and re.search(words, str(refused)) for who, words, _ in WE_TAKE):
                raise Untold(f"{name} refuses what we take: {refused}") from refused
            continue
        method, target = theirs.start
        assert Reading((method, _origin_form(target)), _told(theirs.fields), theirs.body) == ours, name


def _told(fields: Fields) -> Fields:
    """h11 writes the transfer coding in lower case."""
    return [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in fields]


def _origin_form(target: bytes) -> bytes:
    """RFC 9112 section 3.2.2: what a server makes of the absolute form."""
    text = target.decode("latin-1")
    if text.startswith("/"):
        return target
    url = urlsplit(text)
    rest = text[len(url.scheme) + 3 + len(url.netloc) :]
    return (rest if rest.startswith("/") else "/" + rest).encode("latin-1")


def _check_waiting(rest: bytes) -> None:
    """Where we wait for more, nobody has a whole request already."""
    for name, parse in REQUESTS.items():
        try:
            parse(rest)
        except Refused:
            continue
        raise Untold(f"{name} has a whole request where we wait for more")


def _check_refused(rest: bytes, refusal: str) -> None:
    """What we refuse and everybody else takes is in the table: we refuse for a reason."""
    try:
        for parse in REQUESTS.values():
            parse(rest)
    except Refused:
        return
    if not any(re.search(words, refusal) for words, _ in WE_REFUSE):
        raise Untold(f"only we refuse this: {refusal}")

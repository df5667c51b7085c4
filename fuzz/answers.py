"""The answer codec: one reading wherever the stream is cut and whichever short cut is taken, and the same as h11's.

An input is one byte (the seed of the cuts; odd: the answer to HEAD; bit 1: the connection ends behind it), then the
stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fuzz.material import Untold, bytewise, cut
from fuzz.references.messages import Refused, answer_by_h11
from gateway.call import AnswerHead, Fields
from gateway.errors import UpstreamNonsense
from gateway.http1.answers import AnswerReader, known

LIMIT = 1 << 16  # bytes; above every input

#: What we take and h11 does not, by its words.
WE_TAKE: tuple[tuple[str, str], ...] = (
    (r"^illegal status line: bytearray\(b['\"](\\r|\\n)*HTTP/1.[01] [0-9]{3}[ \\\\]", "nobody reads the reason phrase"),
    ("Transfer-Encoding|Content-Length", "h11 looks at trailers, which are dropped; what a head may say is held below"),
    (r"^illegal chunk header: bytearray\(b['\"]0{10,}[0-9A-Fa-f]+[;\\]", "leading zeros, in a bounded number"),
    ("^no response line received$", "an empty line before an answer is passed over, as before a request"),
)

CHUNKED = (b"transfer-encoding", b"chunked")

_DIGITS = re.compile(rb"[0-9]{1,20}")


@dataclass
class Told:
    """What a reader told of a stream, and how it ended. `border`: how many bytes had been fed when it was complete."""

    head: tuple[int, Fields, int | None] | None = None
    body: bytes = b""
    refusal: str = ""
    state: tuple[bool, ...] = ()
    delimited: bool = True
    border: int | None = field(default=None, compare=False)

    def on_answer(self, head: AnswerHead) -> None:
        assert self.head is None, "a second head"
        self.head = (head.status, head.fields, head.length)

    def on_answer_data(self, piece: bytes) -> None:
        assert self.head is not None
        self.body += piece


def read(pieces: list[bytes], *, head_only: bool, closed: bool) -> tuple[Told, AnswerReader]:
    """The stream in these pieces; chunks that stand alone are taken the short way."""
    told = Told()
    reader = AnswerReader(told, head_only=head_only, limit=LIMIT)
    fed = 0
    for piece in pieces:
        content = None if reader.complete else reader.whole_chunk(piece)
        fed += len(piece)
        try:
            if content is not None:
                told.on_answer_data(content)
            else:
                reader.feed(piece)
        except UpstreamNonsense as refusal:
            told.refusal = str(refusal.detail)
            break
        if reader.complete and told.border is None:
            told.border = fed
    if closed and not told.refusal:
        reader.eof()
    told.state = (reader.complete, reader.started, reader.extra, reader.reusable)
    told.delimited = reader.delimited
    return told, reader


def check(data: bytes) -> None:
    """Raises `AssertionError` for a difference that is not allowed."""
    seed, stream = (data[0] if data else 0), data[1:]
    how = {"head_only": bool(seed & 1), "closed": bool(seed & 2)}
    told, reader = read(bytewise(stream), **how)
    assert reader.complete or not reader.extra
    for pieces in ([stream], cut(stream, seed), _at_chunks(stream)):
        assert read(pieces, **how)[0] == told, pieces
    if reader.complete and not told.refusal:
        message = stream if told.border is None else stream[: told.border]
        _check_read(message, told, seed)
        if not how["head_only"]:  # the wire notes nothing of an answer to HEAD
            _check_known(message, told)
    elif not told.refusal:
        _check_waiting(stream, **how)


def _at_chunks(stream: bytes) -> list[bytes]:
    """Cut where a plain chunk seems to end, so that some pieces are one whole chunk."""
    edges = [found.end() for found in re.finditer(rb"\r\n\r\n|\r\n(?=[0-9A-Fa-f]{1,6}\r\n)", stream)]
    return [stream[start:end] for start, end in zip([0, *edges], [*edges, len(stream)], strict=True) if start < end]


def _check_read(message: bytes, told: Told, seed: int) -> None:
    """h11, as the client, reads the same in what we take."""
    assert told.head is not None
    status, fields, _ = told.head
    framing = {field for field in _told(list(fields)) if field[0] in {b"transfer-encoding", b"content-length"}}
    assert len(framing) <= 1
    assert all(_DIGITS.fullmatch(value) or (name, value) == CHUNKED for name, value in framing)
    try:
        theirs = answer_by_h11(message, "HEAD" if seed & 1 else "POST", closed=not told.delimited)
    except Refused as refused:
        if not any(re.search(words, str(refused)) for words, _ in WE_TAKE):
            raise Untold(f"h11 refuses what we take: {refused}") from refused
        return
    assert theirs.start == (b"%d" % status,)
    assert _told(theirs.fields) == _told(list(fields))
    assert theirs.body == told.body


def _check_waiting(stream: bytes, *, head_only: bool, closed: bool) -> None:
    """Where we wait for more, h11 has no whole answer already."""
    try:
        answer_by_h11(stream, "HEAD" if head_only else "POST", closed=closed)
    except Refused:
        return
    raise Untold("h11 has a whole answer where we wait for more")


def _told(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """h11 writes the transfer coding in lower case."""
    return [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in fields]


def _check_known(message: bytes, told: Told) -> None:
    """What the recognised head says of an answer of any length is what parsing it says."""
    _, reader = read([message], head_only=False, closed=False)
    shortcut = known(message, reader)
    if shortcut is None:
        return
    for content in (told.body, b"", b"x" * 12, b"HTTP/1.1 500 No\r\n\r\n"):
        for digits in (b"%d" % len(content), b"00%d" % len(content)):
            again = shortcut.before + digits + shortcut.after + content
            parsed, _ = read([again], head_only=False, closed=False)
            found = shortcut.read(again)
            assert found is not None, again
            assert parsed.head is not None, again
            assert (found[0].status, found[0].length, found[1]) == (parsed.head[0], parsed.head[2], parsed.body)
            assert _sizeless(found[0].fields) == _sizeless(parsed.head[1])
            assert shortcut.read(again + b"x") is None
            assert not content or shortcut.read(again[:-1]) is None


def _sizeless(fields: Fields) -> list[tuple[bytes, bytes]]:
    """The length is told beside the fields."""
    return [field for field in fields if field[0] != b"content-length" or not _DIGITS.fullmatch(field[1])]

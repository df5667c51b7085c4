"""What the top level of a JSON body says, and writing a model name into it without touching another byte.

The parser checks the text and gives the values, but keeps the last of two equal keys. So the members of the top level
are counted as well, in an outline of the text: the brackets and colons that stand outside of strings. How deep each of
them stands is summed up from left to right; where nothing is open, each colon is a member.
Everything here passes over the body a fixed number of times, whatever it holds. The slowest 64 MiB that were found take
0.6 s, 0.4 s of it in the parser and 0.1 s for the levels: 900 000 long names in an object within the object.
Knows: RFC 8259, the parser (this file and the identity modules are its only importers on the way of a call).
Must not know: models, paths, which members matter to whom.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final, cast

import orjson

from gateway.errors import AmbiguousModel, BadRequest

#: Containers within each other below the top level; backends give up at about 200, some of them badly.
MAX_DEPTH = 128

#: Values in a body, so that a body of small values cannot fill the memory: some 64 bytes each while it is looked at.
MAX_VALUES = 2_000_000

#: Members of the top level; those of the largest known interface are a twentieth of it. Bounds what is done by name.
MAX_MEMBERS = 1000

_CROWD_POSSIBLE = 1024 * 1024  # bytes from which the values are counted; below, they cannot do harm

#: Bytes up to which counting all members is quicker than telling levels apart; most calls are plain messages.
_PLAIN_SIZE = 4096
_PLAIN_DEPTH = 8

MODEL = "model"
STREAM = "stream"


class Peeked:
    """`model` is None when absent. `stream` is False when absent or null. `fields`: the whole top level."""

    __slots__ = ("fields", "model", "stream")

    def __init__(self, model: str | None, stream: bool, fields: dict[str, object]) -> None:
        self.model: Final = model
        self.stream: Final = stream
        self.fields: Final = fields


def peek(body: bytes) -> Peeked:
    """Read a request body. Raises `AmbiguousModel` for a repeated model, else `BadRequest`."""
    fields = _object(body)
    if not _plain(body, fields):
        _require_unique(body, _cut(body), len(fields))
    model = fields.get(MODEL)
    if not (isinstance(model, str) and model) and MODEL in fields:
        raise BadRequest("'model' must be a string that is not empty.", param=MODEL)
    stream = fields.get(STREAM)
    if stream is not True and stream is not False and stream is not None:
        raise BadRequest("'stream' must be true or false.", param=STREAM)
    return Peeked(model, stream is True, fields)


def _plain(body: bytes, fields: dict[str, Any]) -> bool:
    """True for a small body that is plainly right; False says nothing.

    Each member has a colon of its own, so as many colons as members leave none for a member that is repeated; those in
    texts are left out where there are any.
    """
    if len(body) > _PLAIN_SIZE:
        return False
    members = _members(fields, _PLAIN_DEPTH)
    return body.count(b":") == members or b'"'.join(_cut(body)[::2]).count(b":") == members


def _members(fields: dict[str, Any], deeper: int) -> int:
    """Members of an object and of all objects in it; below zero where they are nested more than `deeper` deep."""
    if deeper < 0:
        return -_PLAIN_SIZE  # more than there can be elsewhere in the body
    count = len(fields)
    for value in fields.values():
        if isinstance(value, list):
            count += _members_within(value, deeper - 1)
        elif isinstance(value, dict):
            count += _members(value, deeper - 1)
    return count


def _members_within(values: list[Any], deeper: int) -> int:
    """The same for a list."""
    if deeper < 0:
        return -_PLAIN_SIZE
    count = 0
    for value in values:
        if isinstance(value, dict):
            count += _members(value, deeper - 1)
        elif isinstance(value, list):
            count += _members_within(value, deeper - 1)
    return count


def rewrite(body: bytes, model: str) -> bytes:
    """The body with this model name: put in place of the one it has, or first where it has none.

    `body` went through `peek`; every other byte stays.
    """
    text = json.dumps(model, ensure_ascii=False).encode()
    more = b""
    for name, _, end in members(body):
        if name == MODEL:
            start = body.index(b'"', end + 1)
            return body[:start] + text + _STRING.sub(b"", body[start:], count=1)
        more = b","
    at = body.index(b"{") + 1
    return b'%b"model":%b%b%b' % (body[:at], text, more, body[at:])


def load(data: bytes) -> object:
    """Any JSON text as a value. Raises `ValueError`."""
    content: object = orjson.loads(data)
    return content


def _object(body: bytes) -> dict[str, Any]:
    if len(body) > _CROWD_POSSIBLE and sum(map(body.count, (b",", b"[", b"{"))) + body.count(b'"') // 2 > MAX_VALUES:
        raise BadRequest(f"The body holds more than {MAX_VALUES} values.")
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        raise BadRequest("The body is not valid JSON in UTF-8.", detail=str(fault)) from fault
    if type(fields) is not dict:
        raise BadRequest("The body must be a JSON object.")
    return fields


# What is left of the text outside of strings, and how many more containers are open behind each byte of that.
_SHAPE = b"[]{}:"
_MARKS = _SHAPE + b'"'
_REST = {kept: bytes(byte for byte in range(256) if byte not in kept) for kept in (_SHAPE, _MARKS)}
_STEPS = bytes({ord("["): 1, ord("{"): 1, ord("]"): 0xFF, ord("}"): 0xFF}.get(byte, 0) for byte in range(256))

# The level of the top. A byte ends at 255, and so does the sum: too deep stops it at once.
_TOP = 255 - MAX_DEPTH
_OPENED = bytes((_TOP, _TOP + 1))

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')


def _cut(body: bytes) -> list[bytes]:
    """The body at its quotes: what stands outside of strings at even places, what inside at odd ones; same length.

    Only for text that the parser has accepted. Escapes are covered first, pairs of backslashes before the rest.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"..").replace(b'\\"', b"..")
    return body.split(b'"')


def outline(pieces: list[bytes], kept: bytes = _SHAPE) -> bytes:
    """The brackets and colons within the outermost braces, and with `_MARKS` a quote for each string."""
    return b'"'.join(pieces[::2]).translate(None, _REST[kept])[1:-1]


def levels(steps: Iterable[int]) -> bytes:
    """Where each step begins, and where the last one ends. Raises `BadRequest` at the first that leads too deep."""
    try:
        return bytes(accumulate(steps, initial=_TOP))
    except ValueError:
        raise BadRequest(f"The body is nested more than {MAX_DEPTH} deep.") from None


def _levels(marks: bytes) -> bytes:
    """The level before each byte of an outline and behind the last. Raises `BadRequest`."""
    return levels(memoryview(marks.translate(_STEPS)).cast("b"))


def _count(pieces: list[bytes]) -> int:
    """Members at the top level: the top is there at first, and again behind each colon and each container closed."""
    passed = _levels(outline(pieces))
    return passed.count(_TOP) - passed.count(_OPENED) - 1


def _require_unique(body: bytes, pieces: list[bytes], distinct: int) -> None:
    count = _count(pieces)
    if count > MAX_MEMBERS:
        raise BadRequest(f"The body has more than {MAX_MEMBERS} members.")
    if count != distinct:
        raise _repeated(name for name, _, _ in _names(body, pieces))


def members(body: bytes) -> Iterator[tuple[str, int, int]]:
    """The members of a body that went through `peek`, in order: the name of each, and the offsets of its two quotes."""
    return _names(body, _cut(body))


def unrepeated(body: bytes, fields: dict[str, object]) -> bool:
    """Whether no object within the body, however deep, gives a name twice. `fields`: what the parser made of it.

    Each member has a colon of its own outside of texts; those that the parser dropped have one too.
    """
    return b'"'.join(_cut(body)[::2]).count(b":") == _members(fields, MAX_DEPTH)


def _names(body: bytes, pieces: list[bytes]) -> Iterator[tuple[str, int, int]]:
    """The members in order: the name of each, and the offsets of its two quotes."""
    marks = outline(pieces, _MARKS)
    passed = _levels(marks)
    offset = done = seen = 0  # where in the body the strings that are done with end; how many marks are behind
    last = at = -1  # the last string before a mark
    while (at := passed.find(_TOP, at + 1)) >= 0:
        if marks[at : at + 1] != b":":
            continue
        last += marks.count(b'"', seen, at)
        offset += sum(map(len, pieces[2 * done : 2 * last])) + 2 * (last - done)
        done, seen = last, at
        start = offset + len(pieces[2 * last])
        end = start + len(pieces[2 * last + 1]) + 1
        yield cast("str", orjson.loads(body[start : end + 1])), start, end


def _repeated(names: Iterable[str]) -> BadRequest | AmbiguousModel:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if MODEL in repeated:
        return AmbiguousModel("The body names the model more than once.", param=MODEL)
    return BadRequest("The body gives a member more than once.", detail=f"{len(repeated)} members are repeated")

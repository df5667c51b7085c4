"""What the top level of a JSON body says, and writing a model name into it without touching another byte.

The parser checks the text and gives the values, but keeps the last of two equal keys. So the members of the top level
are counted in a skeleton as well: the body with every string cut down to one quote and every container left out, where
each member has one colon.
Knows: RFC 8259, the parser (this file and the identity modules are its only importers on the way of a call).
Must not know: models, paths, which members matter to whom.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import orjson

from gateway.errors import AmbiguousModel, BadRequest

#: Containers within each other below the top level; backends give up at about 200, some of them badly.
MAX_DEPTH = 128

#: Values in a body, so that a body of small values cannot fill the memory: some 64 bytes each while it is looked at.
MAX_VALUES = 2_000_000
_CROWD_POSSIBLE = 1024 * 1024  # bytes from which the values are counted; below, they cannot do harm

#: Bytes up to which counting all members is quicker than telling levels apart; most calls are plain messages.
_PLAIN_SIZE = 4096

MODEL = "model"


class Peeked(NamedTuple):
    """`model` is None when absent. `stream` is True for any value but false and null. `fields`: the whole top level."""

    model: str | None
    stream: bool
    fields: Mapping[str, object]


def peek(body: bytes) -> Peeked:
    """Read a request body. Raises `AmbiguousModel` for a repeated model, else `BadRequest`."""
    fields = _object(body)
    pieces = _cut(body)
    if not _plain(body, pieces, fields) and _count(pieces) != len(fields):
        raise _fault(body, pieces)
    model = fields.get(MODEL)
    if not (isinstance(model, str) and model) and MODEL in fields:
        raise BadRequest("'model' must be a string that is not empty.", param=MODEL)
    stream = fields.get("stream")
    return Peeked(model, stream is not None and stream is not False, fields)


def _plain(body: bytes, pieces: list[bytes], fields: dict[str, Any]) -> bool:
    """True for a small body that is plainly right; False says nothing. Every level below the third takes a bracket."""
    if len(body) > _PLAIN_SIZE:
        return False
    skeleton = b'"'.join(pieces[::2])
    return skeleton.count(b":") == _members(fields) and skeleton.count(b"[") <= MAX_DEPTH - 2


def _members(fields: dict[str, Any]) -> int:
    """Members of an object and of the objects in it and in its lists.

    Where the text has just as many, none is repeated.
    """
    count = len(fields)
    for value in fields.values():
        if type(value) is list:
            for item in value:
                if type(item) is dict:
                    count += len(item)
        elif type(value) is dict:
            count += len(value)
    return count


def rewrite(body: bytes, model: str) -> bytes:
    """The body with this model name: put in place of the one it has, or first where it has none.

    `body` went through `peek`; every other byte stays.
    """
    text = json.dumps(model, ensure_ascii=False).encode()
    pieces = _cut(body)
    names, ends = _names(body, pieces)
    if MODEL not in names:
        at = body.index(b"{") + 1
        return b'%b"model":%b%b%b' % (body[:at], text, b"," if names else b"", body[at:])
    start = body.index(b'"', ends[names.index(MODEL)] + 1)
    return body[:start] + text + _STRING.sub(b"", body[start:], count=1)


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


def _nested(depth: int) -> bytes:
    """A pattern for a container in a skeleton, `depth` deep at most. Possessive: nothing is tried twice."""
    pattern = rb"[\[{][^\[\]{}]*+[\]}]"
    for _ in range(depth - 1):
        pattern = rb"[\[{](?:[^\[\]{}]++|" + pattern + rb")*+[\]}]"
    return pattern


_CONTAINER = re.compile(_nested(MAX_DEPTH))
_MEMBER = re.compile(rb'[{,]\s*+"\s*+:\s*+(?:[^\s,}\[{]++|' + _nested(MAX_DEPTH) + rb")\s*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')


def _cut(body: bytes) -> list[bytes]:
    """The body at its quotes: what stands outside of strings at even places, what inside at odd ones; same length.

    Only for text that the parser has accepted. Escapes are covered first, pairs of backslashes before the rest.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"..").replace(b'\\"', b"..")
    return body.split(b'"')


def _count(pieces: list[bytes]) -> int:
    """Members at the top level, -1 when they are nested too deep."""
    flat = _CONTAINER.sub(b"", b'"'.join(pieces[::2]).strip()[1:-1])
    return -1 if b"{" in flat or b"[" in flat else flat.count(b":")


def _names(body: bytes, pieces: list[bytes]) -> tuple[list[str], list[int]]:
    """The names of the members in order, and for each the offset of its closing quote."""
    skeleton = b'"'.join(pieces[::2])
    at = len(skeleton) - len(skeleton.lstrip())
    names, ends = [], []
    string = offset = seen = 0  # strings passed, where in the body they end, how much of the skeleton is behind
    while (found := _MEMBER.match(skeleton, at)) is not None:
        at = found.end()
        skip = skeleton.count(b'"', seen, found.start())
        for index in range(string, string + skip):
            offset += len(pieces[2 * index]) + len(pieces[2 * index + 1]) + 2
        string, seen = string + skip, found.start()
        start = offset + len(pieces[2 * string])
        end = start + len(pieces[2 * string + 1]) + 1
        names.append(cast("str", orjson.loads(body[start : end + 1])))
        ends.append(end)
    return names, ends


def _fault(body: bytes, pieces: list[bytes]) -> BadRequest | AmbiguousModel:
    if _count(pieces) < 0:
        return BadRequest(f"The body is nested more than {MAX_DEPTH} deep.")
    repeated = [name for name, times in Counter(_names(body, pieces)[0]).items() if times > 1]
    if MODEL in repeated:
        return AmbiguousModel("The body names the model more than once.", param=MODEL)
    return BadRequest("The body gives a member more than once.", detail=f"{len(repeated)} members are repeated")

"""JSON bodies: the gateway sees at the top level what a strict parser sees, and writing into one changes nothing else.

An input is a body.
"""

from __future__ import annotations

import json
from typing import Any

from fuzz.material import Untold
from gateway.errors import AmbiguousModel, BadRequest, Refusal
from gateway.resolve.jsonbody import MAX_DEPTH, MAX_MEMBERS, peek, rewrite, unrepeated
from gateway.resolve.jsonedit import edit

NAMES = ("m", 'q"\\', "é/x")
FAR = 2**64  # whole numbers beyond it are read as decimals


class Pairs(list[tuple[str, Any]]):
    """Members of an object as written, repeated ones included."""


class OddError(ValueError):
    """JSON that only some parsers take."""


def _constant(name: str) -> float:
    raise OddError(name)


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise OddError(text)
    return number


def _whole(text: str) -> int | float:
    """As far as every parser has it exactly; `-0` has no sign in a whole number."""
    number = int(text) if len(text) < 25 else FAR
    return number if -FAR // 2 <= number < FAR else _number(text)


def strict(body: bytes) -> Pairs:
    """The top level by the parser of Python, made strict. Raises `ValueError`."""
    found = json.loads(
        body.decode(), object_pairs_hook=Pairs, parse_constant=_constant, parse_float=_number, parse_int=_whole
    )
    if not isinstance(found, Pairs):
        raise OddError("no object")
    return found


def check(data: bytes) -> None:
    """Raises `AssertionError` for a difference that is not allowed."""
    try:
        seen = peek(data)
    except Refusal as refusal:
        assert isinstance(refusal, BadRequest | AmbiguousModel), refusal
        _check_refused(data, refusal)
        return
    pairs = strict(data)
    names = [name for name, _ in pairs]
    top = {name: _plain(value) for name, value in pairs}
    assert len(names) == len(top) <= MAX_MEMBERS
    assert _depth(pairs) <= MAX_DEPTH + 1
    assert dict(seen.fields) == top
    assert (seen.model, seen.stream) == (top.get("model"), top.get("stream") is True)
    for name in NAMES:
        _check_rewritten(data, pairs, name)
    _check_edited(data, pairs)
    assert unrepeated(data, seen.fields) is _unrepeated(pairs)


def _check_rewritten(body: bytes, pairs: Pairs, name: str) -> None:
    after = rewrite(body, name)
    again = strict(after)
    assert [pair for pair in again if pair[0] != "model"] == [pair for pair in pairs if pair[0] != "model"]
    assert [value for key, value in again if key == "model"] == [name]
    assert peek(after).model == name


def _check_edited(body: bytes, pairs: Pairs) -> None:
    """Each member in turn goes or changes, and one comes; the others stay where they are, as they are written."""
    assert edit(body, {}) == body
    for name, _ in pairs[:16]:  # each takes its time
        if name not in {"model", "stream"}:
            _check_edit(body, pairs, {name: None})
            _check_edit(body, pairs, {name: b"7", "max_tokens": b"1024"})
    _check_edit(body, pairs, {"max_tokens": b"1024", "priority": None})
    _check_edit(body, pairs, dict.fromkeys((name for name, _ in pairs if name not in {"model", "stream"}), None))


def _check_edit(body: bytes, pairs: Pairs, changes: dict[str, bytes | None]) -> None:
    after = edit(body, changes)
    names = [name for name, _ in pairs]
    added = [(name, text) for name, text in changes.items() if text is not None and name not in names]
    wanted = [(name, json.loads(text)) for name, text in added]
    for name, value in pairs:
        text = changes.get(name, b"")
        if text is not None:
            wanted.append((name, json.loads(text) if text else value))
    assert list(strict(after)) == wanted
    for name, text in added:  # what is left without them is what came, but for what was to change
        after = after.replace(b'"%b":%b' % (name.encode(), text), b"", 1)
    if changes.keys() & set(names):
        return
    assert after.replace(b",", b"") == body.replace(b",", b"")


def _unrepeated(value: Any) -> bool:
    """Whether no object within gives a name twice."""
    level = [value]
    while level := [each for each in level if isinstance(each, list)]:
        if any(isinstance(each, Pairs) and len(dict(each)) < len(each) for each in level):
            return False
        level = [
            inner
            for each in level
            for inner in ([value for _, value in each] if isinstance(each, Pairs) else each)
        ]  # fmt: skip
    return True


def _check_refused(body: bytes, refusal: Refusal) -> None:
    """A refusal has one of the reasons that the page on protocols gives."""
    try:
        pairs = strict(body)
        json.dumps(pairs, ensure_ascii=False).encode()  # half of a pair is no text
    except (ValueError, RecursionError):
        assert type(refusal) is BadRequest
        return
    names = [name for name, _ in pairs]
    top = dict(pairs)
    if isinstance(refusal, AmbiguousModel):
        assert names.count("model") > 1
        return
    if not (
        len(top) < len(names)
        or len(names) > MAX_MEMBERS
        or _depth(pairs) > MAX_DEPTH
        or ("model" in top and not (isinstance(top["model"], str) and top["model"]))
        or not isinstance(top.get("stream"), bool | None)
    ):
        raise Untold(f"only we refuse this: {refusal}: {refusal.detail}")


def _plain(value: Any) -> Any:
    """Of names that stand twice further down, the last counts, as in most parsers; those are not ours to judge."""
    if isinstance(value, Pairs):
        return {name: _plain(each) for name, each in value}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _depth(value: Any) -> int:
    """Containers within each other, without recursion."""
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, list)]:
        depth += 1
        level = [
            inner
            for each in level
            for inner in ([value for _, value in each] if isinstance(each, Pairs) else each)
        ]  # fmt: skip
    return depth

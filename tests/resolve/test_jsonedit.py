"""Changing members of a body changes nothing else of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.resolve.jsonbody import peek, unrepeated
from gateway.resolve.jsonedit import edit

CASES = [
    (b"{}", {"a": b"1"}, b'{"a":1}'),
    (b"{ }", {"a": b"1", "b": b"2"}, b'{"a":1,"b":2 }'),
    (b'{"x":1}', {"a": b"1"}, b'{"a":1,"x":1}'),
    (b'{"a" : 5 ,"x":1}', {"a": b"1"}, b'{"a" : 1 ,"x":1}'),
    (b'{"x":1,\t"a":[5,{"a":2}] }\n', {"a": b"1"}, b'{"x":1,\t"a":1 }\n'),
    (b'{"a":5, "x":1}', {"a": None}, b'{"x":1}'),
    (b'{"x":1, "a":5 }', {"a": None}, b'{"x":1 }'),
    (b'{"x":1, "a":5 , "y":2}', {"a": None}, b'{"x":1 , "y":2}'),
    (b'{"a":5}', {"a": None}, b"{}"),
    (b'{"a":5}', {"a": None, "b": b"1"}, b'{"b":1}'),
    (b'{"x":1}', {"a": None}, b'{"x":1}'),
    (b'{"\\u0061":"}, \\"a\\":"}', {"a": b"1"}, b'{"\\u0061":1}'),
    (b'{"x":"\\\\","a":5}', {"a": b"1"}, b'{"x":"\\\\","a":1}'),
]


@pytest.mark.parametrize(("body", "changes", "after"), CASES)
def test_only_the_members_that_are_named_change(body: bytes, changes: dict[str, bytes | None], after: bytes) -> None:
    assert edit(body, changes) == after


NAMES = st.sampled_from(["a", "b", "max_tokens", 'q"\\', "é/x", ":", "{", "\u2028"]) | st.text(max_size=4).filter(
    lambda name: name not in {"model", "stream"}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
GAPS = st.text(" \t\n\r", max_size=2)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A body in any spelling, and what it says."""
    fields = draw(st.dictionaries(NAMES, VALUES, max_size=6))

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([None, (",", ":")])))

    members = [
        f"{draw(GAPS)}{text(name)}{draw(GAPS)}:{draw(GAPS)}{text(value)}{draw(GAPS)}" for name, value in fields.items()
    ]
    return f"{draw(GAPS)}{{{','.join(members) or draw(GAPS)}}}{draw(GAPS)}".encode(), fields


CHANGES = st.dictionaries(NAMES, st.none() | VALUES.map(lambda value: json.dumps(value).encode()), max_size=4)


@given(bodies(), CHANGES, st.data())
def test_an_edited_body_says_what_the_edited_members_say(
    body: tuple[bytes, dict[str, Any]], changes: dict[str, bytes | None], data: st.DataObject
) -> None:
    text, fields = body
    for name in fields:
        if data.draw(st.booleans()):
            changes[name] = data.draw(st.sampled_from([None, b"1", b'{"a":[":"]}']))
    after = edit(text, changes)
    wanted = {name: value for name, value in fields.items() if name not in changes}
    wanted |= {name: json.loads(value) for name, value in changes.items() if value is not None}
    assert peek(after).fields == json.loads(after) == wanted
    if not changes.keys() & fields.keys():
        added = b",".join(
            json.dumps(name, ensure_ascii=False).encode() + b":" + value for name, value in changes.items() if value
        )
        at = text.index(b"{") + 1
        gap = len(text[at:]) - len(text[at:].lstrip()) if fields and added else 0
        assert after.replace(added + (b"," if fields and added else b""), b"", 1) == text if added else after == text, (
            gap
        )


@given(bodies())
def test_a_body_in_which_nothing_changes_stays_as_it_is(body: tuple[bytes, dict[str, Any]]) -> None:
    assert edit(body[0], {}) == body[0]


REPEATED = [
    (b'{"a":{"b":1,"b":2}}', False),
    (b'{"a":[{"b":1},{"b":2}]}', True),
    (b'{"a":[{"b":1,"\\u0062":2}]}', False),
    (b'{"a":"{\\"b\\":1}","c":{"d":":"}}', True),
    (b'{"a":[[[{"b":{"c":1,"c":1}}]]]}', False),
    (b"{}", True),
]


@pytest.mark.parametrize(("body", "alone"), REPEATED)
def test_a_name_that_stands_twice_is_seen_however_deep(body: bytes, alone: bool) -> None:
    assert unrepeated(body, peek(body).fields) is alone

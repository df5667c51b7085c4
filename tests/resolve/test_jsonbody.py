"""A JSON body has one reading: what the gateway sees is what any parser sees (B051, B053 to B055)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import AmbiguousModel, BadRequest
from gateway.resolve.jsonbody import MAX_DEPTH, MAX_MEMBERS, MAX_VALUES, levels, outline, peek, rewrite

KEYS = ["model", "messages", "stream", "m", "", 'q"uote', "back\\slash", "é", "mod", "a/b", "\u2028", "model\x00"]
texts = st.one_of(
    st.sampled_from(['"model":"x"', "a\\", '\\"', "{[,:]}", "é漢🙂", "\\u006dodel", '\\\\"']), st.text(max_size=8)
)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), texts
)


class Pairs(list[tuple[str, Any]]):
    """Members of an object as written, repeated ones included."""


def write(value: Any, draw: Any) -> str:
    """JSON text of a value, with spacing and escapes as they come."""
    space: str = draw(st.sampled_from(["", "", " ", "\n\t"]))
    if isinstance(value, Pairs):
        inner = f"{space},".join(f"{space}{text(key, draw)}{space}:{write(each, draw)}" for key, each in value)
        return f"{space}{{{inner}{space}}}{space}"
    if isinstance(value, list):
        return f"{space}[{','.join(write(each, draw) for each in value)}{space}]{space}"
    return space + (text(value, draw) if isinstance(value, str) else json.dumps(value)) + space


def text(value: str, draw: Any) -> str:
    if draw(st.integers(0, 5)) == 0 and value.isascii():
        return '"' + "".join(f"\\u{ord(c):04x}" for c in value) + '"'
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=3).map(Pairs)
    ),
    max_leaves=8,
)


@st.composite
def bodies(draw: Any) -> bytes:
    model = st.one_of(st.sampled_from(["small", "big", "é/x", 'a"b', "a\\b"]), leaves)
    pairs = draw(
        st.lists(st.one_of(st.tuples(st.sampled_from(KEYS), values), st.tuples(st.just("model"), model)), max_size=5)
    )
    return write(Pairs(pairs), draw).encode()


def reference(body: bytes) -> list[tuple[str, Any]]:
    """Top-level members, by a parser that has nothing in common with the gateway's."""
    found: list[tuple[str, Any]] = json.loads(body.decode(), object_pairs_hook=Pairs)
    assert isinstance(found, Pairs)
    return found


@given(bodies())
@example(b'{"model":"small","mod\\u0065l":"big"}')
@example(b'{"a":"\\\\","model":"x","b":"\\\\\\"","model":"y"}')
@example(b'{"model":"m","a":{"model":"x","model":"y"}}')
def test_a_body_is_read_as_an_independent_parser_reads_it(body: bytes) -> None:
    pairs = reference(body)
    names = [name for name, _ in pairs]
    top = dict(pairs)
    if names.count("model") > 1:
        with pytest.raises(AmbiguousModel):
            peek(body)
    elif (
        len(set(names)) < len(names)
        or ("model" in top and not (isinstance(top["model"], str) and top["model"]))
        or not isinstance(top.get("stream"), bool | None)
    ):
        with pytest.raises(BadRequest):
            peek(body)
    else:
        seen = peek(body)
        assert seen.model == top.get("model")
        assert seen.stream is bool(top.get("stream"))


@given(bodies(), st.sampled_from(["small", "nv/embed", 'q"\\', "é"]))
def test_writing_a_model_changes_that_value_and_not_another_byte(body: bytes, model: str) -> None:
    try:
        before = peek(body)
    except (BadRequest, AmbiguousModel):
        return
    after = rewrite(body, model)
    assert peek(after).model == model
    token = json.dumps(model, ensure_ascii=False).encode()
    if before.model is None:
        comma = b"," if before.fields else b""
        assert after.replace(b'"model":' + token + comma, b"", 1) == body
    else:
        old = [(k, v) for k, v in reference(body) if k != "model"]
        assert [(k, v) for k, v in reference(after) if k != "model"] == old
        start = next(i for i in range(len(after)) if after[i : i + len(token)] == token and body.startswith(after[:i]))
        assert body.endswith(after[start + len(token) :])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"model"',
        b"null",
        b"{",
        b'{"model":"small"} x',
        b'{"model":"small"}{}',
        b'{"model":"small",}',
        b"{'model':'small'}",
        b'\xef\xbb\xbf{"model":"small"}',
        '{"model":"small"}'.encode("utf-16"),
        '{"model":"small"}'.encode("utf-16-le"),
        b'{"model":"small","x":NaN}',
        b'{"model":"small","x":Infinity}',
        b'{"model":"big\\ud800"}',
        b'{"model":"\xff"}',
        b'{"model":"small","x":1e999}',
        b'{"model":"small","x":"\n"}',
        b'{"model":"small"/**/}',
        b'{"a":1,"a":2}',
    ],
)
def test_what_parsers_could_read_differently_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        peek(body)


@pytest.mark.parametrize("value", ['""', "null", "0", '["small","big"]', '{"id":"big"}', "true"])
def test_a_model_that_is_no_name_is_refused_and_the_field_is_named(value: str) -> None:
    with pytest.raises(BadRequest) as caught:
        peek(b'{"model":%b}' % value.encode())
    assert caught.value.param == "model"


@pytest.mark.parametrize(("value", "stream"), [("true", True), ("false", False), ("null", False)])
def test_a_stream_is_asked_for_with_true(value: str, stream: bool) -> None:
    assert peek(b'{"stream":%b}' % value.encode()).stream is stream
    assert peek(b"{}").stream is False


@pytest.mark.parametrize("value", ["1", "0", "0.0", '"true"', '"false"', '"no"', '""', "[]", "[false]", "{}"])
def test_a_stream_that_engines_could_read_either_way_is_refused_and_the_field_is_named(value: str) -> None:
    with pytest.raises(BadRequest) as caught:
        peek(b'{"model":"small","stream":%b}' % value.encode())
    assert caught.value.param == "stream"


def test_nesting_is_bounded_and_the_bound_is_exact() -> None:
    def nested(depth: int) -> bytes:
        return b'{"model":"m","a":' + b"[" * depth + b"]" * depth + b"}"

    assert peek(nested(MAX_DEPTH)).model == "m"
    for depth in (MAX_DEPTH + 1, 1000, 100_000):
        with pytest.raises(BadRequest):
            peek(nested(depth))


@given(st.lists(st.sampled_from([1, 2, MAX_DEPTH // 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 300]), max_size=3))
def test_the_deepest_place_counts_wherever_it_is_and_whatever_it_is_made_of(depths: list[int]) -> None:
    inner = b",".join(b'[{" [{":' * (depth // 2) + b"1" + b"}]" * (depth // 2) for depth in depths)
    body = b'{"pad":"' + b"x" * 5000 + b'","model":"m","a":{"b":[' + inner + b"]}}"
    if max(depths, default=0) // 2 * 2 + 2 > MAX_DEPTH:
        with pytest.raises(BadRequest, match=str(MAX_DEPTH)):
            peek(body)
    else:
        assert peek(body).model == "m"


def test_only_brackets_and_colons_are_weighed_however_much_lies_between_them() -> None:
    between = b" \n" * 50_000 + b'0.1234567890,"[:{\\"",' + b"\t" * 100_000
    body = b'{"model":"small","a":' + b"[" * 400 + between * 20 + b"1" + b"[" * 200 + b"]" * 600 + b"}"
    assert outline(body.replace(b'\\"', b"..").split(b'"')) == b"::" + b"[" * 600 + b"]" * 600


def test_what_is_too_deep_is_given_up_at_the_first_bracket_too_many() -> None:
    seen = []

    def steps() -> Iterator[int]:
        for number in range(10_000):
            seen.append(number)
            yield 1

    with pytest.raises(BadRequest):
        levels(steps())
    assert len(seen) == MAX_DEPTH + 1


def test_no_mark_is_weighed_twice_even_when_all_but_the_last_bracket_fit() -> None:
    weighed = []

    def steps() -> Iterator[int]:
        for step in [*[1] * 100, *[-1, 1] * 1000, *[1] * (MAX_DEPTH - 100), *[-1] * MAX_DEPTH]:
            weighed.append(step)
            yield step

    assert len(levels(steps())) == len(weighed) + 1


def test_more_members_than_any_interface_has_are_refused_before_their_names_are_looked_at() -> None:
    def crowded(members: int, last: bytes = b"") -> bytes:
        return b"{" + b",".join(b'"member%06d":1' % number for number in range(members)) + last + b"}"

    assert peek(crowded(MAX_MEMBERS)).model is None
    for body in (
        crowded(MAX_MEMBERS + 1),
        crowded(MAX_MEMBERS, b',"member000001":1'),
        b'{"a":1' + b',"a":1' * 5000 + b"}",
    ):
        with pytest.raises(BadRequest, match=str(MAX_MEMBERS)):
            peek(body)
    with pytest.raises(BadRequest, match="more than once"):
        peek(crowded(MAX_MEMBERS - 1, b',"member000001":1'))


def test_a_repeated_model_behind_a_value_that_is_too_deep_is_not_overlooked() -> None:
    with pytest.raises(BadRequest):
        peek(b'{"model":"small","a":' + b"[" * 200 + b"]" * 200 + b',"model":"big"}')


def test_a_crowd_of_small_values_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(BadRequest, match=str(MAX_VALUES)):
        peek(b'{"a":[' + b"[]," * MAX_VALUES + b"1]}")


def test_the_model_is_found_behind_megabytes() -> None:
    """B023"""
    body = b'{"messages":["' + b"x\\n" * 1_000_000 + b'"],"model":"big"}'
    assert peek(body).model == "big"
    assert rewrite(body, "small").endswith(b'"model":"small"}')

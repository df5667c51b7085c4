"""A document becomes frozen dataclasses, or everything wrong with it is said in plain words at its place."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import typed
from gateway.config.units import Written, duration
from gateway.config.yamlfile import Mistakes, read


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    count: int
    wait: Annotated[float, Written(duration)] = 1.0
    names: tuple[str, ...] = ()
    source: Annotated[str, typed.called("from")] = ""

    def __post_init__(self) -> None:
        if self.count == 13:
            raise ValueError("not thirteen")


@dataclass(frozen=True, slots=True)
class Outer:
    items: tuple[Inner, ...]
    colour: Colour = Colour.RED
    kind: Literal["big", "small"] = "big"
    groups: frozenset[str] = frozenset()
    extra: Inner | None = None
    table: dict[str, Inner] = field(default_factory=dict)
    path: Path | None = None
    on: bool = False
    ratio: float = 0.5


def wrong(text: str) -> list[str]:
    """What is said about `text`, without the name of the file."""
    document = read(text.encode(), "f.yaml")
    with pytest.raises(Mistakes) as caught:
        typed.validate(document, Outer)
    return [str(mistake).removeprefix("f.yaml:") for mistake in caught.value.mistakes]


def test_a_good_document_becomes_frozen_values() -> None:
    text = (
        b"items: [{count: 1, wait: 2s, names: [a, b], from: x}]\ncolour: blue\nkind: small\ngroups: [g, h]\n"
        b"extra: {count: 2}\ntable: {k: {count: 3}}\npath: a/b\non: true\nratio: 2\n"
    )
    value = typed.validate(read(text, "f.yaml"), Outer)
    first = Inner(1, 2.0, ("a", "b"), "x")
    assert value == Outer(
        items=(first,),
        colour=Colour.BLUE,
        kind="small",
        groups=frozenset({"g", "h"}),
        extra=Inner(2),
        table={"k": Inner(3)},
        path=Path("a/b"),
        on=True,
        ratio=2.0,
    )
    assert type(value.ratio) is float


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour: red\n", "1:1: the setting 'items' is missing"),
        ("items:\n", "1:1: expected a list"),
        ("items: [3]\n", "1:9: expected a mapping of settings"),
        ("items: [{}]\n", "1:9: the setting 'count' is missing"),
        ("items: [{count: '1'}]\n", "1:10: expected a whole number"),
        ("items: [{count: 1.0}]\n", "1:10: expected a whole number"),
        ("items: [{count: true}]\n", "1:10: expected a whole number"),
        ("items: [{count: 13}]\n", "1:9: not thirteen"),
        ("items: [{count: 1, wait: 3}]\n", "1:20: expected a time: a number with ms, s, m or h, such as 30s"),
        (
            "items: [{count: 1, names: a}]\n",
            "1:20: expected a list; in brackets, also where it holds one thing: 'names: [...]'",
        ),
        ("items: [{count: 1, names: [a, 1.10]}]\n", "1:31: expected text; put it in quotes"),
        ("items: [{count: 1, cuont: 1}]\n", "1:20: unknown setting 'cuont'; did you mean 'count'?"),
        ("items: [{count: 1, frmo: a}]\n", "1:20: unknown setting 'frmo'; did you mean 'from'?"),
        ("items: [{count: 1, q: 1}]\n", "1:20: unknown setting 'q'; known here: count, from, names, wait"),
        ("items: [{count: 1}]\nextra: {coutn: 1, count: 2}\n", "2:9: unknown setting 'coutn'; did you mean 'count'?"),
        (
            "items: [{count: 1}]\ntable: {k: {coutn: 1, count: 2}}\n",
            "2:13: unknown setting 'coutn'; did you mean 'count'?",
        ),
        ("items: [{count: 1}]\nclour: red\n", "2:1: unknown setting 'clour'; did you mean 'colour'?"),
        ("items: [{count: 1}]\ncolour: green\n", "2:1: expected 'red' or 'blue'"),
        ("items: [{count: 1}]\nkind: huge\n", "2:1: expected 'big' or 'small'"),
        ("items: [{count: 1}]\non: 'yes'\n", "2:1: expected true or false"),
        ("items: [{count: 1}]\non: 1\n", "2:1: expected true or false"),
        ("items: [{count: 1}]\nratio: x\n", "2:1: expected a number"),
        ("items: [{count: 1}]\ntable: [a]\n", "2:1: expected a mapping"),
        ("items: [{count: 1}]\ngroups: {a: b}\n", "2:1: expected a list"),
        ("[a]\n", "1:1: expected a mapping of settings"),
        ("hello\n", "1:1: expected a mapping of settings"),
    ],
)
def test_each_mistake_is_said_in_plain_words_at_its_place(text: str, said: str) -> None:
    assert wrong(text) == [said]


def test_all_mistakes_are_said_at_once_and_in_order() -> None:
    lines = wrong("on: 3\nitems:\n  - {count: x}\n  - {cnt: 1}\nkind: huge\n")
    assert [line.split(": ")[0] for line in lines] == ["1:1", "3:6", "4:5", "4:6", "5:1"]


@given(st.text(st.characters(categories=["L", "N"]), min_size=8))
def test_no_message_repeats_a_value(secret: str) -> None:
    quoted = f'"{secret}"'
    text = "items: [{count: S, wait: S, names: S}, S]\ncolour: S\nkind: S\ngroups: S\nextra: S\ntable: S\non: S\n"
    assert not any(secret in line for line in wrong(text.replace("S", quoted)))


def test_the_settings_of_a_class_are_known_by_their_names_in_the_file() -> None:
    assert list(typed.settings_of(Inner)) == ["count", "wait", "names", "from"]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_a_document_of_any_form_is_read_or_refused(value: Any) -> None:
    text = json.dumps({"items": value, "extra": value, "table": {"a": value}})
    with contextlib.suppress(Mistakes):
        typed.validate(read(text.encode(), "f.yaml"), Outer)

"""A YAML file is read in one way only, or refused with a place."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.yamlfile import DEEPEST, Document, Mistakes, read
from gateway.config.yamltext import LARGEST

PATHOLOGICAL = {
    "flow lists without end": b"[" * 500_000,
    "one list in a line": b"[\n" * 500_000,
    "block lists without end": b"- " * 300_000,
    "complex keys without end": b"? " * 300_000,
    "mappings without end": b"{" * 500_000,
    "values of values": b"a: " * 300_000,
    "anchors without end": b"&a " * 300_000,
    "anchored items": b"- &a x\n" * 140_000,
    "tags without end": b"!" * 900_000,
    "many items": b"- a\n" * 250_000,
    "many empty items": b"[" + b",".join([b"a"] * 500_000) + b"]",
    "the same key": b"a: 1\n" * 200_000,
    "an endless escape": b'"' + b"\\x41" * 200_000,
    "one long word": b"x" * 1_000_000,
    "one long key twice": 2 * (b"k" * 500_000 + b": 1\n"),
    "one long number": b"a: " + b"9" * 1_000_000,
    "empty lines": b"\n" * 1_000_000,
    "too large": b"a: 1\n" * (20 * 1024 * 1024),
    "billion laughs": b"a: &a [x]\n" + b"".join(b"k%d: &k%d [*a, *a]\n" % (i, i) for i in range(50)),
}


def refused(text: bytes | str) -> list[str]:
    """Every mistake in `text` as it is printed."""
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises(Mistakes) as caught:
        read(raw, "f.yaml")
    return [str(mistake) for mistake in caught.value.mistakes]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((word, word) for word in ["no", "on", "off", "yes", "y", "No", "True", "NULL", "Null"]),
        *(
            (word, word)
            for word in ["010", "0x1F", "0o17", "1:30", "1_000", "2020-01-01", "=", "1.2.3", ".inf", ".nan"]
        ),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("999999999999999999", 999999999999999999),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("'true'", "true"),
        ('"12"', "12"),
        ("'~'", "~"),
        ("|-\n  12", "12"),
    ],
)
def test_a_value_means_what_yaml_1_2_says_and_nothing_of_yaml_1_1(written: str, value: Any) -> None:
    data = read(f"key: {written}\n".encode(), "f.yaml").data["key"]
    assert (type(data), data) == (type(value), value)


def test_a_document_gives_plain_values_and_the_place_of_each() -> None:
    document = read("# first\na:\n  - x\n  - {b: 1, 'ç': é, d: z}\nnext: {}\n".encode(), "f.yaml")
    assert document.data == {"a": ["x", {"b": 1, "ç": "é", "d": "z"}], "next": {}}
    assert document.place(()) == (2, 1)
    assert document.place(("a",)) == (2, 1)
    assert document.place(("a", 0)) == (3, 5)
    assert document.place(("a", 1, "d")) == (4, 20), "columns count characters, not bytes"
    assert document.place(("a", 1, "unknown", "deeper")) == (4, 5), "the deepest part that exists"
    assert document.place(("next", 3)) == (5, 1)


def test_whether_a_value_has_quotes_is_known() -> None:
    document = read(b"a: [x, 'x']\nb: x\nc: \"x\"\n", "f.yaml")
    assert [document.plain(path) for path in [("a", 0), ("a", 1), ("b",), ("c",)]] == [True, False, True, False]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (b"", "1:1", "empty"),
        (b"# only a comment\n", "1:1", "empty"),
        (b"---\n", "1:1", "empty"),
        (b"null\n", "1:1", "empty"),
        (b"a: 1\n---\nb: 2\n", "2:1", "second document"),
        (b"a: 1\n...\n---\nb: 2\n", "3:1", "second document"),
        (b"%YAML 1.1\n---\na: 1\n", "1:1", "directive"),
        (b"a: &x 1\n", "1:4", "anchor"),
        (b"a: *x\n", "1:4", "alias"),
        (b"a: &x [*x]\n", "1:4", "anchor"),
        (b"a: {<<: {b: 1}}\n", "1:5", "merge"),
        (b"a: !!python/object/apply:os.system ['true']\n", "1:4", "tag"),
        (b"a: ! 1\n", "1:4", "tag"),
        (b"a:\n\t- 1\n", "2:1", "tab"),
        (b"a: 'x\ty'\n", "1:6", "tab"),
        (b"\xef\xbb\xbfa: 1\n", "1:1", "byte order mark"),
        ("a: 1\n".encode("utf-16"), "1:1", "UTF-16"),
        ("a: 1\n".encode("utf-16-be"), "1:1", "UTF-16"),
        ("é: 1\nb: ".encode() + b"\xff\n", "2:4", "UTF-8"),
        (b"a: 1\rb: 2\n", "1:5", "U+000D"),
        ("a: 1 # x\u2028b: 2\n".encode(), "1:9", "U+2028"),
        ("a: x\u202ey\n".encode(), "1:5", "U+202E"),
        (b"a: \x00\n", "1:4", "U+0000"),
        (b'a: "\\0"\n', "1:4", "NUL"),
        (b"1: x\n", "1:1", "key is text"),
        (b"true: x\n", "1:1", "key is text"),
        (b"~: x\n", "1:1", "key is text"),
        (b"? [a]\n: x\n", "1:5", "key is text"),
        (b"? {a: b}\n: x\n", "1:8", "key is text"),
        (b"a: 1\nb:\n  c: 1\n  'c': 2\n", "4:3", "twice, first in line 3"),
        (b"a: 1234567890123456789\n", "1:4", "too long"),
        (b"a: 1e999\n", "1:4", "too large"),
        (b"a: [1, 2\n", "1:4", "the bracket that opens here is not closed"),
        (b"a: [nvidia/*, **]\n", "1:16", "a text that begins with '*' needs quotes"),
        (b"a: b: c\n", "1:5", "not valid YAML"),
        (b"a: '\n", "1:4", "the quote that opens here is never closed"),
        (b"[" * (DEEPEST + 1), f"1:{DEEPEST + 1}", "deeper than 64"),
        (b"x" * (LARGEST + 1), "1:1", "larger than 1024 KiB"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_with_its_place(text: bytes, place: str, words: str) -> None:
    """B097, B099."""
    first = refused(text)[0]
    assert first.startswith(f"f.yaml:{place}: ")
    assert words in first


RULE = "rules:\n  - id: a\n    effect: allow\n"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (f"{RULE}     subjects: {{groups: [a]}}\n", "4:14", "is it indented deeper than the keys above"),
        ("rules:\n  - id:a\n    effect: allow\n", "3:11", "lacks a key above the space behind its ':'"),
        (f"{RULE}   models: [m]\n", "4:4", "in no item of the list of line 2: indent it as the keys of its item"),
        (f"{RULE}  models: [m]\n", "4:3", "in no item of the list of line 2"),
        ("rules:\n- id: a\n - id: b\n", "3:2", "indented otherwise than the keys from line 1 on"),
        (f'{RULE}    models: ["x]\n    versions: [1]\n', "4:14", "the quote that opens here is never closed"),
        (f"{RULE}    models: [x\n  - id: b\n", "4:13", "the bracket that opens here is not closed"),
        ("from: [::1/128]\n", "1:8", "needs quotes, as an IPv6 address"),
        ("models: [@m]\n", "1:10", "begins with '@', '`' or '%' needs quotes"),
        ("a: 1\nb\nc: 2\n", "3:1", "line 2 is no key with a ':'"),
        ("models: - m\n", "1:9", "a list begins in a line of its own, or stands in brackets"),
        ('a: "\\d"\n', "1:5", "in double quotes a '\\' is written"),
    ],
)
def test_of_what_is_no_yaml_it_is_said_what_was_meant_and_where(text: str, place: str, words: str) -> None:
    (told,) = refused(text)
    assert told.startswith(f"f.yaml:{place}: not valid YAML: ")
    assert words in told


def test_every_mistake_of_a_file_is_said_at_once_in_order() -> None:
    text = "z: 1\na: &x 1\nz: 2\n<<: {b: 1}\n5: 6\nq: !!str 1\nl: [1, {k: 1, k: 2}]\n"
    assert [line.split(": ")[0] for line in refused(text)] == [
        "f.yaml:2:4",
        "f.yaml:3:1",
        "f.yaml:4:1",
        "f.yaml:5:1",
        "f.yaml:6:4",
        "f.yaml:7:15",
    ]


def test_what_follows_a_bad_key_is_still_read_where_it_stands() -> None:
    lines = refused("? [[a], {b: c}]\n: {x: 1, x: 2}\nb: &c d\n")
    assert [line.split(": ")[0] for line in lines] == ["f.yaml:1:15", "f.yaml:2:10", "f.yaml:3:4"]


def test_a_mistake_is_one_line_whatever_the_file_holds() -> None:
    [line] = refused(b'"a\\e[2J\\n": 1\n"a\\e[2J\\n": 2\n')
    assert line.isprintable()
    assert r"\x1b[2J\n" in line


def test_nesting_up_to_the_bound_is_read() -> None:
    data = read(b"[" * DEEPEST + b"]" * DEEPEST, "f.yaml").data
    for _ in range(DEEPEST - 1):
        [data] = data
    assert data == []


@pytest.mark.parametrize("text", PATHOLOGICAL.values(), ids=PATHOLOGICAL)
def test_a_file_made_to_hurt_ends_soon_and_without_much_to_say(text: bytes) -> None:
    """B099."""
    result = outcome(text)
    if isinstance(result, Mistakes):
        assert len(result.mistakes) <= 101
        assert all(len(mistake.message) <= 401 for mistake in result.mistakes)


def test_cut_anywhere_a_file_gives_a_document_or_mistakes() -> None:
    """B095: whether what is left is a configuration is for its reader to say."""
    whole = b"a:\n  b: [1, 'two', {c: d}]\n  # note\ne: |\n  text\nf: \"\\u00e9\"\n"
    for cut in range(len(whole)):
        read_or_refuse(whole[:cut])


def outcome(text: bytes) -> Document | Mistakes:
    try:
        return read(text, "f.yaml")
    except Mistakes as error:
        return error


def read_or_refuse(text: bytes) -> None:
    result = outcome(text)
    if isinstance(result, Document):
        assert_plain(result.data)
    else:
        assert result.mistakes
        assert all(mistake.line >= 1 and mistake.column >= 1 for mistake in result.mistakes)


def assert_plain(value: Any) -> None:
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        for inner in value.values():
            assert_plain(inner)
    elif isinstance(value, list):
        for inner in value:
            assert_plain(inner)
    else:
        assert value is None or type(value) in (str, int, float, bool)
        assert not isinstance(value, float) or math.isfinite(value)


WORDS = (
    *(
        "a",
        "b: ",
        ": ",
        "- ",
        "? ",
        "\n",
        "  ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&x ",
        "*x",
        "!t ",
        "|",
        ">",
        "'",
        '"',
        "#",
        "%",
    ),
    *("@", "---\n", "...\n", "<<: ", "\\", "\\U", "1", "true", "~", "\t", "\u2028", "é", "\x00", "\ufeff"),
)
PIECES = st.lists(st.sampled_from(WORDS)).map(lambda pieces: "".join(pieces).encode())


@given(st.binary() | st.text().map(str.encode) | PIECES)
def test_any_bytes_give_a_document_or_mistakes_and_never_anything_else(text: bytes) -> None:
    read_or_refuse(text)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\ufeff\ufffe\uffff"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXT, VALUES, min_size=1), st.booleans())
def test_what_another_program_writes_with_quotes_is_read_as_it_was(data: dict[str, Any], flow: bool) -> None:
    class NoAliases(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    NoAliases.add_representer(
        str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
    )
    text = yaml.dump(data, Dumper=NoAliases, default_flow_style=flow, allow_unicode=False)
    assert read(text.encode(), "f.yaml").data == data

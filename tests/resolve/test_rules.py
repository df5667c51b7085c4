"""The table means what a plain reading of it, row by row, means."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Operation
from gateway.resolve.rules import Default, Row, Source, Table, first, parse, shipped
from gateway.seams import Interface

ROWS = shipped()

# Paths that the table knows, whole and bent a little.
KNOWN = [
    "/v1/models",
    "/v1/models/nv/embed",
    "/v1/models/x/load",
    "/v1/chat/completions",
    "/v1/responses/resp_1",
    "/tokenize",
    "/v1/tokenize",
    "/v1/health/live",
    "/metrics",
    "/prometheus/metrics",
    "/openapi.json",
    "/v1/infer",
    "/biology/a/b/c",
    "/generate",
    "/v2",
    "/v2/models/stats",
    "/v2/models/m",
    "/v2/models/m/versions/1/infer",
    "/v2/models/m/ready",
    "/v2/repository/index",
    "/v2/repository/r/index",
    "/v2/repository/models/m/load",
    "/adapters/x",
    "/models",
    "/nothing",
    "/v1/genai/a/b",
    "/v1/cv/a/b/c",
    "/v2/logging",
    "/v1/realtime",
]
METHODS = ["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS", "WS"]
paths = st.one_of(
    st.sampled_from(KNOWN),
    st.builds(
        lambda path, tail: path + tail,
        st.sampled_from(KNOWN),
        st.sampled_from(["/", "x", "/x", "/versions/2", "/infer"]),
    ),
    st.text("/abv12", max_size=12).map("/".__add__),
)
some_rows = st.sets(st.sampled_from(sorted({row.set for row in ROWS}))).map(
    lambda sets: [row for row in ROWS if row.set in sets or row.set == "any"]
)


def naive(rows: list[Row], method: str, path: str) -> Row | None:
    for row in rows:
        if ("*" in row.methods or method in row.methods) and re.fullmatch(row.pattern.pattern, path):
            return row
    return None


@given(some_rows, st.sampled_from(METHODS), paths)
def test_the_fast_table_finds_what_reading_row_by_row_finds(rows: list[Row], method: str, path: str) -> None:
    table = Table(rows)
    found = table.find(method, path)
    wanted = naive(rows, method, path)
    assert (found.row if found else None) is wanted
    literal = table.literal(method, path)
    assert literal is None or literal.row is wanted


def test_an_earlier_pattern_keeps_its_place_before_a_later_literal_path() -> None:
    rows = parse("a  GET  /x/.*  infer  none  -  -  deny\na  GET  /x/y  infer  none  -  -  grant\n")
    found = Table(rows).find("GET", "/x/y")
    assert found is not None
    assert found.row is rows[0]


VECTORS = [
    ("GET", "/v1/models", "list", Default.AUTH),
    ("GET", "/v1/models/x/load", "metadata", Default.AUTH),
    ("POST", "/v1/models/x/load", "admin", Default.DENY),
    ("POST", "/v1/chat/completions", "infer", Default.GRANT),
    ("POST", "/v1/chat/completions/", "unknown", Default.DENY),
    ("HEAD", "/v1/models", "unknown", Default.DENY),
    ("HEAD", "/v2/health/ready", "health", Default.PROBE),
    ("GET", "/v2/models/stats", "metrics", Default.OPS),
    ("GET", "/v2/models/m", "metadata", Default.GRANT),
    ("POST", "/v2/models/m/versions/1/generate_stream", "stream", Default.GRANT),
    ("POST", "/v2/models/m/versions/x/infer", "unknown", Default.DENY),
    ("POST", "/v2/repository/models/m/load", "admin", Default.DENY),
    ("OPTIONS", "/v1/chat/completions", "unknown", Default.DENY),
    ("POST", "/invocations", "admin", Default.DENY),
    ("GET", "/", "unknown", Default.DENY),
]


@pytest.mark.parametrize(("method", "path", "kind", "default"), VECTORS)
def test_a_request_falls_under_the_row_it_should(method: str, path: str, kind: str, default: Default) -> None:
    found = Table(ROWS).find(method, path)
    assert found is not None
    assert found.row.default is default
    assert (found.row.operation.value if found.row.operation else "unknown") == kind


def test_the_last_row_closes_everything_for_everyone() -> None:
    last = ROWS[-1]
    assert (last.set, last.operation, last.default) == ("any", None, Default.DENY)
    assert first([last], "ANYTHING", "/whatever") is not None


def test_columns_are_read_as_they_are_written() -> None:
    (row,) = parse("# a note\n\nkserve  GET,POST  /v/([a-z]+)(?:/([0-9]+))?  infer*  path:1  path:2  generate  ops\n")
    assert (row.set, row.methods, row.starred) == ("kserve", frozenset({"GET", "POST"}), True)
    assert (row.operation, row.source, row.group, row.version) == (Operation.INFER, Source.PATH, 1, 2)
    assert (row.interface, row.default) == (Interface.GENERATE, Default.OPS)


@pytest.mark.parametrize(
    "line",
    [
        "a  GET  /x  infer  none  -  grant",
        "a  GET  /x  guess  none  -  -  grant",
        "a  GET  /x  infer  elsewhere  -  -  grant",
        "a  GET  /x  infer  none  -  chats  grant",
        "a  GET  /x  infer  none  -  -  perhaps",
        "a  GET  /x  infer  path:1  -  -  grant",
        "a  GET  /(x  infer  none  -  -  grant",
    ],
)
def test_a_row_that_makes_no_sense_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        parse("# head\n" + line)

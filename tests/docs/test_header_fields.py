"""docs/protocols.md tells which header fields cross the gateway: each that stays behind, each that is added."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from gateway import headers
from gateway.call import AnswerHead, Call, Channel, Principal

PAGE = (Path(__file__).parents[2] / "docs" / "protocols.md").read_text()
SECTION = PAGE.split("\n## Header fields\n", 1)[1].split("\n## ", 1)[0]
_, OF_REQUESTS, ADDED, OF_ANSWERS = re.split(r"^\*\*", SECTION, flags=re.MULTILINE)
CALLER = Principal("al ice", "https://idp.test", "corp", frozenset({"b", "a,b", "é"}))
CALL = Call("0" * 32, Channel.HTTP, "GET", "/", None, ((b"host", b"gw.test"),), "10.0.0.9", 0.0)


def rows(part: str) -> dict[str, set[str]]:
    """The rows of a part's table: what the first cell says, and the names in the second."""
    cells = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")][1:]
    return {first.strip(): set(re.findall(r"`([^`]+)`", second)) for first, second in cells}


def text(names: frozenset[bytes] | tuple[bytes, ...], end: str = "") -> set[str]:
    return {name.decode() + end for name in names}


@pytest.mark.parametrize(
    ("why", "fields"),
    [
        ("they belong to one connection", text(headers._HOP_BY_HOP)),
        ("who the caller is, as the caller tells it; read here or not believed", text(headers._IDENTITY)),
        ("they steer an engine past the gateway", text(headers._ENGINE)),
        (
            "they say with a `_` how a body is to be read, beside the field that was looked at",
            {name.replace("-", "_") for name in text(headers._OF_BODIES)},
        ),
        ("what proxies say of the caller: all that begin so", text(headers._IDENTITY_PREFIXES, "*")),
        ("another path or method than the one that was checked: all that begin so", text(headers._PATH_PREFIXES, "*")),
        ("they steer an engine: all that begin so", text(headers._ENGINE_PREFIXES, "*")),
        ("they steer an engine: all that end so", {f"*{end.decode()}" for end in headers._ENGINE_SUFFIXES}),
        ("credentials: all that end so", {f"*{end.decode()}" for end in headers._CREDENTIAL_SUFFIXES}),
    ],
)
def test_the_page_names_each_field_of_a_request_that_stays_behind(why: str, fields: set[str]) -> None:
    assert rows(OF_REQUESTS)[why] == fields


def test_the_page_names_each_family_of_a_request_that_stays_behind() -> None:
    assert set(headers._PREFIXES) == {*headers._IDENTITY_PREFIXES, *headers._PATH_PREFIXES, *headers._ENGINE_PREFIXES}


def test_the_page_names_each_field_of_an_answer_that_stays_behind() -> None:
    told = rows(OF_ANSWERS)
    assert told["cookies, reports and claims of the backend about itself"] == text(headers._ANSWER_DROPS)
    assert told["all that begin so"] == text(headers._ANSWER_PREFIXES, "*")


def test_what_the_page_says_stays_behind_does_and_nothing_else() -> None:
    """By the name alone: as the code decides, not as its tables look."""
    stays = set().union(*rows(OF_REQUESTS).values()) - {"credential"}
    for name in (each.replace("*", "1").encode() for each in stays):
        fields = (*CALL.fields, (name, b"from-outside"))
        call = Call(CALL.id, CALL.channel, "GET", "/", None, fields, CALL.peer, 0.0)
        assert b"from-outside" not in [
            value for _, value in headers.RequestCrossing().outbound(call, CALLER, name_caller=False)[0].fields
        ]
    for name in (each.replace("*", "1").encode() for each in set().union(*rows(OF_ANSWERS).values())):
        assert headers.AnswerCrossing().outbound(AnswerHead(200, ((name, b"inside"),), 0)).fields == ()


def test_the_page_names_each_field_that_is_added_with_its_fixed_value() -> None:
    shared, own = headers.RequestCrossing().outbound(CALL, CALLER, name_caller=True)
    added = dict((*shared.fields, *own))
    named = [
        name
        for line in ADDED.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]
    assert sorted(name.lower() for name in named) == sorted(name.decode() for name in added)
    for name, value in (("X-Forwarded-Proto", "https"), ("Via", "1.1 nim-gateway")):
        assert f"| `{name}` | `{value}` |" in ADDED
        assert added[name.lower().encode()] == value.encode()


def test_groups_are_read_by_parting_and_then_decoding_as_the_page_says() -> None:
    fields = dict(headers.RequestCrossing().outbound(CALL, CALLER, name_caller=True)[1])
    assert [unquote(group) for group in fields[b"x-gateway-groups"].decode().split(",")] == ["a,b", "b", "é"]
    assert unquote(fields[b"x-gateway-subject"].decode()) == "al ice"


def test_the_address_in_the_pages_example_is_written_as_it_says() -> None:
    found = re.search(r"`(http://[^`]+)` becomes `([^`]+)`", OF_ANSWERS)
    assert found is not None
    for name in (b"location", b"content-location"):
        head = AnswerHead(201, ((name, found[1].encode()),), 0)
        assert headers.AnswerCrossing().outbound(head).fields == ((name, found[2].encode()),)

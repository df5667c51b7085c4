"""A refusal reaches each kind of client in the shape that client reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.call import Dialect
from gateway.dialects import ANTHROPIC_TYPE, OPENAI_TYPE, dialect_of, error_event, render
from gateway.errors import GRPC_CODE, HTTP_STATUS, Refusal, Truncated, UnknownModel

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()


def kinds(kind: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    yield kind
    for each in kind.__subclasses__():
        yield from kinds(each)


# Those of the family's own page: others only say more closely how one of them came about.
KINDS = sorted((kind for kind in set(kinds()) if kind.__module__ == "gateway.errors"), key=lambda kind: kind.__name__)


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/chat/completions", Dialect.OPENAI),
        ("/v1/messages", Dialect.ANTHROPIC),
        ("/v1/messages/count_tokens", Dialect.ANTHROPIC),
        ("/v2", Dialect.KSERVE),
        ("/v2/models/x/infer", Dialect.KSERVE),
        ("/", Dialect.OPENAI),
        ("", Dialect.OPENAI),
    ],
)
def test_the_path_tells_whose_errors_are_understood(path: str, dialect: Dialect) -> None:
    assert dialect_of(path) is dialect


def test_an_openai_error_is_an_object_with_four_members() -> None:
    content_type, body = render(UnknownModel(param="model"), Dialect.OPENAI)
    assert content_type == b"application/json"
    assert json.loads(body) == {
        "error": {
            "message": UnknownModel.default,
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    }


def test_an_anthropic_error_says_its_type_twice() -> None:
    _, body = render(UnknownModel("Gone."), Dialect.ANTHROPIC)
    assert json.loads(body) == {"type": "error", "error": {"type": "not_found_error", "message": "Gone."}}


def test_a_kserve_error_is_a_string() -> None:
    _, body = render(UnknownModel("Gone."), Dialect.KSERVE)
    assert json.loads(body) == {"error": "Gone."}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dialect", Dialect)
def test_every_refusal_can_be_said_in_every_dialect_without_its_detail(kind: type[Refusal], dialect: Dialect) -> None:
    _, body = render(kind("Do this.", detail="for the log"), dialect)
    assert "Do this." in body.decode()
    assert b"for the log" not in body


@given(st.text(), st.sampled_from(Dialect))
@example("lone \ud800", Dialect.OPENAI)
def test_any_message_gives_one_line_of_json(message: str, dialect: Dialect) -> None:
    _, body = render(Refusal("said: " + message), dialect)
    assert not set(b"\r\n\x00") & set(body)
    said = json.loads(body)["error"]
    assert (said if isinstance(said, str) else said["message"]) == "said: " + message


def test_a_cut_stream_ends_with_an_error_that_its_clients_raise() -> None:
    event = error_event(Truncated(), Dialect.OPENAI)
    assert event is not None
    assert re.fullmatch(rb"data: [^\r\n]+\n\n", event)
    assert json.loads(event[6:])["error"]["code"] == "stream_truncated"

    event = error_event(Truncated(), Dialect.ANTHROPIC)
    assert event is not None
    assert event.startswith(b"event: error\ndata: {")
    assert event.endswith(b"}\n\n")

    event = error_event(Truncated(), Dialect.KSERVE)
    assert event is not None
    assert json.loads(event[6:]) == {"error": Truncated.default}


def test_every_code_that_is_spelled_specially_exists() -> None:
    assert OPENAI_TYPE.keys() | ANTHROPIC_TYPE.keys() <= HTTP_STATUS.keys()


def test_every_refusal_has_a_status_and_a_grpc_code() -> None:
    assert {kind.code for kind in KINDS} == HTTP_STATUS.keys() == GRPC_CODE.keys()


def rows() -> dict[str, list[str]]:
    """Rows of the page's table by code."""
    found = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"`[a-z_]+`", cells[0]) and cells[1].isdigit():
            found[cells[0].strip("`")] = cells
    return found


def test_the_page_lists_exactly_the_codes_there_are_with_their_statuses() -> None:
    assert {code: (int(cells[1]), int(cells[2])) for code, cells in rows().items()} == {
        code: (status, GRPC_CODE[code]) for code, status in HTTP_STATUS.items()
    }


def test_the_page_gives_the_types_that_are_sent() -> None:
    seen = {}
    for kind in KINDS:
        openai = json.loads(render(kind(), Dialect.OPENAI)[1])["error"]["type"]
        anthropic = json.loads(render(kind(), Dialect.ANTHROPIC)[1])["error"]["type"]
        seen[kind.code] = (f"`{openai}`", f"`{anthropic}`")
    assert {code: (cells[3], cells[4]) for code, cells in rows().items()} == seen


def test_the_page_tells_what_each_code_means() -> None:
    assert all(len(cells[5]) > 10 for cells in rows().values())

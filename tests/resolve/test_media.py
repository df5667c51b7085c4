"""What a body says it is decides whether it is read at all (B050, B055, B061)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Fields
from gateway.errors import BadRequest, Refusal, UnsupportedMedia
from gateway.resolve.media import require_form, require_json


def typed(*values: str, coding: str | None = None) -> Fields:
    fields = tuple((b"content-type", value.encode("latin-1")) for value in values)
    return fields if coding is None else (*fields, (b"content-encoding", coding.encode()))


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json;",
        "application/json ; profile=x",
        "application/vnd.x+json",
    ],
)
def test_json_in_utf8_is_taken_however_it_is_spelled(value: str) -> None:
    require_json(typed(value))


@pytest.mark.parametrize(
    "value",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "json",
        "",
        "application/json; charset=utf-7",
        "application/json; charset=utf-16",
        "application/json; charset=utf-8-sig",
        'application/json; charset="utf-16"',
    ],
)
def test_what_is_not_plain_json_in_utf8_is_not_read(value: str) -> None:
    with pytest.raises(UnsupportedMedia):
        require_json(typed(value))


def test_a_body_without_a_media_type_is_not_read() -> None:
    with pytest.raises(UnsupportedMedia):
        require_json(())


@pytest.mark.parametrize(
    "values",
    [
        ("application/json", "multipart/form-data; boundary=x"),
        ("application/json", "application/json"),
        ("application/json; charset=utf-8; charset=utf-7",),
        ("application/json; charset=",),
        ("application/json, text/plain",),
        ("application/json; charset*=utf-8''utf-16",),
        ("application/json; charset*0=utf-16",),
        ('application/json; charset="utf-8',),
    ],
)
def test_a_media_type_that_two_servers_could_read_differently_is_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        require_json(typed(*values))


@pytest.mark.parametrize(
    "coding", ["gzip", "x-gzip", "GZIP", "gzip, gzip", "deflate", "br", "zstd", "identity, gzip", "x"]
)
@pytest.mark.parametrize("require", [require_json, require_form])
def test_a_compressed_body_is_refused_and_the_caller_learns_what_is_taken(coding: str, require: object) -> None:
    assert callable(require)
    with pytest.raises(UnsupportedMedia) as caught:
        require(typed("application/json", coding=coding))
    assert (b"accept-encoding", b"identity") in caught.value.headers


@pytest.mark.parametrize("coding", ["identity", " Identity ", ""])
def test_the_identity_coding_is_no_coding(coding: str) -> None:
    require_json(typed("application/json", coding=coding))


@given(st.text(st.characters(max_codepoint=255), max_size=40).map("application/json".__add__))
def test_no_media_type_raises_anything_but_a_refusal(value: str) -> None:
    try:
        require_json(typed(value))
    except Refusal:
        return
    assert value.lower().strip(" \t;").startswith("application/json")


@pytest.mark.parametrize("parameter", ["boundary*=utf-8''x", "boundary*0=a; boundary*1=b", "Boundary*0*=us-ascii'en'x"])
def test_a_boundary_that_some_servers_would_put_together_is_refused(parameter: str) -> None:
    with pytest.raises(BadRequest):
        require_form(typed(f"multipart/form-data; boundary=bo; {parameter}"))


def test_a_form_keeps_its_boundary_as_it_is_written() -> None:
    media = require_form(typed('Multipart/Form-Data; boundary="a B,c"'))
    assert media.parameters["boundary"] == "a B,c"

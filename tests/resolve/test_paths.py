"""One path, one meaning: what could be read in two ways is refused (B029, B030, B059)."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import AmbiguousModel, BadRequest, NotFound, Refusal
from gateway.resolve.paths import MAX_TARGET, agree, check, model_id, plain

REFUSED = [
    "",
    "*",
    "@evil.test/",
    "http://evil.test:9/v1/models",
    "http:///v1/models",
    "//evil.test/v1",
    "/\\evil.test/v1",
    "/v1/models/../../v2/repository/index",
    "/v1/models/%2e%2e/%2e%2e/v2/repository/index",
    "/v1/./models",
    "/v1//models",
    "/v1/models%2F..%2F..%2Fv2%2Frepository%2Findex",
    "/v1/models;x=/../../v2/repository/index",
    "/v1/models/%2E",
    "/v1/models#/../../v2/repository/index",
    "/v1/models\\..\\..\\v2",
    "/v1/models%00",
    "/v1/models%0d%0aX: y",
    "/v1/models/%0A",
    "/v1/models/a%zzb",
    "/v1/models/a%2",
    "/v1/models/a%",
    "/v1/models/é",
    "/v1/models/a%5cb",
    "/v2/models/nv%2Fembed/infer",
    "/v1/models/..",
    "/v1/models/.",
    "/v1/mo\x7fdels",
    "/v1/mo dels",
    "/v1/models/a%1f",
    "/v1/%2fx",
    "/" + "a" * MAX_TARGET,
]


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_two_servers_could_read_differently_is_refused(path: str) -> None:
    with pytest.raises(BadRequest):
        check(path, None)


@pytest.mark.parametrize("path", ["/%76%31/models", "/v1/models%252F..", "/v1/chat%20x", "/v2/models/a%2Bb"])
def test_an_escape_that_names_nothing_served_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        check(path, None)


@pytest.mark.parametrize(
    "path", ["/", "/v1/models", "/v1/models/", "/v1/models/it's", "/v1/models/a+b", "/v1/models/nv%2Fembed", "/V1/x"]
)
def test_a_path_with_one_meaning_passes(path: str) -> None:
    check(path, "a=b&c=%20?/")


@pytest.mark.parametrize("query", ["x#/../..", "a=é", "a b", "a=\x00"])
def test_a_query_with_bytes_that_no_url_has_is_refused(query: str) -> None:
    with pytest.raises(BadRequest):
        check("/v1/models", query)


def test_a_target_over_the_limit_is_refused_wherever_the_length_is() -> None:
    check("/a", "q" * (MAX_TARGET - 2))
    with pytest.raises(BadRequest):
        check("/a", "q" * (MAX_TARGET - 1))


@given(st.text("/.%;#\\ab2eEfF05cC~?:@\x00é ", max_size=24).map("/v1".__add__))
def test_what_passes_has_no_second_reading(path: str) -> None:
    try:
        check(path, None)
    except Refusal:
        assert not plain(path)
        return
    decoded = unquote(path, "latin-1")
    assert re.search(r"//|[;#\\?\x00-\x20\x7f-\xff]", path) is None
    assert not {".", ".."} & set(path.split("/"))
    assert decoded == path or path.startswith("/v1/models/")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("nv/embed", "nv/embed"),
        ("nv%2Fembed", "nv/embed"),
        ("nv%2fembed", "nv/embed"),
        ("nv%252Fembed", "nv%2Fembed"),
        ("a+b", "a+b"),
    ],
)
def test_a_model_in_the_path_is_decoded_exactly_once(path: str, name: str) -> None:
    assert model_id("/v1/models/" + path) == name


@pytest.mark.parametrize("path", ["..%2F..%2Fv2", "a%2F%2Fb", "a%2F.%2Fb"])
def test_decoding_a_model_must_not_bring_dot_segments_to_light(path: str) -> None:
    with pytest.raises(BadRequest):
        model_id("/v1/models/" + path)


@pytest.mark.parametrize(
    "query",
    [
        "model=big",
        "Model=big",
        "MODEL_NAME=big",
        "a=b&model=big",
        "mod%65l=big",
        "a=b;model=big",
        "model=small&model=big",
        "model",
        "lora_path=x",
    ],
)
def test_a_query_must_not_name_another_model(query: str) -> None:
    with pytest.raises(AmbiguousModel):
        agree(query, frozenset({"small"}))


@pytest.mark.parametrize("query", [None, "", "model=small", "model=sm%61ll&x=big", "models=big"])
def test_a_query_may_name_the_same_model_or_none(query: str | None) -> None:
    agree(query, frozenset({"small"}))

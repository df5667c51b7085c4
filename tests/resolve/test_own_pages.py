"""The gateway's own pages: filtered by what is granted, and health for everybody."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from gateway.call import Dialect, ModelRef, Principal
from gateway.errors import NotFound, UnknownModel
from gateway.resolve.resolver import _PAGES, HttpResolver
from gateway.resolve.rules import shipped
from gateway.settings import Model
from tests.resolve.asking import ALICE, CHAT, HOLDING, LIMIT, SITE_RESOLVER, call, everything, page, pool, resolver


def only(*names: str, explicit: bool = False) -> Any:
    def may(principal: Principal, model: ModelRef, holding: int) -> bool:
        assert (principal, holding) == (ALICE, HOLDING)
        return model.name in names and (explicit or not model.explicit)

    return may


def test_the_list_shows_granted_names_and_aliases_once_and_nothing_else() -> None:
    """B060"""
    alice = resolver(may=only("small", "resnet50"))
    listed = json.loads(page(alice, "/v1/models").body)
    assert [each["id"] for each in listed["data"]] == ["small", "tiny", "resnet50", "r50"]
    assert {key for each in listed["data"] for key in each} == {"id", "object", "created", "owned_by"}
    assert json.loads(page(resolver(may=only()), "/v1/models").body)["data"] == []


@pytest.mark.parametrize("path", ["nv/embed", "nv%2Fembed", "nv%2fembed"])
def test_a_model_is_retrieved_however_its_slash_is_written(path: str) -> None:
    """B059"""
    answer = page(resolver(may=only("nv/embed")), "/v1/models/" + path)
    assert (answer.status, json.loads(answer.body)["id"]) == (200, "nv/embed")


@pytest.mark.parametrize("path", ["big", "nobody", "nv%252Fembed", "a%20b", "small/load", "engine/inner"])
def test_a_hidden_model_and_an_unknown_one_look_alike(path: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        page(resolver(may=only("small")), "/v1/models/" + path)
    assert caught.value.message == UnknownModel.default


def test_the_gateway_lists_models_even_where_no_pool_speaks_openai() -> None:
    triton = resolver(pool("t", ("kserve",), (Model("m"),)))
    assert json.loads(page(triton, "/v1/models").body)["data"][0]["id"] == "m"


def test_the_repository_index_needs_a_rule_that_lists_by_name() -> None:
    assert json.loads(page(resolver(may=only("ensemble", explicit=True)), "/v2/repository/index", "POST").body) == [
        {"name": "ensemble"}
    ]
    for may in (only("ensemble"), only("small", explicit=True)):
        with pytest.raises(NotFound):
            page(resolver(may=may), "/v2/repository/index", "POST")


def test_server_metadata_is_the_gateways_own() -> None:
    assert json.loads(page(SITE_RESOLVER, "/v2").body)["name"] == "nim-gateway"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "late"),
    [("/v1/health/live", 200), ("/v1/health/ready", 503), ("/v2/health/live", 200), ("/v2/health/ready", 503)],
)
def test_health_is_the_gateways_own_and_open_to_everybody(method: str, path: str, late: int) -> None:
    for ready, status in ((True, 200), (False, late)):
        answer = resolver(ready=ready).open(call(path, method))
        assert answer is not None
        assert (answer.status, bool(answer.body)) == (status, path.startswith("/v1"))


NOT_OPEN = [
    "/v2/repository/index",
    CHAT,
    "/v1/health/live/../../chat/completions",
    "/v1/health/liveX",
    "/xx/v1/health/live",
    "/v1/health/live/",
    "/v1/health",
    "/v1/health/%6cive",
    "/v1/models",
    "/metrics",
    "//v1/health/live",
]


@pytest.mark.parametrize("path", NOT_OPEN)
def test_only_the_exact_health_paths_are_open(path: str) -> None:
    """B031"""
    assert SITE_RESOLVER.open(call(path, "GET", query="x=/v1/health/live")) is None
    assert SITE_RESOLVER.open(call("/v1/health/live", "POST")) is None


def test_a_server_under_a_prefix_can_be_asked_for_health_there() -> None:
    prefixed = resolver(pool("t", ("kserve",), (Model("m"),), prefix="/t"))
    assert prefixed.open(call("/t/v2/health/ready", "GET")) is not None
    assert prefixed.open(call("/t/v1/health/ready", "GET")) is None


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/messages", "anthropic"),
        ("/v2/models/x", "kserve"),
        (CHAT, "openai"),
        ("/seeing/v2/x", "kserve"),
        ("", "openai"),
        ("*", "openai"),
    ],
)
def test_the_dialect_is_that_of_the_path_behind_the_prefix(path: str, dialect: str) -> None:
    assert SITE_RESOLVER.dialect(path) is Dialect(dialect)


def test_pages_are_tied_to_rows_that_the_table_has() -> None:
    patterns = {row.pattern.pattern for row in shipped()}
    assert set(_PAGES) <= patterns


OWN = ["/v1/models", "/v1/models/(.+)", "/v2", "/v2/repository(?:/[^/]+)?/index", "/v2/health/(live|ready)"]


@pytest.mark.parametrize("text", OWN)
def test_a_table_that_writes_a_page_of_the_gateway_in_another_way_is_refused(text: str) -> None:
    """Its row would be taken for one that goes to a backend."""
    rows = shipped()
    HttpResolver((), everything, LIMIT, lambda: True, rows)
    assert text in {row.pattern.pattern for row in rows}
    odd = re.compile(f"(?:{text})")
    rows = tuple(replace(row, pattern=odd) if row.pattern.pattern == text else row for row in rows)
    if "health" in text:
        HttpResolver((), everything, LIMIT, lambda: True, rows)  # found by its path, however that is written
        rows = tuple(row for row in rows if row.pattern is not odd)
    with pytest.raises(ValueError, match="no row for a page of the gateway"):
        HttpResolver((), everything, LIMIT, lambda: True, rows)

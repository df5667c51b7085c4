"""What nothing opens stays closed; what a pool opens is open for that pool alone."""

from __future__ import annotations

import pytest

from gateway.call import Channel, ModelRef, Operation
from gateway.errors import NotFound, UnknownModel
from gateway.settings import Model
from tests.resolve.asking import CHAT, SITE_RESOLVER, Sent, asked, call, chat, pool, refused, resolver

CLOSED = [
    ("POST", "/v1/chat/completions/"),
    ("POST", "/V1/chat/completions"),
    ("GET", CHAT),
    ("OPTIONS", CHAT),
    ("HEAD", "/v1/models"),
    ("POST", "/v1/models"),
    ("POST", "/v1/load_lora_adapter"),
    ("POST", "/v1/models/small/load"),
    ("POST", "/invocations"),
    ("POST", "/generate"),
    ("GET", "/docs"),
    ("POST", "/detokenize"),
    ("POST", "/v2/repository/models/resnet50/load"),
    ("GET", "/"),
    ("POST", "/v2/models/stats/infer/x"),
    ("GET", "/v2/"),
    ("GET", "/metricsX"),
    ("POST", "/v1/chat/completions/render"),
    ("GET", "/v2/systemsharedmemory/status"),
    ("POST", "/v1/health/ready"),
    ("GET", "/seeing/v1/models"),
    ("GET", "/seeing"),
]


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_what_no_rule_opens_is_not_found(method: str, path: str) -> None:
    sent = Sent(chat(model="small"))
    with pytest.raises(NotFound) as caught:
        asked(SITE_RESOLVER, call(path, method), sent)
    assert (caught.value.message, sent.asked) == (NotFound.default, None)


def test_websockets_are_closed() -> None:
    refused(NotFound, "/v1/realtime", method="WS")
    refused(NotFound, "/v1/models", method="GET", channel=Channel.WEBSOCKET)


def test_a_pool_opens_a_path_for_its_own_models_only() -> None:
    found = asked(SITE_RESOLVER, call("/tokenize"), chat(model="free"))
    assert found.needs == (ModelRef("free", Operation.INFER),)
    for name in ("small", "nobody"):
        refused(UnknownModel, "/tokenize", chat(model=name))
    refused(NotFound, "/v1/tokenize", chat(model="free"))


@pytest.mark.parametrize("path", ["/flush_cache", "/v1/models/free/load"])
def test_an_opened_route_of_unknown_or_admin_class_needs_admin_by_name(path: str) -> None:
    found = asked(SITE_RESOLVER, call(path))
    assert (found.pool.name, found.needs) == ("opened", (ModelRef("free", Operation.ADMIN, None, explicit=True),))


def test_routes_that_nothing_can_read_stay_closed_even_when_opened() -> None:
    paths = ("/v1/load_lora_adapter", "/v1/responses/resp_1", "/v1/realtime")
    odd = resolver(pool("p", ("openai",), (Model("m"),), open=paths))
    for path, method in zip(paths, ("POST", "GET", "WS"), strict=True):
        with pytest.raises(NotFound):
            asked(odd, call(path, method), b'{"lora_name":"m"}')

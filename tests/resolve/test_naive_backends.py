"""Whatever a backend does with what it gets, it runs the model that was to be granted."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from urllib.parse import parse_qsl

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.call import Fields, Operation
from gateway.errors import Refusal
from gateway.seams import Choice, OwnPage, Resolved
from tests.resolve.asking import JSON, SITE, Sent, call, fitting, resolver

RESOLVER = resolver()
SENT = {model.name: model.backend_name or model.name for pool in SITE for model in pool.models}

STREAMING = (b"/v1/chat/completions", b"/v1/messages")

names = st.sampled_from(
    ["small", "tiny", "big", "inner", "engine/inner", "nv/embed", "nv/embed-query", "free", "resnet50", "", "BIG"]
)
odd = st.one_of(names, st.none(), st.integers(0, 1), st.lists(names, max_size=2), st.booleans())
keys = st.sampled_from(
    [
        *(
            '"model"',
            '"mod\\u0065l"',
            '"model "',
            '"lora_path"',
            '"model_name"',
            '"stream"',
            '"x"',
            '"previous_response_id"',
        ),
        *('"Stream"', '"Model"', '"MODE\\u004c"', '"Model_Name"', '"LORA_PATH"'),
    ]
)
members = st.lists(st.tuples(keys, odd), max_size=4)
paths = st.sampled_from(
    [
        "/v1/chat/completions",
        "/v1/embeddings",
        "/v1/messages",
        "/tokenize",
        "/v2/models/{}/infer",
        "/v2/models/{}/versions/1/infer",
        "/v2/models/{}",
        "/v1/models/{}/load",
        "/v1/infer",
        "/seeing/v1/infer",
        "/v1/page-elements",
        "/biology/{}/x/y",
    ]
)
queries = st.sampled_from(
    [None, None, "", "model=big", "MODEL=big", "model=small", "a=b&model=engine/inner", "mod%65l=big", "x=;model=big"]
)
media = st.sampled_from([JSON, JSON, (), ((b"content-type", b"text/plain"),), (*JSON, (b"content-encoding", b"gzip"))])


def written(pairs: list[tuple[str, Any]]) -> bytes:
    return ("{" + ",".join(f"{key}:{json.dumps(value)}" for key, value in pairs) + "}").encode()


def last_wins(payload: bytes) -> object:
    return json.loads(payload).get("model")


def first_wins(payload: bytes) -> object:
    return json.loads(payload, object_pairs_hook=lambda pairs: dict(reversed(pairs))).get("model")


def by_bytes(payload: bytes) -> object:
    """A backend that takes the first thing that looks like a model, and unescapes nothing."""
    found = re.search(rb'"model"\s*:\s*"([^"]*)"', payload)
    return found.group(1).decode() if found else None


def by_folding(payload: bytes) -> object:
    """A backend that minds no case; the last one wins."""
    content = {key.casefold(): value for key, value in json.loads(payload).items()}
    return content.get("lora_path") or content.get("model_name") or content.get("model")


def by_adapter(payload: bytes) -> object:
    content = json.loads(payload)
    return content.get("lora_path") or content.get("model_name") or content.get("model")


def by_path(target: str) -> str | None:
    found = re.match(
        r"/v2/models/([^/?]+)|/v1/models/([^/?]+)/load|/v1/(page-elements)|/biology/([^/?]+/[^/?]+)/", target
    )
    return next(filter(None, found.groups()), None) if found else None


def streams(payload: bytes) -> bool:
    """Whether some backend would stream: one that takes any yes for one, and minds no case."""
    return any(value for key, value in json.loads(payload).items() if key.casefold() == "stream")


def runs(found: Resolved) -> set[object]:
    """The models that backends of several habits would run."""
    target = found.target.decode()
    query = {key.casefold(): value for key, value in parse_qsl(target.partition("?")[2])}
    models: set[object] = {query["model"]} if "model" in query else set()
    if found.payload:
        models |= {read(found.payload) for read in (last_wins, first_wins, by_adapter, by_folding)}
        models |= {by_bytes(found.payload)} - {None}
    elif (name := by_path(target)) is not None:
        models.add(name)
    return models


@settings(max_examples=600)
@given(paths, names, st.sampled_from(["POST", "GET"]), queries, members, media)
def test_every_backend_runs_the_model_that_has_to_be_granted(
    path: str, name: str, method: str, query: str | None, pairs: list[tuple[str, Any]], fields: Fields
) -> None:
    what = call(path.replace("{}", name), method, query, fields)
    try:
        found: Resolved | Choice | OwnPage = asyncio.run(RESOLVER.resolve(what, Sent(written(pairs))))
        found = fitting(found) if isinstance(found, Resolved) else found
    except Refusal as refusal:
        if refusal.status not in {400, 404, 415}:
            raise
        return
    if isinstance(found, Resolved):
        wanted = SENT[found.needs[0].name]
        assert {str(each).removesuffix("-query") for each in runs(found)} <= {wanted}
        assert found.needs[0].name in {model.name for model in found.pool.settings.models}
        assert not found.target.startswith(b"/seeing")
        if found.payload and found.target.partition(b"?")[0] in STREAMING and streams(found.payload):
            assert found.needs[0].operation is Operation.STREAM

"""Which models a JSON call may go to: the one it names, those that stand in for it, those that share its name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from gateway.call import Fields, ModelRef, Operation, Principal
from gateway.errors import AmbiguousModel, BadRequest, Refusal, TooLarge, UnknownModel
from gateway.resolve.jsonsource import ORDINARY
from gateway.resolve.resolver import HttpResolver
from gateway.resolve.sources import DECIDING, WATCHED
from gateway.seams import Choice, Resolved, Way
from gateway.settings import Alias, Model, Target
from gateway.terms import ENGINE_FIELDS
from tests.resolve.asking import ALICE, CHAT, JSON, LIMIT, Sent, built, call, chat, fitting, pool

POOLS = (
    pool(
        "first",
        ("openai", "anthropic", "nim-mgmt"),
        (Model("big", aliases=("large",), fallback=("small", "third", "away")), Model("e", fallback=("e2",))),
        open=("/tokenize",),
    ),
    pool("second", ("openai",), (Model("small", backend_name="engine/small", fallback=("third",)), Model("e2"))),
    pool("fourth", ("anthropic",), (Model("third"),), max_body=100),
    pool("triton", ("kserve",), (Model("tensors"),)),
    pool("only", ("retriever",), (Model("ranker", fallback=("spare",)),)),
)
ALIASES = (
    Alias("any", (Target("big", 3), Target("small", 1), Target("e2", 0))),
    Alias("one", (Target("third", 1),)),
)
RESOLVER = HttpResolver(built(*POOLS), lambda *_: True, LIMIT, lambda: True, aliases=ALIASES)
MESSAGES = "/v1/messages"


def found(path: str, body: bytes, query: str | None = None, fields: Fields = JSON) -> Resolved | Choice:
    asked = asyncio.run(RESOLVER.resolve(call(path, query=query, fields=fields), Sent(body)))
    assert isinstance(asked, Resolved | Choice)
    return fitting(asked) if isinstance(asked, Resolved) else asked


def ways(asked: Resolved | Choice, principal: Principal = ALICE) -> Sequence[Way]:
    choice = asked.others if isinstance(asked, Resolved) else asked
    return choice.ranked(principal) if choice is not None else ()


def names(asked: Resolved | Choice) -> list[str]:
    return [way.needs[0].name for way in ways(asked)]


def test_those_that_stand_in_come_in_their_order_where_they_speak_the_protocol() -> None:
    assert names(found(CHAT, chat(model="big"))) == ["small"]
    assert names(found(MESSAGES, chat(model="big"))) == ["third"]


def test_each_is_needed_as_itself_for_the_same_operation() -> None:
    for stream, operation in ((False, Operation.INFER), (True, Operation.STREAM)):
        [way] = ways(found(CHAT, chat(model="large", stream=stream)))
        assert way.needs == (ModelRef("small", operation, asked="big"),)
        assert way.resolved().needs == way.needs


def test_the_body_goes_out_with_its_name_and_is_else_the_same() -> None:
    body = b'{ "n":1.0, "model" : "big","messages":[] }'
    asked = found(CHAT, body)
    assert isinstance(asked, Resolved)
    [way] = ways(asked)
    other = way.resolved()
    assert (asked.payload, other.payload) == (body, body.replace(b"big", b"engine/small"))
    assert (other.pool.name, other.target, other.usage) == ("second", asked.target, asked.usage)


def test_those_that_stand_in_for_one_that_stands_in_are_not_asked() -> None:
    [way] = ways(found(CHAT, chat(model="big")))
    assert way.resolved().others is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, chat(model="e2")),
        ("/v1/embeddings", json.dumps({"model": "e-query", "input": "x"}).encode()),
        ("/tokenize", chat(model="big")),
    ],
)
def test_most_calls_have_nobody_to_stand_in(path: str, body: bytes) -> None:
    asked = found(path, body)
    assert isinstance(asked, Resolved)
    assert asked.others is None


def test_an_embedding_model_without_a_role_may_be_stood_in_for() -> None:
    assert names(found("/v1/embeddings", json.dumps({"model": "e", "input": "x"}).encode())) == ["e2"]


def test_a_body_that_is_too_large_for_one_does_not_go_there() -> None:
    for pad, fits in ((10, True), (200, False)):
        [way] = ways(found(MESSAGES, chat(model="big", pad="x" * pad)))
        if fits:
            assert way.resolved().pool.name == "fourth"
        else:
            with pytest.raises(TooLarge):
                fitting(way.resolved())


@pytest.mark.parametrize(("query", "more"), [("model=big", {}), (None, {"model_name": "big"})])
def test_a_call_that_names_its_model_twice_goes_to_no_other(query: str | None, more: dict[str, str]) -> None:
    """The second name would go on naming the model that was asked for."""
    [way] = ways(found(CHAT, chat(model="big", **more), query))
    with pytest.raises(AmbiguousModel):
        fitting(way.resolved())


def test_a_shared_name_leads_to_its_models_with_those_that_stand_in_for_them() -> None:
    asked = found(CHAT, chat(model="any"))
    assert isinstance(asked, Choice)
    assert sorted(names(asked)) == ["big", "small"]
    for way in ways(asked):
        assert way.needs[0].asked == "any"
        resolved = way.resolved()
        assert resolved.needs == way.needs
        assert json.loads(resolved.payload or b"")["model"] in {"big", "engine/small"}
        if way.needs[0].name == "big":
            assert [(other.needs[0].name, other.needs[0].asked) for other in ways(resolved)] == [("small", "any")]


def test_the_order_is_the_callers_own() -> None:
    callers = [Principal(f"user-{number}", "https://idp.test", "corp") for number in range(100)]
    orders = {tuple(way.needs[0].name for way in ways(found(CHAT, chat(model="any")), caller)) for caller in callers}
    assert orders == {("big", "small"), ("small", "big")}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (MESSAGES, chat(model="any")),
        (CHAT, chat(model="one")),
        (CHAT, chat(model="any-query")),
        (CHAT, chat(model="ANY")),
    ],
)
def test_a_shared_name_is_unknown_where_not_all_of_its_models_are(path: str, body: bytes) -> None:
    with pytest.raises(UnknownModel):
        found(path, body)


@pytest.mark.parametrize(
    "path", ["/v2/models/any/infer", "/v1/audio/transcriptions", "/tokenize", "/v1/models/any/load"]
)
def test_a_shared_name_is_no_name_in_paths_forms_and_on_routes_that_a_pool_opens(path: str) -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nany\r\n--b--\r\n'
    audio = "audio" in path
    fields: Fields = ((b"content-type", b"multipart/form-data; boundary=b"),) if audio else JSON
    with pytest.raises(Refusal) as caught:
        found(path, form if audio else chat(model="any"), fields=fields)
    assert caught.value.status == 404


@pytest.mark.parametrize(("query", "more"), [("model=big", {}), (None, {"model_name": "big"})])
def test_a_shared_name_and_another_one_are_refused_for_each_of_its_models(
    query: str | None, more: dict[str, str]
) -> None:
    each = ways(found(CHAT, chat(model="any", **more), query))
    assert each
    for way in each:
        with pytest.raises(AmbiguousModel):
            fitting(way.resolved())


def test_a_name_that_is_a_model_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="already means a model"):
        HttpResolver(
            built(*POOLS), lambda *_: True, LIMIT, lambda: True, aliases=(Alias("large", (Target("small", 1),)),)
        )


def test_members_that_are_not_looked_at_closer_are_none_that_anybody_looks_for() -> None:
    assert all(name.isascii() and name == name.casefold() for name in ORDINARY)
    assert not ORDINARY & WATCHED
    assert not ORDINARY & ENGINE_FIELDS
    assert not (ORDINARY & DECIDING) - {"model", "stream"}  # which are read in each body


@pytest.mark.parametrize("name", sorted(DECIDING - WATCHED))
def test_one_member_of_those_that_are_looked_for_has_the_whole_body_looked_at(name: str) -> None:
    with pytest.raises(BadRequest, match="lower case"):
        found(CHAT, chat(model="small", **{name.upper(): 1}))
    ordinary = found(CHAT, chat(model="small"))
    assert isinstance(ordinary, Resolved)
    assert ordinary.ordinary
    if name not in {"model", "stream"}:
        other = found(CHAT, chat(model="small", **{name: 1}))
        assert isinstance(other, Resolved)
        assert not other.ordinary

"""What each request asks for, and what would be sent on for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.call import ModelRef, Operation
from gateway.errors import AmbiguousModel, BadRequest, NotFound, Refusal, TooLarge, UnknownModel, UnsupportedMedia
from gateway.resolve.paths import NAMING
from gateway.seams import Resolved, UsageKind
from gateway.settings import Model
from tests.resolve.asking import CHAT, JSON, LIMIT, SITE_RESOLVER, Sent, asked, call, chat, pool, refused, resolver


def test_a_chat_is_sent_on_byte_for_byte() -> None:
    body = b'{ "messages":[],"model" : "small","seed":1e400 }'.replace(b"1e400", b"1e40")
    found = asked(SITE_RESOLVER, call(CHAT, query="a=%zz"), body)
    assert found.needs == (ModelRef("small", Operation.INFER),)
    assert (found.pool.name, found.target, found.payload) == ("llama", CHAT.encode() + b"?a=%zz", body)
    assert found.usage is UsageKind.OPENAI


@pytest.mark.parametrize(("stream", "operation"), [(True, "stream"), (None, "infer"), (False, "infer")])
def test_a_streamed_chat_needs_the_stream_operation(stream: object, operation: str) -> None:
    found = asked(SITE_RESOLVER, call(CHAT), chat(model="small", stream=stream))
    assert found.needs == (ModelRef("small", Operation(operation)),)


def test_only_routes_that_can_stream_ask_for_streaming() -> None:
    found = asked(SITE_RESOLVER, call("/v1/embeddings"), chat(model="small", stream=True))
    assert found.needs[0].operation is Operation.INFER


@pytest.mark.parametrize(("name", "sent", "needs"), [("tiny", "small", "small"), ("inner", "engine/inner", "inner")])
def test_the_backend_is_told_the_name_it_knows(name: str, sent: str, needs: str) -> None:
    found = asked(SITE_RESOLVER, call(CHAT), chat(model=name))
    assert json.loads(found.payload or b"")["model"] == sent
    assert found.needs[0].name == needs


def test_an_embedding_role_goes_on_to_the_backend_and_not_into_the_grant() -> None:
    body = chat(model="nv/embed-query", input="x")
    found = asked(SITE_RESOLVER, call("/v1/embeddings"), body)
    assert (found.needs[0].name, found.payload) == ("nv/embed", body)
    refused(UnknownModel, CHAT, body)


def test_an_absent_model_is_written_in_where_there_is_only_one() -> None:
    one = resolver(pool("p", ("openai",), (Model("m", backend_name="engine-m"),)))
    assert asked(one, call(CHAT), b'{"n":1}').payload == b'{"model":"engine-m","n":1}'
    assert refused(BadRequest, CHAT, b"{}").param == "model"


@pytest.mark.parametrize("name", ["nobody", "resnet50", "Magpie", "engine/inner", "small ", "SMALL"])
def test_an_unknown_model_is_not_found_in_the_same_words_for_every_name(name: str) -> None:
    refusal = refused(UnknownModel, CHAT, chat(model=name))
    assert (refusal.message, refusal.param) == (UnknownModel.default, "model")


@pytest.mark.parametrize("query", ["model=big", "x=1&mod%65l=big", "model=small&model=big"])
def test_a_query_that_names_another_model_is_refused_on_every_kind_of_route(query: str) -> None:
    """B052"""
    refused(AmbiguousModel, CHAT, chat(model="small"), query=query)
    refused(AmbiguousModel, "/v2/models/resnet50/infer", query=query)
    refused(AmbiguousModel, "/v1/infer", query=query)


@pytest.mark.parametrize("member", ["lora_name", "lora_path", "model_name", "model_id"])
def test_a_member_by_which_an_engine_takes_another_model_is_refused(member: str) -> None:
    for value in ("big", ["small"], {"small": 1}, 0):
        assert refused(AmbiguousModel, CHAT, chat(model="small", **{member: value})).param == member
    refused(AmbiguousModel, CHAT, chat(model="tiny", **{member: "tiny"}))
    for same in ("small", None):
        assert asked(SITE_RESOLVER, call(CHAT), chat(model="small", **{member: same})).needs[0].name == "small"


@pytest.mark.parametrize("name", ["Model", "MODEL", "mo\u0044el", "Model_Name", "LORA_NAME", "Stream", "\u017ftream"])
def test_a_member_that_engines_could_take_for_another_because_of_its_case_is_refused(name: str) -> None:
    """B051: some engines fold the case of names, and then the member stands twice."""
    for value in ("big", "small", True, None):
        refusal = refused(BadRequest, CHAT, chat(model="small", **{name: value}))
        assert refusal.param == name.casefold()
    assert asked(SITE_RESOLVER, call(CHAT), chat(model="small", Models="big")).needs[0].name == "small"


def test_what_a_backend_keeps_for_somebody_cannot_be_reached_by_its_id() -> None:
    """B063"""
    body = chat(model="small", previous_response_id="resp_of_bob")
    assert refused(NotFound, "/v1/responses", body).param == "previous_response_id"
    for path, method in (
        ("/v1/responses/resp_1", "GET"),
        ("/v1/responses/resp_1/cancel", "POST"),
        ("/v1/files/f", "GET"),
    ):
        refused(NotFound, path, method=method)


@pytest.mark.parametrize(
    "fields",
    [
        (),
        ((b"content-type", b"text/plain"),),
        ((b"content-type", b"application/json; charset=utf-16"),),
        (*JSON, (b"content-encoding", b"gzip")),
    ],
)
def test_a_body_that_would_have_to_be_relayed_unread_is_refused_unread(fields: Any) -> None:
    sent = Sent(chat(model="small"))
    with pytest.raises(UnsupportedMedia):
        asked(SITE_RESOLVER, call(CHAT, fields=fields), sent)
    assert sent.asked is None


def test_a_pool_may_take_larger_bodies_and_only_for_its_own_models() -> None:
    large = chat(model="small", pad="x" * LIMIT)
    assert asked(SITE_RESOLVER, call(CHAT), large).limit == 256 * 1024
    refused(TooLarge, CHAT, chat(model="free", pad="x" * LIMIT))
    refused(TooLarge, CHAT, chat(model="small", pad="x" * 256 * 1024))


def test_a_triton_call_is_told_by_its_path_and_its_body_goes_by_unread() -> None:
    sent = Sent(b"\x00\xff")
    fields = ((b"content-type", b"application/octet-stream"), (b"content-encoding", b"deflate"))
    found = asked(SITE_RESOLVER, call("/v2/models/resnet50/versions/2/infer", fields=fields), sent)
    assert found.needs == (ModelRef("resnet50", Operation.INFER, "2"),)
    assert (found.target, found.payload, found.limit, sent.asked) == (
        b"/v2/models/resnet50/versions/2/infer",
        None,
        LIMIT,
        None,
    )


def test_a_body_of_a_get_stays_here() -> None:
    """B038: a backend that does not read it would take it for the next request on the connection."""
    for path in ("/v2/models/resnet50/ready", "/v2/models/stats", "/v1/metadata"):
        assert asked(SITE_RESOLVER, call(path, "GET"), b"POST /v2/models/ensemble/infer HTTP/1.1").payload == b""


@pytest.mark.parametrize("name", [b"content-type", b"inference-header-content-length"])
def test_an_unread_body_whose_reading_is_announced_twice_is_refused(name: bytes) -> None:
    """B050."""
    for path in ("/v2/models/resnet50/infer", "/v1/infer"):
        for other in (b"1", b"2"):
            refused(BadRequest, path, b"x", fields=((name, b"1"), (name, other)))
        assert asked(SITE_RESOLVER, call(path, fields=((name, b"1"),)), b"x").payload is None


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v2/models/ensemble/infer", b"/v2/models/ens_v2/infer"),
        ("/v2/models/r50/versions/1/ready", b"/v2/models/resnet50/versions/1/ready"),
    ],
)
def test_a_path_is_rewritten_to_the_name_the_backend_knows(path: str, target: bytes) -> None:
    assert asked(SITE_RESOLVER, call(path, "GET" if path.endswith("ready") else "POST")).target == target


@pytest.mark.parametrize("backend_name", ["a/b", "x?y", "x#y", "..", "a b", "x%2e"])
def test_a_backend_name_that_would_bend_the_path_is_never_sent(backend_name: str) -> None:
    odd = resolver(pool("p", ("kserve",), (Model("m", backend_name=backend_name),)))
    with pytest.raises(NotFound):
        asked(odd, call("/v2/models/m/infer"))


@pytest.mark.parametrize(
    ("method", "path", "operation", "explicit"),
    [
        ("POST", "/v2/models/resnet50/generate_stream", Operation.STREAM, False),
        ("GET", "/v2/models/resnet50", Operation.METADATA, False),
        ("GET", "/v2/models/resnet50/ready", Operation.HEALTH, False),
        ("GET", "/v2/models/resnet50/config", Operation.METADATA, True),
        ("GET", "/v2/models/resnet50/stats", Operation.METRICS, True),
    ],
)
def test_the_operation_is_that_of_the_table_and_ops_rows_must_be_granted_by_name(
    method: str, path: str, operation: Operation, explicit: bool
) -> None:
    found = asked(SITE_RESOLVER, call(path, method))
    assert found.needs == (ModelRef("resnet50", operation, None, explicit),)
    assert found.payload == b"" if method == "GET" else found.payload is not None


def test_server_wide_operations_need_every_model_of_the_only_pool() -> None:
    found = asked(SITE_RESOLVER, call("/v2/models/stats", "GET"))
    assert found.needs == tuple(
        ModelRef(name, Operation.METRICS, None, explicit=True) for name in ("resnet50", "ensemble")
    )
    found = asked(SITE_RESOLVER, call("/v1/metadata", "GET"))
    assert {need.name for need in found.needs} == {"small", "big", "nv/embed", "inner"}
    two = resolver(*(pool(name, ("nim-mgmt",), (Model(name),)) for name in "ab"))
    with pytest.raises(NotFound):
        asked(two, call("/v1/metadata", "GET"))


def test_a_service_without_names_is_the_only_pool_that_speaks_it() -> None:
    found = asked(SITE_RESOLVER, call("/v1/infer"), b"{}")
    assert (found.needs, found.target, found.payload) == ((ModelRef("cosmos-1", Operation.INFER),), b"/v1/infer", None)
    found = asked(SITE_RESOLVER, call("/seeing/v1/infer", query="a=b"))
    assert (found.needs[0].name, found.target) == ("seer", b"/v1/infer?a=b")
    two = resolver(*(pool(name, ("generic-infer",), (Model(name),)) for name in "ab"))
    with pytest.raises(BadRequest, match="prefix"):
        asked(two, call("/v1/infer"))


def test_a_model_under_a_prefix_cannot_be_reached_without_it() -> None:
    pools = (pool("a", ("openai",), (Model("m"),), prefix="/a"), pool("b", ("openai",), (Model("n"),)))
    with pytest.raises(UnknownModel):
        asked(resolver(*pools), call(CHAT), chat(model="m"))
    assert asked(resolver(*pools), call("/a" + CHAT), chat(model="m")).target == CHAT.encode()


def test_a_path_can_be_the_model() -> None:
    found = asked(SITE_RESOLVER, call("/v1/page-elements"))
    assert (found.needs[0].name, found.target) == ("nv/pages", b"/v1/page-elements")
    refused(UnknownModel, "/v1/table-structure")


FORM = ((b"content-type", b"multipart/form-data; boundary=bo"),)


def form(**fields: str) -> bytes:
    inner = (
        f'--bo\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    return ("".join(inner) + "--bo--\r\n").encode()


@pytest.mark.parametrize(
    ("stream", "operation"),
    [
        *((said, "stream") for said in ("true", "True", "1", "yes", "YES", "on", "t", "y")),
        *((said, "infer") for said in ("false", "FALSE", "0", "no", "No", "off", "f", "n")),
    ],
)
def test_a_transcription_names_its_model_in_a_form(stream: str, operation: str) -> None:
    body = form(model="tiny", stream=stream)
    found = asked(SITE_RESOLVER, call("/v1/audio/transcriptions", fields=FORM), body)
    assert found.needs == (ModelRef("small", Operation(operation)),)
    assert found.payload == body.replace(b"tiny", b"small")


@pytest.mark.parametrize("stream", ["2", "00", "null", "None", "tru", "true ", " ", "ye\u017f", "0.0", "[]"])
def test_a_form_whose_stream_is_no_boolean_is_refused_and_the_field_is_named(stream: str) -> None:
    for path in ("/v1/audio/transcriptions", "/v1/images/edits"):
        assert refused(BadRequest, path, form(model="tiny", stream=stream), fields=FORM).param == "stream"


@pytest.mark.parametrize("stream", [0, 1, "", "false", "no", []])
def test_a_chat_whose_stream_is_no_boolean_is_refused_on_every_route(stream: object) -> None:
    for path in (CHAT, "/v1/embeddings", "/v1/messages"):
        assert refused(BadRequest, path, chat(model="small", stream=stream)).param == "stream"


def test_a_form_has_no_second_place_for_a_model() -> None:
    path = "/v1/audio/transcriptions"
    refused(AmbiguousModel, path, form(model="small"), fields=FORM, query="model=big")
    refused(UnsupportedMedia, path, chat(model="small"))


@pytest.mark.parametrize("name", NAMING)
def test_a_name_by_which_an_engine_takes_a_model_is_refused_wherever_it_stands(name: str) -> None:
    """One list for the query, for JSON and for forms."""
    transcriptions = "/v1/audio/transcriptions"
    refused(AmbiguousModel, CHAT, chat(model="small"), query=f"{name}=big")
    refused(AmbiguousModel, CHAT, chat(model="small", **{name: "big"}))
    refused(AmbiguousModel, transcriptions, form(**{"model": "small", name: "big"}), fields=FORM)
    refused(AmbiguousModel, transcriptions, form(model="small"), fields=FORM, query=f"{name}=big")


WRONG: list[tuple[str, str | None, dict[str, Any]]] = [
    ("chat", "model=x", {}),
    ("chat", None, {"model_name": "x"}),
    ("chat", None, {"Model": "x"}),
    ("chat", None, {"previous_response_id": "x"}),
    ("chat", None, {"stream": "x"}),
    ("form", "model=x", {}),
    ("form", None, {"model_name": "x"}),
    ("form", None, {"stream": "x"}),
    ("path", "model=x", {}),
    ("path", "Lora_Path=x", {}),
]


@pytest.mark.parametrize(("kind", "query", "more"), WRONG)
def test_what_is_wrong_beside_the_model_does_not_tell_whether_it_exists(
    kind: str, query: str | None, more: dict[str, Any]
) -> None:
    """B054: else somebody who may not know of a model could find it out.

    Either it is said of whatever name, or the model is known and its policy is asked first.
    """

    def refusal(model: str) -> tuple[type[Refusal], str, str | None]:
        if kind == "path":
            what, body = call(f"/v2/models/{model}/infer", query=query), b"{}"
        elif kind == "form":
            what, body = call("/v1/images/edits", query=query, fields=FORM), form(model=model, **more)
        else:
            what, body = call(CHAT, query=query), chat(model=model, **more)
        try:
            found = asyncio.run(SITE_RESOLVER.resolve(what, Sent(body)))
        except Refusal as refusal:
            return type(refusal), refusal.message, refusal.param
        assert isinstance(found, Resolved)
        assert found.wrong is not None
        return UnknownModel, UnknownModel.default, "model"  # said to whom it is hidden from

    for known in ("resnet50", "ensemble") if kind == "path" else ("big", "inner"):
        assert refusal("nobody") == refusal(known)


def test_a_voice_begins_with_its_model() -> None:
    path = "/v1/audio/synthesize"
    found = asked(SITE_RESOLVER, call(path, fields=FORM), form(voice="Magpie.EN-US.Mia", text="x"))
    assert found.needs == (ModelRef("Magpie", Operation.INFER),)
    assert found.payload == form(voice="Magpie-ML.EN-US.Mia", text="x")
    refused(UnknownModel, path, form(voice="Nobody.EN"), fields=FORM)
    refused(BadRequest, path, form(voice=".EN"), fields=FORM)
    refused(BadRequest, path, form(text="x"), fields=FORM)
    one = resolver(pool("p", ("speech-http",), (Model("m"),)))
    assert asked(one, call(path, fields=FORM), form(text="x")).payload == form(text="x")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/messages", UsageKind.ANTHROPIC),
        ("/v1/messages/count_tokens", UsageKind.NONE),
        ("/v1/responses", UsageKind.OPENAI),
        ("/tokenize", UsageKind.NONE),
    ],
)
def test_counts_are_expected_where_the_protocol_has_them(path: str, kind: UsageKind) -> None:
    model = "free" if path == "/tokenize" else "small"
    assert asked(SITE_RESOLVER, call(path), chat(model=model)).usage is kind


@pytest.mark.parametrize("path", [CHAT, "/v2/models/resnet50/infer"])
def test_a_query_that_is_no_query_is_refused_even_on_a_path_that_is_known(path: str) -> None:
    refused(BadRequest, path, chat(model="small"), query="x#/../../v2/repository/index")

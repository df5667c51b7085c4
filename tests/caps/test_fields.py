"""Fields that reach into the engine, pictures, prompts, tools and what lies elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import CapExceeded, TooLarge
from gateway.seams import Interface
from gateway.terms import ENGINE_FIELDS, NO_TERMS, Terms
from tests.caps.asked import meet

PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize("name", sorted(ENGINE_FIELDS))
@pytest.mark.parametrize("value", [1, None, "x"])
def test_a_field_that_reaches_into_the_engine_is_refused_from_everybody(name: str, value: object) -> None:
    for terms in ((), (NO_TERMS,), (Terms(max_tokens=5),), (Terms(engine_fields=ENGINE_FIELDS - {name}),)):
        with pytest.raises(CapExceeded) as refused:
            meet({"max_tokens": 1, name: value}, *terms)
        assert (refused.value.param, refused.value.detail) == (name, f"{name} is not in engine_fields")


@pytest.mark.parametrize("name", sorted(ENGINE_FIELDS))
def test_a_field_that_a_rule_opens_goes_on(name: str) -> None:
    assert meet({name: 1}, Terms(engine_fields=frozenset({name}))).says == {name: 1}
    assert meet({name: 1}, NO_TERMS, Terms(engine_fields=frozenset({name}))).rule == "r1"


def test_where_a_rule_clamps_such_fields_are_left_out_and_said() -> None:
    met = meet({"a": 1, "priority": 9, "rid": None}, Terms(clamp=True))
    assert (met.says, met.told) == ({"a": 1}, ["tell x-gateway-clamped: priority removed, rid removed"])


@pytest.mark.parametrize(
    ("interface", "body"),
    [(Interface.PLAIN, {"to\u212aenize": True}), (Interface.GENERATE, {"logprob\u017f": 9, "text_input": "a"})],
)
def test_a_name_that_no_header_can_hold_is_refused_also_where_a_rule_clamps(
    interface: Interface, body: dict[str, Any]
) -> None:
    with pytest.raises(CapExceeded) as refused:
        meet(body, Terms(logprobs=5, clamp=True), interface=interface, unread=True)
    assert (refused.value.param or "").isascii()


@pytest.mark.parametrize("holder", ["nvext", "extra_body", "parameters", "sampling_params"])
@pytest.mark.parametrize("name", ["priority", "Priority"])
def test_such_a_field_within_a_member_that_servers_unpack_is_refused(holder: str, name: str) -> None:
    for terms in ((), (Terms(clamp=True),)):
        with pytest.raises(CapExceeded) as refused:
            meet({holder: {name: 1}}, *terms)
        assert refused.value.param == f"{holder}.priority"
    assert meet({holder: {"x": 1}}).says == {holder: {"x": 1}}


PROMPTS: list[tuple[Interface, dict[str, Any], int]] = [
    (Interface.COMPLETIONS, {"prompt": "a"}, 1),
    (Interface.COMPLETIONS, {"prompt": ["a", "b", "c"]}, 3),
    (Interface.COMPLETIONS, {"prompt": [1, 2, 3, 4]}, 1),
    (Interface.COMPLETIONS, {"prompt": [[1, 2], [3]]}, 2),
    (Interface.COMPLETIONS, {"prompt": [1, "b", [2]]}, 3),
    (Interface.COMPLETIONS, {"prompt": [True, False]}, 2),
    (Interface.COMPLETIONS, {"prompt_embeds": ["a", "b"]}, 2),
    (Interface.COMPLETIONS, {"prompt": ["a", "b"], "prompt_embeds": ["c", "d"]}, 4),
    (Interface.COMPLETIONS, {"extra_body": {"prompt": ["a", "b", "c"]}}, 3),
    (Interface.GENERATE, {"text_input": ["a", "b"]}, 2),
    (Interface.PLAIN, {"input": ["a", "b"]}, 2),
    (Interface.PLAIN, {"input": [1, 2]}, 1),
    (Interface.RESPONSES, {"input": [{"role": "user"}, {"role": "user"}, {"role": "user"}]}, 0),
    (Interface.CHAT, {"messages": [{"role": "user"}, {"role": "user"}]}, 1),
    (Interface.CHAT, {"messages": [[{"role": "user"}], [{"role": "user"}]]}, 2),
]


@pytest.mark.parametrize(("interface", "body", "count"), PROMPTS)
@pytest.mark.parametrize("clamp", [False, True])
def test_prompts_are_counted_as_engines_count_jobs(
    interface: Interface, body: dict[str, Any], count: int, clamp: bool
) -> None:
    assert meet(body, Terms(prompts=max(count, 1), clamp=clamp), interface=interface).says == body
    if count > 1:
        with pytest.raises(CapExceeded, match=f"holds {count} prompts, and you may send {count - 1}"):
            meet(body, Terms(prompts=count - 1, clamp=clamp), interface=interface)


@pytest.mark.parametrize("name", ["tools", "functions"])
def test_tools_are_counted(name: str) -> None:
    assert meet({name: [{}, {}]}, Terms(tools=2)).changed == ()
    assert meet({name: None}, Terms(tools=0)).changed == ()
    with pytest.raises(CapExceeded, match=f"'{name}' holds 2 tools, and you may send 1 at most"):
        meet({name: [{}, {}]}, Terms(tools=1, clamp=True))
    with pytest.raises(CapExceeded, match="must be a list"):
        meet({name: {"a": {}}}, Terms(tools=5))


def user(*parts: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*parts]}]}


PICTURES = [
    (user({"type": "text", "text": PNG}), 0),
    (user({"type": "image_url", "image_url": {"url": PNG}}), 1),
    (user({"type": "image_url", "image_url": PNG}), 1),
    (user({"image_url": PNG}, {"image_url": PNG}), 2),
    (user({"type": "video_url", "video_url": {"url": PNG}}, {"type": "image_url", "image_url": {"url": PNG}}), 2),
    (user({"type": "image", "source": {"type": "base64", "data": "/9j/"}}), 1),
    (user({"type": "tool_result", "content": [{"type": "image", "source": {"type": "base64", "data": "/9j/"}}]}), 1),
    (user({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}), 0),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PNG}]}]}, 1),
    ({"input": [PNG, "text", PNG]}, 2),
    ({"passages": [{"image": PNG}, {"text": "x"}]}, 1),
    ({"image": [PNG, PNG]}, 2),
    ({"reference_image": PNG, "image_data": [PNG, PNG]}, 3),
    (user({"type": "image_url", "image_url": None, "uuid": "a"}), 1),
    ({"image_size": "1x1", "num_images": 4, "return_images": True}, 0),
    ({"tools": [{"type": "image"}], "response_format": {"image_url": PNG}}, 0),
]


@pytest.mark.parametrize(("body", "count"), PICTURES)
def test_pictures_and_videos_are_counted_wherever_they_stand(body: dict[str, Any], count: int) -> None:
    assert meet(body, Terms(images=count)).changed == ()
    if count:
        with pytest.raises(CapExceeded, match=f"holds {count} pictures and videos, and you may send {count - 1}"):
            meet(body, Terms(images=count - 1, clamp=True))


ELSEWHERE = [
    *(
        user({"type": "image_url", "image_url": {"url": url}})
        for url in (
            "http://10.0.0.1/a", "HTTP://x", " http://x", "\thttp://x", "//host/a", "file:///etc/passwd", "Data:x", "",
            " data:image/png,x", "/etc/passwd",
        )
    ),
    user({"type": "image_url", "image_url": "https://x/a.png"}),
    user({"type": "image_url", "image_url": ["https://x/a.png"]}),
    user({"type": "video_url", "video_url": {"url": "https://x"}}),
    user({"type": "audio_url", "audio_url": {"url": "https://x"}}),
    user({"type": "image_url", "image_url": None, "uuid": "of-bob"}),
    user({"type": "x", "image_urls": ["https://x"]}),
    user({"type": "x", "urls": ["https://x"]}),
    user({"type": "video", "path": "clip"}),
    user({"type": "input_file", "file_ids": ["of_bob"]}),
    {"prompt": "a", "image_path": "/etc/passwd"},
    {"prompt": "a", "video_path": "clip"},
    {"prompt": "a", "output_path": "/etc/cron.d/x"},
    {"prompt": "a", "image": "/srv/secret.png"},
    {"prompt": "a", "image": "secret.png"},
    {"prompt": "a", "input_reference": "/srv/x.mp4"},
    {"prompt": "a", "reference_url": "http://10.0.0.1"},
    {"prompt": "a", "control_image": "http://10.0.0.1"},
    {"prompt": "a", "ref_audio": "file:///x.wav"},
    {"text": "a", "image_data": ["http://10.0.0.1"]},
    {"extra_body": {"nested": [{"image_data": "http://10.0.0.1"}]}},
    user({"audio_url": "https://x"}),
    user({"type": "image", "image": "https://x"}),
    user({"type": "image", "source": {"type": "url", "url": "https://x"}}),
    user({"type": "image", "source": {"type": "file", "file_id": "file_of_bob"}}),
    user({"type": "tool_result", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}),
    {"input": [{"type": "message", "content": [{"type": "input_file", "file_url": "https://x"}]}]},
    {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": "https://x"}]}]},
    {"passages": [{"image": "https://x"}]},
    {"image_url": "https://x"},
    {"tools": [{"type": "mcp", "server_url": "https://x"}]},
    {"unheard_of": [{"Image_URL": "https://x"}]},
]  # fmt: skip

WITHIN = [
    user({"type": "text", "text": "see https://x"}),
    user({"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}),
    user({"type": "tool_use", "name": "fetch", "input": {"url": "https://x"}}),
    user({"type": "web_search_tool_result", "content": [{"type": "web_search_result", "url": "https://x"}]}),
    {
        "messages": [
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"url":"http://x"}'}}]}
        ]
    },
    {"input": [{"content": [{"type": "output_text", "annotations": [{"type": "url_citation", "url": "https://x"}]}]}]},
    {"tools": [{"type": "function", "function": {"parameters": {"properties": {"url": {"type": "string"}}}}}]},
    {"messages": "https://x", "image_url": None},
    user({"type": "input_audio", "input_audio": {"data": "//uQxAAAAAAAAAAAAAAAAAAAAAA", "format": "mp3"}}),
    user({"type": "text", "text": "a", "uuid": "mine"}),
    user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "see a/b.txt"}}),
    user({"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="}),
    user({"type": "search_result", "source": "https://x", "title": "t", "content": [{"type": "text", "text": "x"}]}),
    {"image": "/9j/4AAQ", "image_size": "1024x1024", "image_format": "a.b", "file_name": "a.png", "prompt": "a"},
    {"input": "a", "voice": "alloy", "audio": {"voice": "alloy", "format": "wav"}},
    {"user": "mailto:a@b", "metadata": {"url": "https://x", "image": "http://x"}},
]


@pytest.mark.parametrize("body", ELSEWHERE)
@pytest.mark.parametrize("clamp", [False, True])
def test_what_lies_elsewhere_is_refused_where_media_must_come_within_the_call(
    body: dict[str, Any], clamp: bool
) -> None:
    with pytest.raises(CapExceeded, match="refers to something outside") as refused:
        meet(body, Terms(remote_media=False, clamp=clamp))
    assert refused.value.param in body
    assert meet(body, NO_TERMS).says == body


@pytest.mark.parametrize("body", WITHIN)
def test_an_address_that_no_engine_fetches_is_no_media(body: dict[str, Any]) -> None:
    assert meet(body, Terms(remote_media=False)).says == body


def test_a_member_that_stands_twice_in_a_part_hides_nothing() -> None:
    body = b'{"messages":[{"content":[{"type":"image_url","image_url":"http://x","image_url":"%b"}]}]}' % PNG.encode()
    for terms in (Terms(remote_media=False), Terms(images=1, clamp=True)):
        with pytest.raises(CapExceeded, match="more than once"):
            meet(body, terms)


def test_a_body_beyond_its_cap_is_too_large() -> None:
    body = b'{"x":1}'
    assert meet(body, Terms(input=7)).payload == body
    with pytest.raises(TooLarge, match="larger than the 6 bytes that you may send") as refused:
        meet(body, Terms(input=6, clamp=True))
    assert (refused.value.status, refused.value.code) == (413, "request_too_large")

"""Chats that hold citations, searches and texts pass where media must come within; a chosen `type` exempts nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import CapExceeded
from gateway.seams import Interface
from gateway.terms import Terms
from tests.caps.asked import meet
from tests.caps.test_fields import PNG, user

CITED = {"type": "url_citation", "url_citation": {"url": "http://x", "title": "t", "start_index": 0, "end_index": 1}}
INNER = "http://169.254.169.254/"
PICTURE = {"type": "image_url", "image_url": {"url": INNER}}
PLAIN = {"type": "text", "media_type": "text/plain"}


def said(*annotations: object) -> dict[str, Any]:
    return {"input": [{"role": "assistant", "content": [{"type": "output_text", "annotations": [*annotations]}]}]}


#: As SDKs write them, and echo what they were answered.
ECHOED = [
    {"messages": [{"role": "assistant", "content": "a", "annotations": [CITED]}]},
    {"messages": [{"role": "assistant", "content": "a", "annotations": None}]},
    said({"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 0}),
    said({"type": "file_path", "file_id": "file-1", "index": 0}, {"type": "url_citation", "url": "http://x"}),
    {
        "input": [
            {"type": "web_search_call", "action": {"type": "search", "sources": [{"type": "url", "url": "http://x"}]}},
            {"type": "web_search_call", "action": {"type": "open_page", "url": "http://x"}},
            {"type": "apply_patch_call", "operation": {"type": "update_file", "path": "a/b.py", "diff": "x"}},
            {"type": "file_search_call", "results": [{"file_id": "file-1", "filename": "a.pdf", "text": "x"}]},
        ]
    },
    user({"type": "text", "text": "a", "citations": [{"type": "web_search_result_location", "url": "http://x"}]}),
    user({"type": "text", "text": "a", "citations": [{"type": "search_result_location", "source": "http://x"}]}),
    user({"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result", "url": "http://x"}}),
    user({"type": "tool_use", "name": "fetch", "input": {"url": "http://x", "files": [{"path": "a"}]}}),
    {"messages": [], "documents": [{"title": "t", "text": "x", "url": "http://x"}, {"text": "x", "source": "a.pdf"}]},
    *(
        user({"type": "document", "source": PLAIN | {"data": text}, "title": "a: b"})
        for text in ("note: hi", "note:hi", "http://x is where", "//a", "file:///x")
    ),
    user({"type": "x", "data": "note:hi"}),
    {"prompt": "a", "source": "note: hi", "reference": "see: a"},
]

#: What stands where an engine fetches, whatever its caller calls it.
FETCHED = [
    *(
        user({"type": "image_url", "image_url": {"url": INNER, "type": kind}})
        for kind in ("url_citation", "web_search_result", "search_result", "open_page", "web_search_call")
    ),
    user({"type": "image_url", "image_url": [{"url": INNER, "type": "url_citation"}]}),
    user({"image_url": {"url": {"url": INNER, "type": "url_citation"}}}),
    user({"type": "image", "source": {"type": "search_result", "url": INNER}}),
    user({"type": "image", "source": {"type": "search_result", "source": INNER}}),
    user({"type": "document", "source": {"type": "web_fetch_result", "url": INNER}}),
    user({"type": "image", "source": PLAIN | {"data": INNER}}),
    user({"type": "document", "source": PLAIN | {"data": "a", "url": INNER}}),
    user({"type": "document", "source": {"type": "text", "data": INNER}}),
    user({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": INNER}}),
    user({"type": "image_url", "image_url": {"annotations": [], "url": INNER}}),
    user({"type": "image_url", "image_url": {"annotations": {"url": INNER}}}),
    user({"type": "image_url", "image_url": {"input": {"url": INNER}, "type": "tool_use"}}),
    user({"type": "tool_use", "name": "f", "input": PICTURE}),
    user({"type": "tool_use", "name": "f", "input": {"content": [PICTURE]}}),
    user({"type": "tool_use", "name": "f", "input": [{"image_url": INNER}]}),
    user({"type": "tool_use", "name": "f", "input": {}, "image_url": INNER}),
    user({"type": "url_citation", "image_url": INNER}),
    user({"type": "text", "text": "a", "annotations": [PICTURE]}),
    {"annotations": [CITED]},
    {"annotations": [{"url": INNER}], "image": {"annotations": {"url": INNER}}},
    {"passages": [{"type": "search_result", "url": INNER}]},
    {"extra_body": {"annotations": [{"url": INNER}]}},
    {"input": [{"type": "web_search_call", "action": {"type": "search"}, "image_url": INNER}]},
    {"input": [{"type": "message", "action": {"url": INNER}, "operation": {"path": "/etc/passwd"}}]},
    {"input": [{"type": "web_search_call", "action": {"sources": [{"type": "input_image", "image_url": INNER}]}}]},
    {"input": [{"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": INNER}}]},
    {"messages": [], "documents": [{"type": "image_url", "url": INNER}]},
    {"messages": [], "documents": [{"title": "t", "image": INNER}]},
    {"messages": [], "documents": [{"content": [PICTURE]}]},
    {"messages": [], "documents": {"content": [PICTURE]}},
    {"messages": [], "documents": {"url": INNER}},
    {"input": [{"type": "search_result", "url": INNER}]},
    *(
        user({"type": "input_audio", "input_audio": {"data": text, "format": "wav"}})
        for text in (INNER, " http://x", "ht\ttp://x", "http:\n//x", "file:/etc/passwd", "file:x", "C:\\x", "\x01http://x")
    ),
    {"image": "secret:x.png"},
    {"image": "asset:of-bob"},
]  # fmt: skip


@pytest.mark.parametrize("body", ECHOED)
def test_what_sdks_write_and_echo_passes_where_media_come_within_the_call(body: dict[str, Any]) -> None:
    assert meet(body, Terms(remote_media=False)).says == body


@pytest.mark.parametrize("body", FETCHED)
def test_what_stands_where_an_engine_fetches_is_refused_whatever_type_it_names(body: dict[str, Any]) -> None:
    with pytest.raises(CapExceeded, match="refers to something outside"):
        meet(body, Terms(remote_media=False))


def test_documents_to_be_ranked_are_no_citations() -> None:
    body = {"query": "a", "messages": [], "documents": [{"url": INNER}]}
    with pytest.raises(CapExceeded, match="refers to something outside"):
        meet(body, Terms(remote_media=False), interface=Interface.PLAIN)


@pytest.mark.parametrize("interface", [Interface.CHAT, Interface.PLAIN])
def test_a_picture_among_documents_is_counted(interface: Interface) -> None:
    with pytest.raises(CapExceeded, match="holds 1 pictures"):
        meet({"messages": [], "documents": ["a", PNG]}, Terms(images=0), interface=interface)


def test_pictures_that_a_tool_was_asked_for_are_counted_where_they_are_parts() -> None:
    body = user({"type": "tool_use", "input": {"a": [{"type": "image_url", "image_url": {"url": PNG}}]}})
    assert meet(body, Terms(images=1)).says == body
    with pytest.raises(CapExceeded, match="holds 1 pictures"):
        meet(body, Terms(images=0))

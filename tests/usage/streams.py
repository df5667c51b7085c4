"""Event streams as backends of each kind send them."""

from __future__ import annotations

import json
from typing import Any


def frame(text: str = "", **more: Any) -> bytes:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small", "choices": choices, **more}
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def named(name: str, **content: Any) -> bytes:
    data = json.dumps({"type": name, **content}, separators=(",", ":")).encode()
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def counted(given: int, made: int) -> dict[str, Any]:
    details = {"cached_tokens": 1}
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": details,
    }


DONE = b"data: [DONE]\n\n"
LAST = frame(choices=[], usage=counted(3, 5)) + DONE

OK = frame("a") + frame("é漢🙂") + frame("c") + DONE
USAGE = frame("a") + frame("b") + LAST
NULLS = frame("a", usage=None) + frame("b", usage=None) + LAST
GROWING = b"".join(frame("x", usage=counted(3, made)) for made in range(1, 6)) + DONE
COMMENTS = b": keep-alive\n\n" + frame("a") + b": keep-alive\n\n" + LAST
CRLF = USAGE.replace(b"\n", b"\r\n")
LONE_CR = USAGE.replace(b"\n", b"\r")
NO_SPACE = USAGE.replace(b"data: ", b"data:")
SEVERAL_LINES = (
    frame("a") + b'data: {"choices":[],"usage"\ndata: :{"prompt_tokens":3,\ndata: "completion_tokens":5}}\n\n' + DONE
)
SEPARATORS = frame("\u2028\u0085 usage") + LAST
RESPONSES = (
    named("response.created", response={"usage": None})
    + named("response.output_text.delta", delta="hi")
    + named("response.completed", response={"output": [], "usage": {"input_tokens": 3, "output_tokens": 5}})
)
ANTHROPIC = (
    named("message_start", message={"usage": {"input_tokens": 3, "output_tokens": 1}})
    + named("ping")
    + named("content_block_delta", delta={"text": '"usage":{"output_tokens":9}'})
    + named("message_delta", delta={}, usage={"output_tokens": 5})
    + named("message_stop")
)

TOOL = (
    frame(choices=[{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}}])
    + b"".join(
        frame(choices=[{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}}])
        for part in ('{"pa', 'th":"', "/x\\n", '"}')
    )
    + LAST
)
ERROR = b'data: {"error":{"message":"worker limit","type":"Internal","code":500}}\n\n'
TRITON = b"".join(
    b'data: {"model_name":"t","model_version":"1","text_output":"%b"}\n\n' % text for text in (b"a", b"b", b"c")
)
LONG_LINE = frame("a") + frame("x" * 700_000) + LAST

#: Streams that backends are known to send, whole and broken.
SAMPLES = {
    "ok": OK,
    "usage": USAGE,
    "usage is null": NULLS,
    "tool": TOOL,
    "comment": COMMENTS,
    "crlf": CRLF,
    "no space": NO_SPACE,
    "several data lines": SEVERAL_LINES,
    "unicode separators": SEPARATORS,
    "growing usage": GROWING,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "error in the middle": frame("a") + ERROR + DONE,
    "error first": ERROR,
    "no done": OK.removesuffix(DONE),
    "cut in a text": OK[:-40],
    "cut in a character": OK[: OK.index("🙂".encode()) + 2],
    "long line": LONG_LINE,
    "triton": TRITON,
    "empty": b"",
}
#: Those that end with their protocol's last word; Triton's has none, and is whole after each event.
WHOLE = frozenset(SAMPLES) - {"error first", "no done", "cut in a text", "cut in a character", "empty"}
#: Those that tell of 3 tokens in and 5 out.
COUNTED = WHOLE - {"ok", "error in the middle", "triton"}

WITH_COUNTS = {
    "usage": USAGE,
    "null in every frame": NULLS,
    "growing": GROWING,
    "comments": COMMENTS,
    "crlf": CRLF,
    "lone cr": LONE_CR,
    "no space": NO_SPACE,
    "several data lines": SEVERAL_LINES,
    "unicode separators": SEPARATORS,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
}

"""The requests of the benchmark, as bytes: one chat call, one stream, one tensor.

Knows: HTTP/1.1 and the OpenAI and KServe shapes. Must not know: servers, sockets.
"""

from __future__ import annotations

import json

MODEL = "meta/llama-3.1-8b-instruct"
TENSOR_MODEL = "upload"
CHAT_PATH = "/v1/chat/completions"
TENSOR_PATH = f"/v2/models/{TENSOR_MODEL}/infer"


def chat_body(model: str = MODEL) -> bytes:
    """A short conversation of about 300 bytes."""
    call = {
        "model": model,
        "messages": [
            {"role": "system", "content": "You are a careful assistant. Answer in one short sentence."},
            {"role": "user", "content": "What is the capital of France, and which river does it lie on? Thank you!"},
        ],
        "max_tokens": 64,
        "temperature": 0.2,
        "stream": False,
    }
    return json.dumps(call, separators=(",", ":")).encode()


def stream_body(pace: int, count: int) -> bytes:
    """A call for `count` events, `pace` milliseconds apart."""
    call = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"pace={pace} count={count}"}],
        "max_tokens": 4096,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(call, separators=(",", ":")).encode()


def request(path: str, token: str, body: bytes, length: int | None = None) -> bytes:
    """A POST with a bearer token. With `length`, a tensor of that many bytes follows instead of `body`."""
    kind = "application/json" if length is None else "application/octet-stream"
    credential = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n{credential}"
        f"Content-Type: {kind}\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body

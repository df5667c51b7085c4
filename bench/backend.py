"""The backend of a run: answers a chat call, streams events at a pace, swallows tensors.

Started as `python -m bench.backend PORT`. As cheap as it can be in Python, since it shares a core with the load
generator; it reads requests that have a Content-Length and nothing else. The pace of a stream stands in the prompt:
`pace=20 count=100` (milliseconds, events).
Must not know: who measures what.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import cast

import uvloop

LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
PACE = re.compile(rb"pace=(\d+) count=(\d+)")
KEEP_LIMIT = 1024 * 1024  # a body up to this is kept and looked at, a longer one is counted only


def json_answer(body: bytes) -> bytes:
    """A 200 with `body` as JSON."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def chat_answer() -> bytes:
    """A chat completion of 370 bytes, as an OpenAI-compatible engine says it."""
    answer = {
        "id": "chatcmpl-8f14e45fceea167a5a36dedd4bea2543",
        "object": "chat.completion",
        "created": 1767225600,
        "model": "meta/llama-3.1-8b-instruct",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ""},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 42, "completion_tokens": 17, "total_tokens": 59},
    }
    bare = json.dumps(answer, separators=(",", ":"))
    text = ("Paris is the capital of France. " * 8)[: 370 - len(bare)]
    return bare.replace('"content":""', f'"content":"{text}"').encode()


def chunk(data: bytes) -> bytes:
    """RFC 9112 §7.1: one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(choices: str, tail: str = "") -> bytes:
    """One server-sent event with a chat completion chunk."""
    return (
        'data: {"id":"chatcmpl-8f14e45fceea167a5a36dedd4bea2543","object":"chat.completion.chunk",'
        f'"created":1767225600,"model":"meta/llama-3.1-8b-instruct","choices":{choices}{tail}}}\n\n'
    ).encode()


JSON = json_answer(chat_answer())
READY = json_answer(b'{"message":"ready"}')
SWALLOWED = json_answer(b'{"model_name":"upload","outputs":[]}')
REFUSED = b"HTTP/1.1 411 Length Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\nx-accel-buffering: no\r\ntransfer-encoding: chunked\r\n\r\n"
)
TOKEN = chunk(event('[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]'))
USAGE = '"usage":{"prompt_tokens":42,"completion_tokens":17,"total_tokens":59}'
STREAM_END = chunk(event("[]", f",{USAGE}")) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Answerer(asyncio.Protocol):
    """One connection: requests in turn, one stream at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._kept = b""
        self._swallowing = 0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by shape only

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False

    def data_received(self, data: bytes) -> None:
        if self._swallowing:
            self._swallow(data)
            return
        self._kept = self._kept + data if self._kept else data
        while self._kept and self._one_request():
            pass

    def _swallow(self, data: bytes) -> None:
        self._swallowing -= len(data)
        if self._swallowing <= 0:
            self._swallowing = 0
            self._transport.write(SWALLOWED)

    def _one_request(self) -> bool:
        """Answer the first kept request; False when it is not whole yet."""
        end = self._kept.find(b"\r\n\r\n")
        if end < 0:
            return False
        if self._kept.startswith(b"GET "):
            self._kept = self._kept[end + 4 :]
            self._transport.write(READY)
            return True
        length = LENGTH.search(self._kept, 0, end)
        if length is None:
            self._transport.write(REFUSED)
            self._transport.close()
            return False
        return self._with_body(end + 4, int(length[1]))

    def _with_body(self, start: int, length: int) -> bool:
        whole = start + length
        if length > KEEP_LIMIT:
            self._swallowing = length
            rest, self._kept = self._kept[start:], b""
            self._swallow(rest)
            return False
        if len(self._kept) < whole:
            return False
        body, self._kept = self._kept[start:whole], self._kept[whole:]
        if b'"stream":true' in body and (pace := PACE.search(body)):
            self._stream(int(pace[1]) / 1000, int(pace[2]))
        else:
            self._transport.write(JSON)
        return True

    def _stream(self, pace: float, count: int) -> None:
        self._transport.write(STREAM_HEAD + TOKEN)
        self._next(self._loop.time() + pace, pace, count - 1)

    def _next(self, when: float, pace: float, left: int) -> None:
        self._timer = self._loop.call_at(when, self._tick, when, pace, left)

    def _tick(self, when: float, pace: float, left: int) -> None:
        if left <= 0:
            self._timer = None
            self._transport.write(STREAM_END)
            return
        if not self._paused:  # a peer that does not read gets fewer events, not a growing buffer here
            self._transport.write(TOKEN)
        self._next(when + pace, pace, left - 1)


async def main(port: int) -> None:
    """Serve on loopback until ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answerer(loop), "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))

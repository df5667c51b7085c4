"""What the stub backends of a soak answer: well, or in every bad way there is.

Every answer says back the marker of its request, so that an answer in the wrong hands is seen.
Knows: scripts of the tests' stub. Must not know: the gateway, who calls.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tests.parts import scripts
from tests.parts.scripts import Script, Then
from tests.parts.stub import Choice, Request, Stub

MARKER = re.compile(rb"m-[0-9a-f]{16}")
NOBODY = b"m-" + b"f" * 16  # the marker of answers that nobody asked for
BIG = 64 * 1024  # bytes of one piece of a big answer


def marker_of(request: Request) -> bytes:
    """The marker in a body, else in the head, else nothing."""
    found = MARKER.search(request.body) or MARKER.search(request.head)
    return found[0] if found else b""


def stub(answer: Choice) -> Stub:
    """A stub that forgets what it has answered: a soak is longer than its memory."""

    def forgetful(request: Request) -> Script:
        made.requests.clear()
        made.probes.clear()
        return answer(request)

    made = Stub(forgetful)
    return made


def well(request: Request) -> Script:
    """As a healthy engine: an event stream, a big answer or a small one, as the body asks."""
    marker = marker_of(request)
    wanted = _asked(request)
    if wanted.get("stream"):
        return scripts.sse(events(marker, int(wanted.get("events", 5))), float(wanted.get("every", 0)))
    if pieces := int(wanted.get("big", 0)):
        filler = (marker + b" ") * (BIG // (len(marker) + 1))
        return scripts.chunked([filler] * pieces, kind="text/plain")
    return scripts.sized(json.dumps({"marker": marker.decode(), "usage": USAGE}).encode())


USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


def tensor(request: Request) -> Script:
    """As a healthy Triton: says what it received."""
    said = {"marker": marker_of(request).decode(), "sha256": hashlib.sha256(request.body).hexdigest()}
    return scripts.sized(json.dumps(said).encode())


def ill(chance: Random) -> Choice:
    """Each time another way to fail, and now and then a good answer."""

    def answer(request: Request) -> Script:
        return chance.choice(list(ILL.values()))(request)

    return answer


def events(marker: bytes, count: int) -> list[bytes]:
    """Chat-completion events that carry the marker; the last one is `[DONE]`."""
    piece = b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"%b"}}]}\n\n' % marker
    return [piece] * count + [b"data: [DONE]\n\n"]


def _asked(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(request.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _truncated(request: Request) -> Script:
    return scripts.cut(marker_of(request) * 4, 4000)


def _cut_by_reset(request: Request) -> Script:
    return scripts.cut(marker_of(request) * 4, 4000, Then.RESET)


def _stream_cut(request: Request) -> Script:
    return scripts.sse(events(marker_of(request), 3)[:-1], end=(Then.CLOSE,))


def _stream_stalls(request: Request) -> Script:
    return scripts.sse(events(marker_of(request), 3)[:-1], end=(Then.WAIT,))


def _speaks_twice(request: Request) -> Script:
    """RFC 9112 §9.2: what follows an answer unasked is nobody's answer.

    At once: what came later, when the connection carries the next call, no proxy could tell from that call's answer.
    """
    bodies = (b'{"marker":"%b"}' % marker_of(request), NOBODY)
    return (b"".join(scripts.head(200, f"Content-Length: {len(body)}") + body for body in bodies),)


def _bad_chunks(request: Request) -> Script:
    whole = scripts.head(200, "Content-Type: application/json", "Transfer-Encoding: chunked")
    return (whole + scripts.chunk(marker_of(request)) + b"zz\r\nnonsense", Then.CLOSE)


def _two_lengths(request: Request) -> Script:
    return (scripts.head(200, "Content-Length: 18", "Content-Length: 19") + marker_of(request), Then.CLOSE)


ILL: Mapping[str, Callable[[Request], Script]] = {
    "well": well,
    "resets": lambda _: (Then.RESET,),
    "closes": lambda _: (Then.CLOSE,),
    "stalls": lambda _: (Then.WAIT,),
    "half a head": lambda _: (b"HTTP/1.1 200 OK\r\nContent-", Then.CLOSE),
    "stalls in its head": lambda _: (b"HTTP/1.1 200 OK\r\nContent-", Then.WAIT),
    "truncated": _truncated,
    "cut by a reset": _cut_by_reset,
    "a stream is cut": _stream_cut,
    "a stream stalls": _stream_stalls,
    "speaks twice": _speaks_twice,
    "bad chunks": _bad_chunks,
    "two lengths": _two_lengths,
    "not HTTP": lambda _: (b"\x16\x03\x01\x00\x05hello", Then.CLOSE),
    "a huge head": lambda _: (scripts.head(200, f"X-Filler: {'x' * 100_000}"), Then.WAIT),
    "endless interim": lambda _: (b"HTTP/1.1 102 Processing\r\n\r\n" * 50, Then.WAIT),
    "busy": lambda _: scripts.sized(b"{}", 503, "Retry-After: 1"),
    "fails": lambda _: scripts.sized(b'{"error":{}}', 500),
    "until it closes": lambda request: scripts.until_close(b'{"marker":"%b"}' % marker_of(request)),
}

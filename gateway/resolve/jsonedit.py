"""Changing members at the top level of a JSON body without touching another byte.

Knows: where members stand in a text that was read. Must not know: which members matter, and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from gateway.resolve import jsonbody

_SPACE = b" \t\n\r"  # RFC 8259 section 2


def edit(body: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """The body with these members as this JSON text, or without them (None); those that it lacks come first.

    `body` went through `jsonbody.peek`. A member that goes takes with it what stands between it and its neighbour.
    """
    spans = _spans(body)
    names = {name for name, _, _, _ in spans}
    kept = [_text(name) + b":" + text for name, text in changes.items() if text is not None and name not in names]
    if not spans:
        at = body.index(b"{") + 1
        return body[:at] + b",".join(kept) + body[at:]
    parts = [body[: spans[0][1]], b",".join(kept)]
    first = not kept
    before = spans[0][1]
    for name, start, colon, end in spans:
        text = changes.get(name, b"")
        if text is not None:
            gap = b"" if first else body[before:start] or b","
            parts += (gap, body[start:end]) if name not in changes else (gap, body[start:colon], text)
            first = False
        before = end
    parts.append(body[spans[-1][3] :])
    return b"".join(parts)


def _text(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode()


def _spans(body: bytes) -> list[tuple[str, int, int, int]]:
    """The members in order: name, and the offsets where it begins, where its value begins and where that ends."""
    names = [(name, start, _value(body, end)) for name, start, end in jsonbody.members(body)]
    if not names:
        return []
    edges = [*(_end(body, start) for _, start, _ in names[1:]), _end(body, len(body))]
    return [(name, start, value, edge) for (name, start, value), edge in zip(names, edges, strict=True)]


def _value(body: bytes, quote: int) -> int:
    """Where the value begins of the member whose name ends at this quote."""
    at = body.index(b":", quote) + 1
    while body[at] in _SPACE:
        at += 1
    return at


def _end(body: bytes, after: int) -> int:
    """Where the value ends that has only a comma, or the last brace, and white space between it and `after`."""
    at = after - 1
    while body[at] in _SPACE:
        at -= 1
    at -= 1
    while body[at] in _SPACE:
        at -= 1
    return at + 1

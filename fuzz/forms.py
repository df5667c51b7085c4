"""Form bodies: a wanted field has the value that every other reader finds, once, and writing a model changes no more.

An input is one byte (odd: urlencoded, even: multipart with the boundary `bo`), then the body.
"""

from __future__ import annotations

import re

from fuzz.material import Untold
from fuzz.references.forms import BOUNDARY, FORMS, MULTIPART, URLENCODED
from fuzz.references.messages import Refused
from gateway.errors import Refusal
from gateway.resolve.formbody import read
from gateway.resolve.media import Media

WANTED = frozenset({"model", "stream"})
NAMES = ("m", "nv/x+y=z&")

#: What we take and a reference does not, by its words.
WE_TAKE: tuple[tuple[str, str, str], ...] = (
    ("aiohttp", r"BadContentDispositionHeader: .*filename=", "a ';' in the name of a file, which is not looked at"),
    ("aiohttp", "Duplicate 'Content-Type'", "of a part that is not looked at"),
)


def check(data: bytes) -> None:
    """Raises `AssertionError` for a difference that is not allowed."""
    kind = URLENCODED if data[:1] and data[0] & 1 else MULTIPART
    media = Media(kind.partition(";")[0], {"boundary": BOUNDARY} if kind == MULTIPART else {})
    body = data[1:]
    try:
        form = read(media, body, WANTED)
    except Refusal as refusal:
        assert 400 <= refusal.status < 500, refusal
        return
    wanted = sorted((name.encode(), value.encode()) for name, value in form.values.items())
    _check_read(kind, body, wanted)
    for name in NAMES:
        try:
            after = form.rewritten("model", name)
        except Refusal:
            continue  # a boundary that looks like the name
        others = [field for field in wanted if field[0] != b"model"]
        _check_read(kind, after, sorted([*others, (b"model", name.encode())]))
        assert read(media, after, WANTED).values == {**form.values, "model": name}


def _check_read(kind: str, body: bytes, wanted: list[tuple[bytes, bytes]]) -> None:
    for name, parse in FORMS[kind].items():
        try:
            theirs = parse(body)
        except Refused as refused:
            if not any(name == who and re.search(words, str(refused)) for who, words, _ in WE_TAKE):
                raise Untold(f"{name} refuses what we take: {refused}") from refused
            continue
        found = sorted(field for field in theirs if field[0].decode("latin-1") in WANTED)
        if found != wanted:
            raise Untold(f"{name} finds {found}, we find {wanted}")

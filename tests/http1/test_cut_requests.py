"""Every raw request of `tests/parts/raw` reads the same however it is cut, and behind a head that is known already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from gateway.errors import Refusal
from gateway.http1.requests import RequestHead, RequestReader
from tests.http1.test_requests import Story
from tests.parts.rawcases import Case, cases, text

LIMIT = 32 * 1024

#: Requests above this are cut at some places instead of at all, and not into bytes.
EVERYWHERE = 2048
PLACES = 25

#: A door never feeds more at once.
STRIDE = 16 * 1024

KNOWN = text(r"{chat}\r\nContent-Length: 31\r\n\r\n{small}")


@dataclass(frozen=True)
class Told:
    """What a reader said, and whether it reads on. A head that came again has the length field of the first."""

    heads: list[RequestHead]
    bodies: list[bytes]
    ended: int
    refusal: type[Refusal] | None
    broken: bool


def told(pieces: Iterable[bytes], before: int = 0) -> Told:
    """What comes of these pieces, without the `before` first requests."""
    story, refusal = Story(), None
    reader = RequestReader(story, LIMIT)
    try:
        for piece in pieces:
            for start in range(0, len(piece), STRIDE):
                if not reader.broken:
                    reader.feed(piece[start : start + STRIDE])
    except Refusal as caught:
        refusal = type(caught)
    heads = [
        replace(head, fields=tuple(field for field in head.fields if field[0] != b"content-length"))
        for head in story.heads[before:]
    ]
    return Told(heads, story.bodies[before:], story.ended - before, refusal, reader.broken)


def cut(data: bytes, *places: int) -> list[bytes]:
    return [data[start:end] for start, end in pairwise([0, *places, len(data)])]


def title(case: Case) -> str:
    return case.title


@pytest.mark.parametrize("case", cases(), ids=title)
def test_a_raw_request_reads_the_same_wherever_it_is_cut(case: Case) -> None:
    """B029, B032 to B034, B038: a refusal may come earlier, but never another one, and nothing is told besides."""
    data = b"".join(case.pieces)
    whole = told([data])
    for place in range(1, len(data), 1 if len(data) <= EVERYWHERE else len(data) // PLACES):
        assert told(cut(data, place)) == whole, place
    if len(data) <= EVERYWHERE:
        assert told(data[at : at + 1] for at in range(len(data))) == whole


@pytest.mark.parametrize("case", cases(), ids=title)
def test_a_raw_request_reads_the_same_behind_heads_like_its_own(case: Case) -> None:
    data = b"".join(case.pieces)
    whole = told([data])
    assert told([KNOWN, KNOWN, data], before=2) == whole
    assert told([KNOWN + data], before=1) == whole
    assert told([KNOWN, KNOWN + data], before=2) == whole

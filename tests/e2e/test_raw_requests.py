"""Bytes that no library would send: each is answered as its row in `tests/parts/raw` says; a backend gets only that.

In one piece, byte by byte, cut within its line ends, behind a request in the same piece, and behind heads that the
gateway has come to know. Whatever is odd about the bytes, the backend's whole record is what was authorized.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.e2e.recorded import PATIENCE, Site
from tests.parts.client import Answer, Conversation, raw
from tests.parts.rawcases import Case, Seen, cases, text
from tests.parts.stub import Request

LAST = b"GET /v1/health/live HTTP/1.1\r\nHost: gw.test\r\nConnection: close\r\n\r\n"
SMALL = text("{small}")
PLAIN = (text(r"{chat}\r\nContent-Length: 31\r\n\r\n{small}"), Seen("POST", "/v1/chat/completions", SMALL))
BARE = (text(r"GET /v1/models HTTP/1.1\r\n{who}\r\n\r\n"), None)

#: What a backend may see the beginning of; perhaps only when the next case is under way.
MAY_BEGIN = {seen for case in cases() for seen in case.begun}

#: Larger requests are not sent byte by byte.
BYTEWISE = 4096


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))] if len(data) <= BYTEWISE else halves(data)


def halves(data: bytes) -> list[bytes]:
    """Cut within each line end (the first of them, where there are many)."""
    cuts = [found.end() for found in re.finditer(b"\r", data)][:40]
    return [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]


def whole(data: bytes) -> list[bytes]:
    return [data]


def converse(site: Site, case: Case, ways: tuple[str, ...]) -> None:
    """Hold the conversation of a case and look at what came of it, on both sides."""
    before = len(site.stub.requests)
    known = [BARE if case.pieces[0][:4] in {b"GET ", b"HEAD"} else PLAIN] * 2 if "known" in ways else []
    first = [PLAIN] if "behind" in ways else []
    with raw(site.gateway.port, site.gateway.ca, limit=PATIENCE) as line:
        talk = Conversation(line)
        for data, _ in known:
            talk.send(data.replace(b"{token}", site.token.encode()))
            assert talk.answer().status == 200
        answers = speak(talk, site, case, b"".join(data for data, _ in first), ways)
        assert tuple(answer.status for answer in answers) == (*(200 for _ in first), *case.statuses)
        closing = answers[-1]["connection"] == "close"
        assert case.stays_open is None or closing is not case.stays_open
        talk.send(LAST)
        if closing:
            talk.leave()  # the gateway lingers for those who still send
        else:
            assert talk.answer().status == 200
        assert talk.rest() == b""
    check_backend(site, before, [seen for _, seen in (*known, *first) if seen is not None], case)


def speak(talk: Conversation, site: Site, case: Case, first: bytes, ways: tuple[str, ...]) -> list[Answer]:
    cut = bytewise if "bytewise" in ways else halves if "halves" in ways else whole
    answers: list[Answer] = []
    owed = len(case.statuses) + bool(first)
    pieces = case.sent(site.token)
    for number, piece in enumerate(pieces, 1):
        talk.send(*cut(first.replace(b"{token}", site.token.encode()) + piece))
        first = b""
        while len(answers) < owed:
            at = len(answers) - owed + len(case.statuses)
            answer = talk.answer(bodiless=at in case.bodiless)
            if answer.status == 100 and case.continues:
                continue
            answers.append(answer)
            if answer.status == 0 or (answer.status == 100 and number < len(pieces)):
                break
    return answers


def check_backend(site: Site, before: int, first: list[Seen], case: Case) -> None:
    """It got what was to be authorized, whole, once and in order; else at most a beginning, where a row says so."""
    got = site.stub.requests[before:]
    assert [as_seen(request) for request in got if request.complete] == [*first, *case.seen]
    assert {Seen(request.method, request.target, b"") for request in got if not request.complete} <= MAY_BEGIN
    for request in got:
        site.check(request)


def as_seen(request: Request) -> Seen:
    return Seen(request.method, request.target, request.body)


def title(case: Case) -> str:
    return case.title


WAYS = [(), ("bytewise",), ("halves",), ("behind",), ("behind", "halves"), ("known",), ("known", "behind")]


@pytest.mark.parametrize("case", cases(), ids=title)
def test_a_raw_request_is_answered_as_its_row_says_however_it_comes(site: Site, case: Case) -> None:
    """B023, B024, B026, B029, B030, B032 to B036, B038."""
    for ways in WAYS:
        converse(site, case, ways)


def test_a_refused_connection_is_closed_by_the_gateway_though_the_caller_keeps_it(site: Site) -> None:
    with raw(site.gateway.port, site.gateway.ca, limit=PATIENCE) as line:
        talk = Conversation(line)
        talk.send(b"GET /v1/models HTTP/1.1\r\nHost : gw.test\r\n\r\n")
        assert talk.answer().status == 400
        assert talk.rest() == b""

"""Requests read from bytes: the same whatever the borders, and nothing that two parsers could read in two ways."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import BadRequest, ExpectationFailed, HeaderTooLarge, MethodNotAllowed, Misdirected, Refusal
from gateway.http1.requests import RequestHead, RequestReader, crowded, portion

LIMIT = 4096


@dataclass
class Story:
    """Keeps what the reader told: heads, bodies, ends."""

    heads: list[RequestHead] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    ended: int = 0

    def on_request(self, head: RequestHead) -> None:
        self.heads.append(head)
        self.bodies.append(b"")

    def on_request_data(self, piece: bytes) -> None:
        self.bodies[-1] += piece

    def on_request_end(self) -> None:
        self.ended += 1

    def on_request_again(self, head: RequestHead, content: bytes) -> None:
        self.heads.append(replace(head, length=len(content)))
        self.bodies.append(content)
        self.ended += 1


def read(*pieces: bytes) -> Story:
    story = Story()
    feed(RequestReader(story, LIMIT), *pieces)
    return story


def feed(reader: RequestReader, *pieces: bytes) -> None:
    for piece in pieces:
        reader.feed(piece)


def request(
    line: str = "POST /v1/completions HTTP/1.1", *fields: str, body: bytes = b"", host: str | None = "gw.test"
) -> bytes:
    lines = [line, *([f"Host: {host}"] if host is not None else []), *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


STREAM = (
    request("POST /v1/a HTTP/1.1", "Content-Length: 5", "X-A:  b ", body=b"hello")
    + request(
        "POST /v1/b HTTP/1.1", "Transfer-Encoding: chunked", body=b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-T: v\r\n\r\n"
    )
    + request("GET /v1/c?q=1 HTTP/1.1", "Connection: close")
)


@pytest.mark.parametrize("cut", range(len(STREAM)))
def test_three_requests_read_the_same_wherever_they_are_cut(cut: int) -> None:
    assert read(STREAM[:cut], STREAM[cut:]) == read(STREAM)


def test_three_requests_read_byte_by_byte() -> None:
    story = read(*(STREAM[i : i + 1] for i in range(len(STREAM))))

    assert [head.target for head in story.heads] == ["/v1/a", "/v1/b", "/v1/c?q=1"]
    assert story.bodies == [b"hello", b"abcde", b""]
    assert [head.length for head in story.heads] == [5, None, 0]
    assert [head.keep_alive for head in story.heads] == [True, True, False]
    assert story.ended == 3


def test_names_are_lower_case_values_are_stripped_and_trailers_never_join() -> None:
    story = read(STREAM)

    assert (b"x-a", b"b") in story.heads[0].fields
    assert all(name != b"x-t" for head in story.heads for name, _ in head.fields)


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: \x0bchunked",),
        ("Content-Length: 5, 5",),
        ("Content-Length: 5", "Content-Length: 5"),
        ("Content-Length: +5",),
        ("Content-Length: -1",),
        ("Content-Length: 0x5",),
        ("Content-Length: 1_000",),
        ("Content-Length:",),
        ("Content-Length: 000000000000000000005",),
        ("Host: twice",),
        ("Bad Name: x",),
        ("Bad( : x",),
        (": x",),
        ("X: a\x00b",),
        ("X: a", " folded"),
    ],
)
def test_framing_and_fields_with_two_readings_are_refused(fields: tuple[str, ...]) -> None:
    """B032, B034."""
    with pytest.raises(BadRequest):
        read(request("POST /v1/completions HTTP/1.1", *fields, body=b"0\r\n\r\n"))


@pytest.mark.parametrize(
    "body", [b"5;a\nb\r\nhello\r\n", b"5 \r\nhello\r\n", b"0x5\r\nhello\r\n", b"+5\r\nhello\r\n", b"-1\r\n"]
)
def test_odd_chunk_sizes_are_refused(body: bytes) -> None:
    """B033."""
    with pytest.raises(BadRequest):
        read(request("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=body))


@pytest.mark.parametrize("old", ["GET / HTTP/2.0", "GET / HTTP/0.9", "GET / HTTP/1.2", "GET /"])
def test_other_versions_are_refused(old: str) -> None:
    with pytest.raises(BadRequest):
        read(request(old))


def test_a_coding_in_http_1_0_is_refused() -> None:
    with pytest.raises(BadRequest):
        read(request("POST / HTTP/1.0", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"))


def test_http_1_1_without_host_is_refused_and_http_1_0_is_not() -> None:
    with pytest.raises(BadRequest):
        read(request("GET / HTTP/1.1", host=None))
    assert read(request("GET / HTTP/1.0", host=None)).ended == 1


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "OPTIONS", "FOO", "get", "PROPFIND"])
def test_methods_that_are_not_relayed_are_refused_with_those_that_are(method: str) -> None:
    """B038."""
    with pytest.raises(MethodNotAllowed) as refused:
        read(request(f"{method} /v1/models HTTP/1.1"))
    assert (b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE") in refused.value.headers


@pytest.mark.parametrize(
    ("target", "becomes"),
    [
        ("/v1/models", "/v1/models"),
        ("http://gw.test/v1/models?a=b", "/v1/models?a=b"),
        ("HTTPS://GW.test/v1/models", "/v1/models"),
        ("http://gw.test", "/"),
        ("http://gw.test?x", "/?x"),
    ],
)
def test_absolute_form_that_names_us_becomes_a_path(target: str, becomes: str) -> None:
    """B029."""
    assert read(request(f"GET {target} HTTP/1.1")).heads[0].target == becomes


@pytest.mark.parametrize("target", ["http://evil.test:9/v1/models", "http://gw.test:1/x"])
def test_absolute_form_that_names_somebody_else_is_misdirected(target: str) -> None:
    """B029."""
    with pytest.raises(Misdirected):
        read(request(f"GET {target} HTTP/1.1"))


@pytest.mark.parametrize(
    "target", ["http:///v1/models", "http://gw.test@evil.test/v1", "@evil.test/", "*", "ftp://gw.test/"]
)
def test_targets_that_are_no_path_are_refused(target: str) -> None:
    with pytest.raises(Refusal):
        read(request(f"GET {target} HTTP/1.1"))


def test_only_100_continue_is_an_expectation() -> None:
    """B024."""
    with pytest.raises(ExpectationFailed):
        read(request("POST / HTTP/1.1", "Expect: something-else"))
    assert read(request("POST / HTTP/1.1", "Expect: 100-Continue")).heads[0].expects_continue
    assert not read(request("POST / HTTP/1.0", "Expect: 100-continue")).heads[0].expects_continue


def test_a_header_is_refused_beyond_its_limit_and_not_before() -> None:
    rest = len(request("GET / HTTP/1.1", "X: ")) - len("GET ") - len(" HTTP/1.1\r\n\r\n")
    assert read(request("GET / HTTP/1.1", "X: " + "a" * (LIMIT - rest - 16))).ended == 1
    with pytest.raises(HeaderTooLarge):
        read(request("GET / HTTP/1.1", "X: " + "a" * LIMIT))


def test_a_field_without_end_is_refused_while_it_comes_in() -> None:
    reader = RequestReader(Story(), LIMIT)
    reader.feed(b"GET / HTTP/1.1\r\nX: ")
    with pytest.raises(HeaderTooLarge):
        feed(reader, *[b"a" * 1000] * 10)


@pytest.mark.parametrize("junk", [b"X: y\r\n", b"X-Long: " + b"a" * 500 + b"\r\n"])
def test_trailers_are_bounded(junk: bytes) -> None:
    """B033."""
    with pytest.raises(HeaderTooLarge):
        read(request("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=b"0\r\n" + junk * 2000))


def test_a_chunk_extension_without_end_is_refused() -> None:
    """B033."""
    reader = RequestReader(Story(), LIMIT)
    reader.feed(request("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=b"5;a="))
    with pytest.raises(BadRequest):
        feed(reader, *[b"a" * 1000] * 20)


def test_a_length_of_very_many_zeros_is_refused_like_any_other_mistake() -> None:
    """Python makes no number of more than 4300 digits."""
    with pytest.raises(BadRequest):
        RequestReader(Story(), 1 << 16).feed(request("POST / HTTP/1.1", "Content-Length: " + "0" * 5000 + "5"))


def test_one_byte_chunks_are_taken() -> None:
    story = read(request("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n"))

    assert story.bodies == [b"x" * 5000]


def test_an_upgrade_is_ignored_and_nothing_behind_it_is_read() -> None:
    story = Story()
    reader = RequestReader(story, LIMIT)
    reader.feed(
        request("GET /v1/realtime HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket") + b"GET /b HTTP/1.1\r\n\r\n"
    )

    assert [head.target for head in story.heads] == ["/v1/realtime"]
    assert reader.broken


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    reader = RequestReader(Story(), LIMIT)
    try:
        for piece in pieces:
            if not reader.broken:
                reader.feed(piece)
    except Refusal as refusal:
        assert 400 <= refusal.status < 500  # noqa: PT017  either outcome is right


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20))
def test_a_chunked_body_is_what_was_chunked(body: bytes, sizes: list[int]) -> None:
    chunks, rest = b"", body
    for size in sizes:
        piece, rest = rest[:size], rest[size:]
        chunks += b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
    chunks += (b"%x\r\n%b\r\n" % (len(rest), rest) if rest else b"") + b"0\r\n\r\n"

    assert read(request("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=chunks)).bodies == [body]


TARGETS = ("/v1/a", "/v1/b")
TOKENS = ("alice", "bob")


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Requests of one connection, many of them with heads that differ in a length, a token, a path, or nothing."""
    requests = []
    for _ in range(draw(st.integers(1, 8))):
        body = draw(st.sampled_from([b"", b"{}", b"x" * 9, b"x" * 10, b"POST /v1/a HTTP/1.1\r\n\r\n"]))
        fields = [f"Authorization: Bearer {draw(st.sampled_from(TOKENS))}"]
        framing = draw(st.sampled_from(["length", "length", "lower", "chunked", "none"]))
        if framing == "chunked":
            fields.append("Transfer-Encoding: chunked")
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
        elif framing == "none":
            body = b""
        else:
            fields.insert(
                draw(st.integers(0, 1)), f"{'Content-Length' if framing == 'length' else 'content-length'}: {len(body)}"
            )
        requests.append(request(f"POST {draw(st.sampled_from(TARGETS))} HTTP/1.1", *fields, body=body))
    return requests


@given(conversations(), st.lists(st.integers(0, 2000), max_size=6))
def test_a_head_that_comes_again_reads_as_if_it_were_parsed(requests: list[bytes], cuts: list[int]) -> None:
    """One reader over the whole conversation, cut anywhere, against a fresh reader for each request."""
    stream = b"".join(requests)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    together = read(*(stream[start:end] for start, end in pairwise(edges)))
    alone = [read(one) for one in requests]

    assert together.bodies == [story.bodies[0] for story in alone]
    assert together.ended == len(requests)
    for head, story in zip(together.heads, alone, strict=True):
        expected = story.heads[0]
        assert (head.method, head.target, head.length, head.keep_alive) == (
            expected.method, expected.target, expected.length, expected.keep_alive
        )  # fmt: skip
        assert [f for f in head.fields if f[0] != b"content-length"] == [
            f for f in expected.fields if f[0] != b"content-length"
        ]


@given(conversations())
def test_whole_requests_in_one_piece_each_read_as_if_they_were_parsed(requests: list[bytes]) -> None:
    together = read(*requests)
    alone = [read(one) for one in requests]

    assert together.bodies == [story.bodies[0] for story in alone]
    assert [head.target for head in together.heads] == [story.heads[0].target for story in alone]
    assert [head.fields[1:] for head in together.heads if head.length is None] == [
        story.heads[0].fields[1:] for story in alone if story.heads[0].length is None
    ]


@pytest.mark.parametrize("framing", ["Content-Length: 3", "Transfer-Encoding: chunked"])
def test_an_upgrade_with_a_body_is_refused(framing: str) -> None:
    """The parser would take the body for another protocol's bytes, and the backend would wait for it."""
    with pytest.raises(BadRequest):
        read(request("POST / HTTP/1.1", "Connection: keep-alive, Upgrade", "Upgrade: x", framing, body=b"abc"))


@pytest.mark.parametrize("missing", [0, 1, None])
def test_not_many_requests_begin_in_what_is_read_at_once(missing: int | None) -> None:
    tiny = b"GET / HTTP/1.1\r\nHost:x\r\n\r\n"
    assert crowded(tiny * 100)
    assert portion(tiny * 3000, 0, missing) <= 100 * len(tiny)


def test_one_request_with_a_large_body_is_read_at_once() -> None:
    head = b"POST / HTTP/1.1\r\nHost:x\r\nContent-Length: 12000\r\n\r\n"
    assert not crowded(head + b"x" * 12000)
    assert portion(b"x" * 100_000, 0, 100_000) == 100_000

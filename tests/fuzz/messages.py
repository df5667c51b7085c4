"""Requests and answers by the grammar of RFC 9112, and what may happen to their bytes."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["X-A", "x-a", "Accept", "Authorization", "X!#$%&'*+-.^_`|~9", "Cookie"])
VALUES = st.sampled_from(
    ["", "a", "a b\tc", "a, b", "Bearer x.y-z", 'text/plain; a="b;c"', "\x80\xff", ":", "chunked", "!~", "close"]
)
SPACE = st.sampled_from(["", " ", " ", "\t", "  "])
TARGETS = st.one_of(
    st.sampled_from(["/", "/v1/a?b=c&d", "/%2e%2E//x;y", "http://gw.test/a", "http://gw.test", "/\x7e|`{}^", "*"]),
    st.text(st.sampled_from("abc/?%2.:@&=+$,;~-_"), max_size=12).map("/{}".format),
)
BODIES = st.one_of(
    st.binary(max_size=30), st.sampled_from([b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"0\r\n\r\n", b"\r\n"])
)

#: What byte-wise mischief is made of.
PIECES = st.sampled_from(
    [
        b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b"\x0b", b"\x7f", b"\xe9", b":", b";", b",", b"+", b"-", b"_",
        b"0", b"0x", b"HTTP/1.0", b"HTTP/2.0", b"Host: b\r\n", b"Content-Length: 3\r\n", b"Content-Length: 4\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n",
        b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: x\r\n", b"Expect: 100-continue\r\n", b" folded\r\n",
        b"0\r\n\r\n", b"ffffffffffffffff\r\n", b";x=y", b"\r\n\r\n",
    ]
)  # fmt: skip


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """The body in chunks of any size, with extensions and trailers."""
    text = b""
    while body:
        size = draw(st.integers(1, len(body)))
        digits = draw(st.sampled_from([b"%x", b"%X", b"00%x"])) % size
        text += digits + draw(st.sampled_from([b"", b"", b";x", b';x="y"'])) + b"\r\n" + body[:size] + b"\r\n"
        body = body[size:]
    return text + draw(st.sampled_from([b"0\r\n", b"000\r\n", b"0;x\r\n", b"0\r\nX-T: v\r\n"])) + b"\r\n"


@st.composite
def headed(draw: st.DrawFn, start: str, fields: list[str], body: bytes, framing: str) -> bytes:
    """Start line, fields in any order, and the body framed in this way."""
    if framing == "chunked":
        fields = [*fields, draw(st.sampled_from(["Transfer-Encoding: chunked", "transfer-encoding:Chunked "]))]
        body = draw(chunked(body))
    elif framing == "length":
        fields = [*fields, f"{draw(st.sampled_from(['Content-Length', 'content-length']))}:{draw(SPACE)}{len(body)}"]
    more = [f"{draw(NAMES)}:{draw(SPACE)}{draw(VALUES)}{draw(SPACE)}" for _ in range(draw(st.integers(0, 2)))]
    lines = [*fields, *more] if draw(st.booleans()) else [*more, *fields]
    return "\r\n".join([start, *lines]).encode("latin-1") + b"\r\n\r\n" + body


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request that anybody should take."""
    framing = draw(st.sampled_from(["length", "chunked", "none"]))
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]))
    body = b"" if framing == "none" else draw(BODIES)
    target = draw(TARGETS.filter(lambda target: target != "*"))
    return draw(headed(f"{method} {target} HTTP/1.1", ["Host: gw.test"], body, framing))


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """One answer that anybody should take; without a framing, the end of the connection ends it."""
    status = draw(
        st.sampled_from(["200 OK", "404 Not Found", "503 ", "299 x\x80", "204 No Content", "304 Not Modified"])
    )
    bodiless = status.startswith(("204", "304"))
    framing = "none" if bodiless else draw(st.sampled_from(["length", "chunked", "none"]))
    interim = draw(
        st.sampled_from([b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"])
    )
    body = b"" if bodiless else draw(BODIES)
    return interim + draw(headed(f"HTTP/1.1 {status}", [], body, framing))


@st.composite
def mutated(draw: st.DrawFn, streams: st.SearchStrategy[bytes], pieces: st.SearchStrategy[bytes] = PIECES) -> bytes:
    """A stream in which some bytes were put in, taken out, changed, or said again."""
    stream = draw(streams)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(stream)))
        end = min(len(stream), start + draw(st.sampled_from([0, 0, 1, 2, 8])))
        piece = draw(st.one_of(pieces, pieces, st.binary(max_size=1), st.just(stream[start:end] * 2)))
        stream = stream[:start] + piece + stream[end:]
    return stream

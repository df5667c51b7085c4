"""Raw requests with some bytes changed: what is accepted, another parser reads in the same way or refuses."""

from __future__ import annotations

import h11
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http1.test_cut_requests import KNOWN, Told, cut, told
from tests.parts.rawcases import cases

BASES = [data for case in cases() if len(data := b"".join(case.sent("tok"))) < 700]

PIECES = [
    *(bytes((byte,)) for byte in b"\r\n\0\t\x0b\x85\xa0\xff :;,#?%+-_01f"),
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"HTTP/1.0",
        b"Host: x\r\n",
        b"Content-Length: 5\r\n",
        b"Expect: 100-continue\r\n",
    ),
    *(b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: x\r\n"),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A request of the tables with a few bytes put in, taken out or replaced, or a line doubled or left out."""
    data = draw(st.sampled_from(BASES))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["put in", "replace", "take out", "double", "leave out"])):
            case "put in":
                data = data[:at] + draw(st.sampled_from(PIECES)) + data[at:]
            case "replace":
                data = data[:at] + draw(st.sampled_from(PIECES)) + data[at + 1 :]
            case "take out":
                data = data[:at] + data[at + draw(st.integers(1, 4)) :]
            case way:
                lines = data.split(b"\r\n")
                line = lines.pop(draw(st.integers(0, len(lines) - 1)))
                if way == "double":
                    lines[at % (len(lines) + 1) : 0] = [line, line]
                data = b"\r\n".join(lines)
    return data


def by_h11(data: bytes) -> list[tuple[str, str, bytes]]:
    """The whole requests that another parser finds, up to the first thing that it refuses."""
    line, found, body = h11.Connection(h11.SERVER), [], b""
    line.receive_data(data)
    try:
        while True:
            event = line.next_event()
            if isinstance(event, h11.Request):
                method, target, body = event.method.decode(), event.target.decode("latin-1"), b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                found.append((method, target, body))
                line.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                line.send(h11.EndOfMessage())
                line.start_next_cycle()
            else:
                return found
    except h11.ProtocolError:
        return found


def accepted(read: Told) -> list[tuple[str, str, bytes]]:
    whole = zip(read.heads, read.bodies, strict=True)
    return [(head.method, head.target, body) for head, body in whole][: read.ended]


@settings(max_examples=500)
@given(mutated(), st.integers(0, 700))
def test_what_is_accepted_is_read_by_another_parser_in_the_same_way(data: bytes, place: int) -> None:
    """B029, B032 to B034."""
    read = told([data])
    other = by_h11(data)
    for mine, theirs in zip(accepted(read), other, strict=False):
        assert mine == theirs or theirs[1].lower().startswith("http")  # absolute-form, of which the path is taken
    assert told(cut(data, min(place, len(data)))) == read
    assert told([KNOWN.replace(b"{token}", b"tok"), data], before=1) == read

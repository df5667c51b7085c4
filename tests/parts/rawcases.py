"""Requests as exact bytes, with what must come of them: the tables in `raw/`, read.

A case is a block of lines; an empty line ends it, `#` begins a comment.

    what is odd about it (B032)
    = 400 close
    > POST /v1/chat/completions {small}
    ~ POST /v2/models/small/infer
    | {chat}
    | Content-Length: 31
    |
    | {small}\\

`=`: the statuses of all answers in order (`200/HEAD` for one without a body, `100?` for one that may be left out), and
whether the connection is then `open` or `close`; `either` where the answer may come before the end of a body that
nobody needs. `>`: a request that the backend gets, in order: method, target, body; without such lines it gets nothing.
`~`: one that may begin there but never ends. `|`: a line of the request, ended by CR LF unless it ends in a backslash,
with the escapes of Python's bytes; `{9*| X: y}` is nine of them. `! wait for 100`: the rest is sent when that came.
`{word}` stands for what `WORDS` says, `{9*x}` for nine `x`, `{token}` for the caller's token.
Knows: the form of the tables. Must not know: sockets, the gateway, the stub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("raw")
_WHO = r"Host: gw.test\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json"

WORDS = {
    "who": _WHO,
    "chat": rf"POST /v1/chat/completions HTTP/1.1\r\n{_WHO}",
    "infer": rf"POST /v2/models/small/infer HTTP/1.1\r\n{_WHO}",
    "small": '{"model":"small","messages":[]}',
    "big": '{"model":"big","messages":[]}',
    "stolen": r"GET /stolen HTTP/1.1\r\nHost: gw.test\r\n\r\n",
}

_WORD = re.compile(r"\{(" + "|".join(WORDS) + r")\}")
_TIMES = re.compile(r"\{([0-9]+)\*([^{}]+)\}")
_TOKEN = b"{token}"
_WAIT = "! wait for 100"
_MAYBE = "100?"
_ENDINGS = {"open": True, "close": False, "either": None}


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that the backend gets."""

    method: str
    target: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Case:
    """One row. `pieces`: what is sent, each but the last followed by an answer 100. `bodiless`: answers to HEAD.

    `continues`: a 100 may come first. `stays_open`: None for either.
    """

    title: str
    pieces: tuple[bytes, ...] = field(repr=False)
    statuses: tuple[int, ...]
    bodiless: frozenset[int]
    continues: bool
    stays_open: bool | None
    seen: tuple[Seen, ...]
    begun: tuple[Seen, ...]

    def sent(self, token: str) -> tuple[bytes, ...]:
        """The bytes, with this token in them."""
        return tuple(piece.replace(_TOKEN, token.encode()) for piece in self.pieces)


@cache
def cases(name: str = "*") -> tuple[Case, ...]:
    """The rows of a table, or of all. Raises `ValueError` for a block that is no case."""
    return tuple(case for file in sorted(_FOLDER.glob(f"{name}.txt")) for case in _parse(file.read_text("ascii")))


def text(template: str) -> bytes:
    """The bytes that a line of a table stands for, but for the token."""
    plain = _WORD.sub(lambda found: WORDS[found[1]], template)
    plain = _TIMES.sub(lambda found: int(found[1]) * found[2], plain)
    return plain.encode("ascii").decode("unicode_escape").encode("latin-1")


def _parse(table: str) -> Iterator[Case]:
    for block in re.split(r"\n{2,}", table):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            yield _case(lines[0], lines[1:])


def _case(title: str, lines: list[str]) -> Case:
    outcome = [word for line in lines if line.startswith("= ") for word in line[2:].split()]
    if not outcome or outcome[-1] not in _ENDINGS or any(line[0] not in "=>~|!{" for line in lines):
        raise ValueError(f"not a case: {title}")
    pieces: list[bytes] = [b""]
    for line in lines:
        if line == _WAIT:
            pieces.append(b"")
        elif line[0] in "|{":
            pieces[-1] += _sent(line)
    return Case(
        title,
        tuple(pieces),
        tuple(int(word[:3]) for word in outcome[:-1] if word != _MAYBE),
        frozenset(number for number, word in enumerate(outcome) if word.endswith("/HEAD")),
        _MAYBE in outcome,
        _ENDINGS[outcome[-1]],
        tuple(_seen(line) for line in lines if line.startswith("> ")),
        tuple(_seen(line) for line in lines if line.startswith("~ ")),
    )


def _sent(line: str) -> bytes:
    if line.startswith("{"):
        times, _, rest = line[1:-1].partition("*")
        return int(times) * _sent(rest)
    return text(line[2:].removesuffix("\\")) + (b"" if line.endswith("\\") else b"\r\n")


def _seen(line: str) -> Seen:
    method, target, *body = line[2:].split(" ", 2)
    return Seen(method, target, text(body[0]) if body else b"")

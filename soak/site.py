"""What every actor of a soak is given: where the gateway is, what to ask for, and its own chance, marker and token.

Knows: names of models and paths, the rule of the markers. Must not know: what any actor does.
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from soak.backends import MARKER
from soak.lines import Broken, Got, Line, request
from soak.tokens import Tokens

CHAT = "/v1/chat/completions"
GOOD, ILL, SIMULATED, LLAMA = "soak/good", "soak/ill", "soak/simulated", "soak/llama"
TENSOR, ECHO = "upload", "echo"
# Seconds an idle connection may have rested and still be used: the gateway closes it after KEEP_ALIVE, and a call sent
# in that very moment is lost by rights (RFC 9112 §9.3.1).
KEEP_ALIVE = 8.0
REUSE_WITHIN = KEEP_ALIVE / 2


class Wrong(Exception):  # noqa: N818  named for what it is
    """An answer, or the lack of one, that the gateway must not give."""


@dataclass(frozen=True, slots=True)
class Site:
    """`real`: models of real engines that are there."""

    port: int
    tls: ssl.SSLContext
    tokens: Tokens
    real: frozenset[str] = frozenset()


@dataclass(slots=True)
class Actor:
    """One actor: what it knows, and the connection it may have kept from its last act."""

    name: str
    site: Site
    chance: Random
    token: str = field(repr=False)
    kept: Line | None = None

    def marker(self) -> str:
        """A new one; never that of `NOBODY`, and not from the seed, or two runs could not be told apart."""
        return f"m-{secrets.token_hex(7)}00"

    def request(self, body: bytes, path: str = CHAT, *, chunks: int = 0, more: str = "") -> bytes:
        """A POST with this actor's token."""
        return request(path, self.token, body, chunks=chunks, more=more)

    async def line(self) -> Line:
        """A new connection."""
        return await Line.open(self.site.port, self.site.tls)

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[Line]:
        """The connection of the last act where that still serves, else a new one; kept when all goes well."""
        line, self.kept = self.kept, None
        if line is None or line.closed or time.monotonic() - line.used_at > REUSE_WITHIN:
            if line is not None:
                line.leave()
            line = await self.line()
        try:
            yield line
        except BaseException:
            line.leave()
            raise
        self.kept = line

    @asynccontextmanager
    async def fresh(self, *, reset: bool = False) -> AsyncIterator[Line]:
        """A new connection, left at the end."""
        line = await self.line()
        try:
            yield line
        finally:
            line.leave(reset=reset)

    def end(self) -> None:
        """Leave what was kept."""
        if self.kept is not None:
            self.kept.leave()
            self.kept = None


async def well_answered(line: Line, marker: str) -> Got:
    """The next answer, which has to be a 200 for this marker; raises `Wrong`."""
    try:
        got = await line.answer()
    except Broken as broken:
        raise Wrong(f"a good call broke off: {broken}") from broken
    must_be_ok(got)
    own(got.body, marker, needed=True)
    return got


def must_be_ok(got: Got) -> None:
    if got.status != 200:
        raise Wrong(f"a good call was answered {got.status}: {got.body[:300]!r}")


def own(body: bytes, marker: str, *, needed: bool) -> None:
    """No marker but this one; `needed`: and at least one. Raises `Wrong`."""
    found = set(MARKER.findall(body))
    if strange := found - {marker.encode()}:
        raise Wrong(f"the answer of another caller: {strange}, for {marker}")
    if needed and not found:
        raise Wrong(f"an answer without its marker: {body[:200]!r}")

"""A gateway before one backend that writes everything down, and a caller who sends exact bytes.

alice may use `small`, `nv/embed` and `pub/small`; the same backend serves `big` and `pub/big`, which she may not use.
Knows: what of a backend's record is sound whatever was sent. Must not know: what was sent.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.parts.client import Answer, Conversation, raw
from tests.parts.gateway import Config, Gateway, allow, pool
from tests.parts.stub import Request, Stub

#: Seconds for an answer; one that is owed and does not come fails the test.
PATIENCE = 20.0

GRANTED = ("small", "nv/embed", "pub/small")
RULES = [allow("alice", GRANTED, subjects={"users": ["alice"]})]

_NAME = re.compile(r"[!#$%&'*+.^`|~0-9a-z-]+")  # without `_`


def pools(url: str) -> list[Config]:
    """One backend under three kinds of routes."""
    kserve = {"protocols": ["kserve"], "health": {"path": "/v2/health/ready"}}
    return [
        pool("nim", ["small", "nv/embed", "big"], url, identity_headers=True),
        pool("triton", ["small", "big"], url, identity_headers=True, **kserve),
        pool("hosted", ["pub/small", "pub/big"], url, identity_headers=True, protocols=["hosted"]),
    ]


class Site:
    """The gateway, the backend, alice's token, and a connection of hers for as long as it is kept."""

    def __init__(self, gateway: Gateway, stub: Stub, token: str) -> None:
        self.gateway = gateway
        self.stub = stub
        self.token = token
        self._talk: Conversation | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def request(self, line: str, *fields: str, body: bytes = b"", token: str | None = None) -> bytes:
        """A whole request of alice (or of whoever has `token`); JSON unless the fields say otherwise."""
        lines = [line, "Host: gw.test", f"Authorization: Bearer {token or self.token}", *fields]
        if body and not any(field.lower().startswith("content-type") for field in fields):
            lines.append("Content-Type: application/json")
        lines += [f"Content-Length: {len(body)}"] * bool(body)
        return "\r\n".join((*lines, "", "")).encode("latin-1") + body

    def ask(self, data: bytes) -> tuple[Answer, list[Request]]:
        """The answer to one request, and what the backend got meanwhile."""
        before = len(self.stub.requests)
        if self._talk is None:
            self._talk = Conversation(self._held.enter_context(raw(self.gateway.port, self.gateway.ca, PATIENCE)))
        self._talk.send(data)
        answer = self._talk.answer()
        if answer["connection"] == "close":
            self._held.close()
            self._talk = None
        got = self.stub.requests[before:]
        for request in got:
            self.check(request)
        return answer, got

    def check(self, request: Request) -> None:
        """What holds for the head of every request that the backend gets."""
        names = [name for name, _ in request.fields]
        assert all(_NAME.fullmatch(name) for name in names), names
        assert b"root" not in request.head.lower()
        assert b"bearer" not in request.head.lower()
        assert request.values("host") == [f"127.0.0.1:{self.stub.port}"]
        assert request.values("x-gateway-subject") == ["alice"]
        assert len(request.values("content-length") + request.values("transfer-encoding")) <= 1

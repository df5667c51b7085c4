"""A resolver over pools like those of a real site, and short ways to ask it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from gateway import settings
from gateway.call import Call, Channel, Fields, ModelRef, Principal
from gateway.errors import Refusal, TooLarge
from gateway.exchange import Flow, Sink
from gateway.pools.backends import Pool, build_pools
from gateway.resolve.resolver import HttpResolver
from gateway.seams import Choice, OwnAnswer, Resolved
from gateway.settings import Model

ALICE = Principal("alice", "https://idp.test", "corp")
#: A number that no test makes otherwise: what the pages hand on is what they were given.
HOLDING = 0b1011
JSON: Fields = ((b"content-type", b"application/json"),)
LIMIT = 64 * 1024


def pool(name: str, protocols: Sequence[str], models: Sequence[Model], **changes: Any) -> settings.Pool:
    address = (settings.BackendAddress("http://10.0.0.1:8000"),)
    return settings.Pool(name, tuple(protocols), tuple(models), address, **changes)


SITE = (
    pool(
        "llama",
        ("openai", "anthropic", "nim-mgmt"),
        (
            Model("small", aliases=("tiny",)),
            Model("big"),
            Model("nv/embed"),
            Model("inner", backend_name="engine/inner"),
        ),
        max_body=256 * 1024,
    ),
    pool("triton", ("kserve",), (Model("resnet50", aliases=("r50",)), Model("ensemble", backend_name="ens_v2"))),
    pool("cosmos", ("generic-infer",), (Model("cosmos-1"),)),
    pool("seeing", ("generic-infer",), (Model("seer"),), prefix="/seeing"),
    pool("speech", ("speech-http",), (Model("Magpie", backend_name="Magpie-ML"), Model("Other"))),
    pool("pages", ("retriever",), (Model("nv/pages", aliases=("page-elements",), backend_name="page-elements"),)),
    pool("opened", ("openai",), (Model("free"),), open=("/tokenize", "/flush_cache", "/v1/models/free/load")),
)


def built(*wanted: settings.Pool) -> tuple[Pool, ...]:
    return build_pools(wanted, None, lambda _: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def everything(_: Principal, __: ModelRef, ___: int) -> bool:
    return True


def resolver(
    *wanted: settings.Pool,
    may: Callable[[Principal, ModelRef, int], bool] = everything,
    ready: bool = True,
) -> HttpResolver:
    return HttpResolver(built(*(wanted or SITE)), may, LIMIT, lambda: ready)


@dataclass
class Sent:
    """A body that has arrived; `asked` is the limit under which it was read whole, None while it was not."""

    content: bytes = b""
    asked: int | None = None
    replayable: bool = True
    now: bytes | None = None

    @property
    def length(self) -> int:
        return len(self.content)

    @property
    def received(self) -> int:
        return len(self.content)

    async def whole(self, limit: int) -> bytes:
        self.asked = limit
        if len(self.content) > limit:
            raise TooLarge
        return self.content

    def stream(self, sink: Sink, limit: int) -> Flow:
        raise AssertionError("resolving never streams")


def call(
    path: str, method: str = "POST", query: str | None = None, fields: Fields = JSON, channel: Channel = Channel.HTTP
) -> Call:
    return Call("0" * 32, channel, method, path, query, fields, "10.0.0.9", 0.0)


def asked(who: HttpResolver, what: Call, body: bytes | Sent = b"") -> Resolved:
    """What the call resolves to; it must not be a page of the gateway's own."""
    sent = body if isinstance(body, Sent) else Sent(body)
    resolved = asyncio.run(who.resolve(what, sent))
    assert isinstance(resolved, Resolved)
    return fitting(resolved)


def fitting(resolved: Resolved) -> Resolved:
    """What somebody gets on with who may use the model. Raises what is wrong with the call for it."""
    if resolved.wrong is not None:
        assert (resolved.target, resolved.payload, resolved.limit) == (b"", b"", 0), "nothing of it could be sent"
        raise resolved.wrong
    return resolved


def page(who: HttpResolver, path: str, method: str = "GET") -> OwnAnswer:
    """The gateway's own answer to Alice."""
    found = asyncio.run(who.resolve(call(path, method), Sent()))
    assert not isinstance(found, Resolved | Choice)
    return found.answer(ALICE, HOLDING)


def chat(**members: Any) -> bytes:
    return json.dumps({"messages": [], **members}).encode()


SITE_RESOLVER = resolver()
CHAT = "/v1/chat/completions"


def refused(kind: type[Refusal], path: str, body: bytes = b"", method: str = "POST", **more: Any) -> Refusal:
    with pytest.raises(kind) as caught:
        asked(SITE_RESOLVER, call(path, method, **more), body)
    return caught.value

"""Gateways that are shared by the tests that only ask: before every real server, or before a stub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.conftest import StartGateway, Token
from tests.e2e import recorded
from tests.parts import scripts
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.llama import HEALTH, Llama
from tests.parts.process import wait_until
from tests.parts.stub import Stub
from tests.parts.triton import Triton

TINY = "meta/tiny"
ALIAS = "tiny"
LOCKED = "meta/locked"
KSERVE: list[str | Mapping[str, Any]] = ["addsub", "echo", "repeat", {"name": "sleepy", "backend_name": "slow"}]


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, llama: Llama, triton: Triton) -> Gateway:
    """`meta/tiny` and Triton's models are granted to data-science; `meta/locked` and `locked` to nobody here."""
    chat: list[str | Mapping[str, Any]] = [{"name": TINY, "aliases": [ALIAS]}, LOCKED]
    models = [*KSERVE, "locked"]
    kserve = {"protocols": ["kserve"], "health": {"path": "/v2/health/ready"}, "max_body": "128MiB"}
    pools = [pool("llama", chat, llama.url, health=HEALTH), pool("triton", models, triton.url, **kserve)]
    granted = [TINY, "addsub", "echo", "repeat", "sleepy"]
    rules = [
        allow("data-science", granted, operations=["infer", "stream", "list", "metadata", "health"]),
        allow("somebody-else", [LOCKED, "locked"], subjects={"groups": ["nobody-here"]}),
    ]
    running = start_shared_gateway(pools, rules)
    running.backends_up("llama", 1)
    running.backends_up("triton", 1)
    return running


@pytest.fixture(scope="module")
def backend() -> Iterator[Stub]:
    """A stub that the tests of a module share."""
    with Stub() as made:
        yield made


@pytest.fixture
def stub(backend: Stub) -> Stub:
    """The module's stub, as if nobody had asked it yet."""
    backend.requests.clear()
    return backend


@pytest.fixture(scope="module")
def stubbed(start_shared_gateway: StartGateway, backend: Stub) -> Gateway:
    """A gateway with that stub behind it, for the model `m` (OpenAI, Anthropic) and `t` (KServe)."""
    nim = pool("nim", ["m"], backend.url, protocols=["openai", "anthropic", "nim-mgmt"])
    kserve = pool("triton", ["t"], backend.url, protocols=["kserve"], health={"path": "/v2/health/ready"})
    running = start_shared_gateway([nim, kserve])
    running.backends_up("nim", 1)
    running.backends_up("triton", 1)
    return running


@pytest.fixture(scope="module")
def site(start_shared_gateway: StartGateway, token: Token) -> Iterator[recorded.Site]:
    """A gateway before a backend that writes everything down; in the end, all that it wrote must have been requests."""
    with Stub(scripts.sized(b"{}")) as stub:
        gateway = start_shared_gateway(recorded.pools(stub.url), recorded.RULES)
        for name in ("nim", "triton", "hosted"):
            gateway.backends_up(name, 1)
        with recorded.Site(gateway, stub, token("alice")) as site:
            yield site
        wait_until(lambda: gateway.metric("gateway_in_flight_requests") == 0, 10, "the last call")
        assert stub.left_over == [], "the backend got bytes that are no part of a request"

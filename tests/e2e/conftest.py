"""One gateway in front of every real server, shared by the tests that only ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.conftest import StartGateway
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.llama import HEALTH, Llama
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

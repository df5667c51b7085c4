"""A server whose readiness the test decides, and the client that probes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.fetch import Fetch
from tests.health.servers import Server, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as one:
        yield one


@pytest.fixture
async def fetch() -> AsyncIterator[Fetch]:
    async with Fetch() as one:
        yield one

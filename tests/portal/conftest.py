"""The pages of a site with one directory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.portal.serving import People, Relay, Site, served


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    async with served(Site([People("office", {"alice": "open sesame"})])) as relay:
        yield relay

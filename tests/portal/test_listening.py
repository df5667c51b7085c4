"""How the pages are spoken to: by the gateway alone, and without anything being written."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from gateway.portal.listening import Listening
from tests.portal.serving import Site, served


def named() -> set[str]:
    """Unix sockets on this machine that have a name: a path, or one of the abstract names."""
    return {word for word in Path("/proc/self/net/unix").read_text().split() if word[0] in "/@"}


async def test_the_pages_have_no_address_and_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are served also where nothing can be written: a container with a root that is only read."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    before = named()
    async with served(Site()) as relay:
        assert (await relay.ask("GET", "/.well-known/jwks.json")).status == 200
        assert {name for name in named() - before if "nim-gateway" in name or "pages" in name} == set()


async def test_pages_that_are_not_served_refuse_a_connection() -> None:
    listening = Listening(web.Application())
    with pytest.raises(ConnectionRefusedError):
        await listening.dial()
    await listening.open()
    (await listening.dial()).close()
    await listening.close()
    with pytest.raises(ConnectionRefusedError):
        await listening.dial()

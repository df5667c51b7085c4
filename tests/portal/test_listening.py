"""Where the pages listen: only the gateway gets there, and nothing is left behind."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from aiohttp import web

from gateway.portal.listening import Listening
from tests.portal.serving import Relay, Site, served


async def test_only_the_user_of_the_gateway_can_reach_the_pages(relay: Relay) -> None:
    folder = relay.socket.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert relay.socket.is_socket()


async def test_nothing_is_left_when_the_pages_close() -> None:
    async with served(Site()) as relay:
        folder = relay.socket.parent
        assert folder.exists()
    assert not folder.exists()


async def test_two_gateways_do_not_meet() -> None:
    async with served(Site()) as one, served(Site()) as other:
        assert one.socket != other.socket


async def test_where_no_socket_can_be_made_the_system_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError):
        await Listening(web.Application()).open()

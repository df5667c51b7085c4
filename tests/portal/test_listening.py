"""How the pages are spoken to: by the gateway alone, and without anything being written."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from aiohttp import web

from gateway.portal.application import make
from gateway.portal.listening import Listening
from tests.portal.serving import HEADER, Relay, Site, served


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
    listening = Listening(web.Application(), HEADER)
    with pytest.raises(ConnectionRefusedError):
        await listening.dial()
    await listening.open()
    (await listening.dial()).close()
    await listening.close()
    with pytest.raises(ConnectionRefusedError):
        await listening.dial()


@pytest.mark.parametrize("field", ["Authorization", "Cookie", "Accept"])
async def test_a_head_as_long_as_the_gateway_takes_is_answered_by_the_pages(relay: Relay, field: str) -> None:
    """A cookie of a neighbour, a ticket of Kerberos: both may be long."""
    answer = await relay.ask("GET", "/ui/", also=((field, "a" * (HEADER - 200)),))
    assert answer.status == 200
    answer = await relay.ask("GET", "/ui/nothing?" + "q" * (HEADER - 200))
    assert (answer.status, answer.fields["content-type"]) == (404, "text/html; charset=utf-8")
    answer = await relay.ask("GET", "/ui/", also=[("Accept", "*/*")] * 1000)
    assert answer.status == 200


async def test_what_cannot_be_read_is_not_written_down(caplog: pytest.LogCaptureFixture) -> None:
    listening = Listening(make(Site()), HEADER)
    await listening.open()
    reader, writer = await asyncio.open_connection(sock=await listening.dial())
    writer.write(b"POST /auth/token HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2Vj\x00cmV0\r\n\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()
    await writer.wait_closed()
    await listening.close()
    assert caplog.records == []


async def test_a_fault_of_the_server_in_front_of_the_pages_is_written_down(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("gateway.portal.listening.aiohttp").exception("broke", exc_info=ValueError("why"))
    assert [record.getMessage() for record in caplog.records] == ["broke"]

"""What the pages say where there is nothing to show, and what they write down of it."""

from __future__ import annotations

import logging
import re

import pytest

from gateway.call import Principal
from tests.portal.serving import People, Relay, Site, served
from tests.portal.test_token_page import basic


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/auth/nothing", 404), ("GET", "/auth", 404), ("GET", "/ui/a%0aevil", 404),
    ("GET", "/ui/nothing", 404), ("POST", "/ui/", 405), ("DELETE", "/ui/", 405), ("PUT", "/auth/login", 405),
    ("POST", "/", 405), ("GET", "/nowhere", 404),
])  # fmt: skip
async def test_a_page_that_does_not_exist_is_refused_as_a_page_of_ours(
    relay: Relay, method: str, path: str, status: int
) -> None:
    answer = await relay.ask(method, path)
    assert answer.status == status
    assert answer.fields["content-type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'none'" in answer.fields["content-security-policy"]
    assert answer.fields["cache-control"] == "no-store"
    assert b"To the first page" in answer.body
    assert ("allow" in answer.fields) == (status == 405)


async def test_a_path_writes_no_other_field_of_a_log_line(relay: Relay, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway")
    for path in ("/ui/x%20peer=6.6.6.6%20request_id=f00", "/auth/x%0apeer=6.6.6.6", "/ui/x'%20peer=6.6.6.6"):
        await relay.ask("GET", path)
    for record in caplog.records:
        assert re.findall(r" (\w+)=(\S+)", record.getMessage())[:3] == [
            ("reason", "'not_found'"), ("peer", "10.1.2.3"), ("request_id", "0" * 31 + "7"),
        ]  # fmt: skip
        assert " peer=6" not in record.getMessage()
        assert "\n" not in record.getMessage()
    assert len(caplog.records) == 3


async def test_a_name_that_a_directory_gives_writes_no_other_field_of_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "gateway")

    class Forging(People):
        async def log_in(self, name: str, password: str, peer: str) -> Principal:
            return Principal("alice provider=other", f"ldap:{self.name}", self.name)

    async with served(Site([Forging("office", {"alice": "x"})])) as relay:
        assert (await relay.ask("POST", "/auth/token", Authorization=basic("alice", "x"))).status == 200
    (record,) = caplog.records
    assert record.getMessage().startswith("token.issued subject='alice provider=other' provider=office ")

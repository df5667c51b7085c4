"""The benchmark beside a hanging directory: its directory, and when it says that a goal was missed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from bench.directory import CALLERS, GRACE, LAG, TIMEOUT, Window, misses, written
from bench.slowldap import SlowLdap, split
from gateway.errors import IdentityUnavailable
from gateway.identity.ldap.directory import LdapDirectory
from gateway.settings import Ldap, LdapUsers
from tests.identity.ldap.conftest import Throttle

QUIET = Window("nobody asks it", [1.0], [0.5], 0.0)
SILENT = Window("says nothing", [1.0], [0.5], 0.0, [(503, TIMEOUT), (503, 0.01)])


def directory(port: int) -> LdapDirectory:
    users = LdapUsers(dn_template="uid={username},dc=bench")
    settings = Ldap("slow", (f"ldap://127.0.0.1:{port}",), users, allow_insecure=True, timeout=0.5)
    return LdapDirectory(settings, None, lambda *_: None, Throttle())


async def test_the_slow_directory_lets_everybody_in_who_waits_for_it() -> None:
    with closing(SlowLdap(0.0)) as server, closing(directory(server.port)) as asked:
        assert (await asked.log_in("alice", "password", "192.0.2.1")).subject == "alice"


async def test_the_silent_directory_takes_connections_and_says_nothing() -> None:
    with (
        closing(SlowLdap(None)) as server,
        closing(directory(server.port)) as asked,
        pytest.raises(IdentityUnavailable),
    ):
        await asked.log_in("alice", "password", "192.0.2.1")


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x82", b"\x30\x82\x01"])
def test_half_a_length_is_no_length(data: bytes) -> None:
    assert split(data) is None


def test_what_meets_the_goals_is_said_to() -> None:
    assert misses([QUIET, SILENT]) == []
    assert "- met" in written("gateway", [QUIET, SILENT], [])
    assert f"{CALLERS} callers" in written("gateway", [QUIET, SILENT], [])


@pytest.mark.parametrize(
    "worse",
    [
        replace(SILENT, health=[LAG]),
        replace(SILENT, logins=[(503, TIMEOUT + GRACE + 0.1)]),
        replace(SILENT, logins=[(503, TIMEOUT), (401, 0.1)]),
        replace(SILENT, logins=[]),
    ],
)
def test_a_goal_that_is_missed_is_said(worse: Window) -> None:
    (missed,) = misses([QUIET, worse])
    assert f"- **missed**: {missed}" in written("gateway", [QUIET, worse], [missed])

"""Servers that are down, hang, restart or forget connections: who waits, how long, and what is said."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcerts import Paths
from gateway.errors import IdentityUnavailable
from gateway.identity.ldap import servers as servers_module
from gateway.identity.ldap.directory import LdapDirectory
from gateway.settings import LdapBind, LdapUsers
from tests.identity.conftest import until
from tests.identity.ldap.conftest import PEER, Directories, refused, unavailable
from tests.parts.ldap_messages import Answer
from tests.parts.ldap_stub import PEOPLE, SERVICE, LdapStub
from tests.parts.slapd import Slapd

ALICE = f"uid=alice,{PEOPLE}"
#: Seconds until a login must be there, less than a login may take: what failing over takes is bounded by `FAILOVER`,
#: and the rest is for a machine that has other things to do.
LIMIT = 4.5


@pytest.fixture
def other() -> Iterator[LdapStub]:
    with LdapStub() as made:
        yield made


@pytest.fixture
def deaf() -> Iterator[str]:
    """A server that accepts connections and says nothing: the kernel does the accepting."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def gets_in(directory: LdapDirectory, name: str = "alice", limit: float = LIMIT) -> None:
    """Fails unless a good login holds within so many seconds."""
    async with asyncio.timeout(limit):
        assert (await directory.log_in(name, f"{name}-secret", PEER)).subject == name


async def recovers(directory: LdapDirectory, directories: Directories, name: str, password: str) -> None:
    """Fails unless somebody gets in after a while; until then he is told to come back."""
    async with asyncio.timeout(20):
        while True:
            directories.steady.at += 2
            try:
                assert (await directory.log_in(name, password, PEER)).subject == name
            except IdentityUnavailable:
                await asyncio.sleep(0.01)
            else:
                return


# Several servers.


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
async def test_the_next_server_is_asked_within_three_seconds_of_a_first_one_that_says_nothing(
    other: LdapStub, deaf: str, directories: Directories, scheme: str, certificates: Paths
) -> None:
    """M6, B085; the one who says nothing comes last after that."""
    servers = (f"{scheme}://{deaf}", other.url)
    directory = directories.stubbed(other, servers=servers, ca=certificates.ca, allow_insecure=True)
    assert servers_module.FAILOVER < 3
    await gets_in(directory)
    await gets_in(directory, "bob", servers_module.FAILOVER)


async def test_three_servers_are_through_in_the_same_time(other: LdapStub, deaf: str, directories: Directories) -> None:
    directory = directories.stubbed(other, servers=(f"ldap://{deaf}", f"ldap://localhost:{deaf[10:]}", other.url))
    await gets_in(directory)


@pytest.mark.parametrize("stage", ["bind", "search"])
async def test_a_server_that_stops_answering_in_the_middle_is_left_for_the_next(
    stub: LdapStub, other: LdapStub, directories: Directories, stage: str
) -> None:
    directory = directories.stubbed(stub, other)
    await gets_in(directory, "bob")
    stub.silent = {stage}
    await gets_in(directory)
    assert other.asked_as(ALICE) == [b"alice-secret"]


@pytest.mark.parametrize("code", [51, 52])
async def test_a_server_that_is_busy_is_left_for_the_next(
    stub: LdapStub, other: LdapStub, directories: Directories, code: int
) -> None:
    directory = directories.stubbed(stub, other)
    stub.on_bind = lambda _: Answer(code)
    await gets_in(directory)


async def test_a_wrong_password_is_not_tried_on_the_next_server(
    stub: LdapStub, other: LdapStub, directories: Directories
) -> None:
    """B086."""
    assert await refused(directories.stubbed(stub, other), "alice", "wrong") == "bad_password"
    assert other.connections == 0


async def test_a_server_is_trusted_again_after_a_while(
    stub: LdapStub,
    other: LdapStub,
    directories: Directories,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("gateway.identity.ldap.servers.DOUBT", 0.3)
    directory = directories.stubbed(stub, other)
    stub.silent = {"accept"}
    await gets_in(directory)
    stub.silent = set()
    await gets_in(directory, "bob")
    assert stub.asked_as(f"uid=bob,{PEOPLE}") == []
    async with asyncio.timeout(20):
        while not stub.asked_as(ALICE):
            directories.steady.at += 1000
            await directory.log_in("alice", "alice-secret", PEER)
    events = [record.getMessage().split()[0] for record in caplog.records]
    assert events == ["identity.directory.server_failed", "identity.directory.server_recovered"]


# All of them.


async def test_a_hung_directory_is_503_in_time_and_then_at_once_for_everybody_but_one(
    deaf: str, directories: Directories, stub: LdapStub
) -> None:
    """B085: nobody waits for what somebody has just seen."""
    directory = directories.stubbed(stub, servers=(f"ldap://{deaf}",), timeout=0.5)
    assert "time" in await unavailable(directory)
    async with asyncio.timeout(5.0):  # half of what it takes when each of them waits
        for n in range(20):
            await unavailable(directory, f"user-{n}")
    assert directories.counts["directory", "unavailable"] == 21


@pytest.mark.parametrize("how", ["silent", "drips"])
async def test_a_thread_that_hung_on_a_server_ends_by_itself_and_serves_the_next_login(
    stub: LdapStub, directories: Directories, how: str
) -> None:
    """B085: also where a byte comes now and then. There is one thread only."""
    directory = directories.stubbed(stub, connections=1, timeout=0.3)
    stub.silent, stub.drips = ({"accept"}, False) if how == "silent" else (set(), True)
    for n in range(3):
        await unavailable(directory, f"user-{n}")
        directories.steady.at += 10
    stub.silent, stub.drips = set(), False
    await recovers(directory, directories, "alice", "alice-secret")


async def test_what_was_remembered_holds_on_while_the_directory_is_away(
    stub: LdapStub, directories: Directories
) -> None:
    directory = directories.stubbed(stub)
    await directory.log_in("alice", "alice-secret", PEER)
    stub.stop()
    await unavailable(directory, "bob", "bob-secret")
    directories.steady.at += 200
    assert (await directory.log_in("alice", "alice-secret", PEER)).subject == "alice"
    assert (directory.standing().ready, directory.standing().bound) == (False, 300.0)
    assert directory.standing().outage == 200
    directories.steady.at += 101
    await unavailable(directory)


async def test_each_change_of_state_is_logged_once(
    stub: LdapStub, directories: Directories, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    directory = directories.stubbed(stub)
    for code in (52, 0):
        stub.on_bind = lambda _, code=code: Answer(code)  # type: ignore[misc]
        for n in range(3):
            directories.steady.at += 10
            if code:
                await unavailable(directory, "alice", f"{n}")
            else:
                await directory.log_in("alice", f"{n}", PEER)
    events = [record.getMessage().split()[0].removeprefix("identity.directory.") for record in caplog.records]
    assert events == ["server_failed", "failed", "server_recovered", "recovered"]


async def test_an_account_of_the_gateways_own_that_is_refused_is_503_and_is_not_tried_into_a_lock_out(
    stub: LdapStub, other: LdapStub, directories: Directories
) -> None:
    """B087: nobody's password is called wrong for it, and each try counts against the account."""
    directory = directories.stubbed(stub, other, bind=LdapBind(SERVICE, "outdated"))
    for n in range(20):
        assert "own account was answered with 49" in await unavailable(directory, f"user-{n}")
        directories.steady.at += 1
    assert (len(stub.binds), len(other.binds)) == (1, 0)


async def test_one_persons_logins_do_not_try_the_gateways_own_account_again_and_again_at_the_next_server(
    stub: LdapStub, other: LdapStub, directories: Directories
) -> None:
    """The first cannot judge this one; the second does not take the gateway's password yet."""
    stub.on_bind = lambda bind: Answer(0 if bind.dn == SERVICE else 52)
    other.on_bind = lambda _: Answer(49)
    directory = directories.stubbed(stub, other)
    for n in range(5):
        await unavailable(directory, "alice", f"{n}")
        directories.steady.at += 2
    assert [bind.dn for bind in other.binds] == [SERVICE]


# Connections.


@pytest.mark.parametrize("how", ["closed", "notice", "mute"])
async def test_a_kept_connection_that_is_dead_costs_one_new_one(
    stub: LdapStub, directories: Directories, how: str
) -> None:
    """B087: closed by the server, with a notice, or forgotten by a firewall that says nothing."""
    directory = directories.stubbed(stub)
    await gets_in(directory, "bob")
    before = stub.connections
    if how == "mute":
        stub.mute()
    else:
        (stub.drop if how == "closed" else stub.give_notice)()
    await gets_in(directory)
    assert stub.connections == before + 2  # one of the gateway's own, one of alice's


async def test_connections_that_were_idle_for_long_are_not_used_again(
    stub: LdapStub, directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.ldap.servers.KEPT", 0.0)
    directory = directories.stubbed(stub)
    await gets_in(directory, "bob")
    await gets_in(directory)
    assert stub.connections == 4


async def test_a_server_that_was_restarted_serves_the_next_login(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    """B087: the real one, and 503 while it was away."""
    slapd = Slapd(tmp_path, certificates)
    try:
        directory = directories.before(slapd)
        await directory.log_in("alice", slapd.passwords["alice"], PEER)
        slapd.stop()
        await unavailable(directory, "bob", slapd.passwords["bob"])
        slapd.start()
        await recovers(directory, directories, "bob", slapd.passwords["bob"])
    finally:
        slapd.stop()


async def test_a_frozen_server_is_503_in_time_and_well_again_when_it_goes_on(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    slapd = Slapd(tmp_path, certificates)
    try:
        directory = directories.before(slapd, timeout=1.0)
        await directory.log_in("alice", slapd.passwords["alice"], PEER)
        slapd.process.pause()
        await unavailable(directory, "bob", slapd.passwords["bob"])
        slapd.process.resume()
        await recovers(directory, directories, "bob", slapd.passwords["bob"])
    finally:
        slapd.stop()


@pytest.mark.parametrize("template", ["", f"uid={{username}},{PEOPLE}"])
async def test_nothing_is_left_open_in_the_end(stub: LdapStub, directories: Directories, template: str) -> None:
    directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, dn_template=template))
    await asyncio.gather(*(directory.log_in(name, f"{name}-secret", PEER) for name in ("alice", "bob")))
    directory.close()
    await until(lambda: not stub._open)
    await unavailable(directory, "carol")


# Looking whether it is there.


async def test_the_directory_is_looked_at_from_the_start_and_while_it_is_away(
    stub: LdapStub, directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that readiness and its metric do not wait for somebody to log in."""
    monkeypatch.setattr("gateway.identity.ldap.directory.LOOK_FAILING", 0.01)
    directory = directories.stubbed(stub)
    assert not directory.standing().ready
    stub.on_bind = lambda _: Answer(52)
    looking = asyncio.create_task(directory.run())
    await until(lambda: len(stub.binds) == 1)
    stub.on_bind = stub._judge

    def later() -> bool:
        directories.steady.at += 1
        return directory.standing().ready

    await until(later)
    assert directory.standing().outage == 0
    looking.cancel()
    assert await asyncio.gather(looking, return_exceptions=True)
    assert not directories.counts

"""How often a directory is asked: one bind for a pair of name and password, however often it is shown."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import IdentityUnavailable, LoginThrottled
from gateway.identity.refused import BadLogin
from gateway.settings import LdapCache, LdapGroups, LdapUsers
from tests.identity.conftest import until
from tests.identity.ldap.conftest import PEER, Directories, refused, unavailable
from tests.parts.ldap_messages import Answer
from tests.parts.ldap_stub import GROUPS, PEOPLE, SERVICE, LdapStub, person

ALICE, BOB = (f"uid={name},{PEOPLE}" for name in ("alice", "bob"))


async def test_one_wrong_login_is_one_bind_and_so_are_twenty_in_a_row(stub: LdapStub, directories: Directories) -> None:
    """B086."""
    directory = directories.stubbed(stub)
    for _ in range(20):
        assert await refused(directory, "alice", "wrong") == "bad_password"
    assert stub.asked_as(ALICE) == [b"wrong"]
    assert directories.counts == {("directory", "bad_password"): 20}


async def test_an_old_password_in_a_background_job_is_one_bind_in_ten_seconds(
    stub: LdapStub, directories: Directories
) -> None:
    """B086: shown once a second for a minute."""
    directory = directories.stubbed(stub)
    for _ in range(60):
        await refused(directory, "alice", "old")
        directories.steady.at += 1
    assert len(stub.asked_as(ALICE)) == 6


async def test_each_wrong_password_is_a_bind_of_its_own(stub: LdapStub, directories: Directories) -> None:
    directory = directories.stubbed(stub)
    for n in range(5):
        await refused(directory, "alice", f"wrong-{n}")
    await directory.log_in("alice", "alice-secret", PEER)
    assert len(stub.asked_as(ALICE)) == 6


async def test_fifty_calls_at_once_with_one_pair_are_one_bind(stub: LdapStub, directories: Directories) -> None:
    """B086: a good one and a bad one."""
    directory = directories.stubbed(stub)
    good = await asyncio.gather(*(directory.log_in("alice", "alice-secret", PEER) for _ in range(50)))
    assert {one.subject for one in good} == {"alice"}
    bad = await asyncio.gather(*(directory.log_in("bob", "x", PEER) for _ in range(50)), return_exceptions=True)
    assert {type(one) for one in bad} == {BadLogin}
    assert len(set(map(id, bad))) == 50, "each has an error of its own"
    assert (len(stub.asked_as(ALICE)), len(stub.asked_as(BOB))) == (1, 1)


async def test_a_pair_that_held_holds_for_its_time_without_being_asked_about_again(
    stub: LdapStub, directories: Directories
) -> None:
    directory = directories.stubbed(stub, cache=LdapCache(positive=300.0))
    for at in (0.0, 1.0, 299.0):
        directories.steady.at = 1000.0 + at
        await directory.log_in("alice", "alice-secret", PEER)
    assert len(stub.asked_as(ALICE)) == 1
    directories.steady.at = 1300.0
    await directory.log_in("alice", "alice-secret", PEER)
    assert len(stub.asked_as(ALICE)) == 2
    assert directories.counts == {("directory", "ok"): 2, ("directory", "cached"): 2}


async def test_nothing_is_remembered_where_the_settings_say_so(stub: LdapStub, directories: Directories) -> None:
    directory = directories.stubbed(stub, cache=LdapCache(positive=0.0, negative=0.0))
    for _ in range(3):
        await directory.log_in("alice", "alice-secret", PEER)
        await refused(directory, "alice", "wrong")
    assert len(stub.asked_as(ALICE)) == 6


async def test_a_remembered_pair_lets_in_nobody_who_knows_half_of_it(stub: LdapStub, directories: Directories) -> None:
    directory = directories.stubbed(stub)
    await directory.log_in("alice", "alice-secret", PEER)
    for name, password in (
        *(("alice", "alice-secre"), ("alice", "alice-secret "), ("alice", "ALICE-SECRET"), ("bob", "alice-secret")),
        *(("alicealice", "-secret"), ("alic", "ealice-secret")),
    ):
        assert await refused(directory, name, password) == "bad_password"


async def test_no_password_stands_in_what_is_remembered_or_waited_for(stub: LdapStub, directories: Directories) -> None:
    directory = directories.stubbed(stub)
    await directory.log_in("alice", "alice-secret", PEER)
    await refused(directory, "alice", "not-the-secret")
    await until(lambda: not directory._questions.under_way)
    remembered = f"{directory._good._held} {directory._bad._held} {directory.held('alice', 'alice-secret')}"
    assert "secret" not in remembered


async def test_a_directory_that_was_away_is_not_remembered_to_have_said_no(
    stub: LdapStub, directories: Directories
) -> None:
    directory = directories.stubbed(stub)
    stub.on_bind = lambda _: Answer(52)
    await unavailable(directory)
    stub.on_bind = stub._judge
    directories.steady.at += 2
    assert (await directory.log_in("alice", "alice-secret", PEER)).subject == "alice"


async def test_look_ups_are_remembered_too_and_never_let_anybody_in(stub: LdapStub, directories: Directories) -> None:
    directory = directories.stubbed(stub)
    for _ in range(3):
        await directory.groups_of("alice")
        assert await directory.groups_of("nobody") == frozenset()
    assert len(stub.searches) == 2
    assert directory.held("alice", "") is None
    assert stub.asked_as(ALICE) == []
    assert not directories.counts


# The throttle.


async def test_the_throttle_is_told_of_each_attempt_that_reaches_the_directory_and_how_it_ended(
    stub: LdapStub, directories: Directories
) -> None:
    directory, told = directories.stubbed(stub), directories.throttle.told
    for _ in range(3):
        await directory.log_in("alice", "alice-secret", PEER)
        await refused(directory, "bob", "wrong")
        await refused(directory, "nobody", "x")
    assert told == [
        *(("admit", "alice", PEER), ("succeeded", "alice", PEER)),
        *(("admit", "bob", PEER), ("failed", "bob", PEER)),
        *(("admit", "nobody", PEER), ("failed", "nobody", PEER)),
    ]
    told.clear()
    stub.on_bind = lambda _: Answer(52)
    await unavailable(directory, "alice", "new")
    await unavailable(directory, "alice", "newer")  # nobody is asked, so soon after
    assert told == [("admit", "alice", PEER), ("unanswered", "alice", PEER)] * 2


async def test_whoever_is_throttled_is_not_asked_about_but_what_is_remembered_is(
    stub: LdapStub, directories: Directories
) -> None:
    directory = directories.stubbed(stub)
    await directory.log_in("alice", "alice-secret", PEER)
    directories.throttle.barred.add("alice")
    assert (await directory.log_in("alice", "alice-secret", PEER)).subject == "alice"
    with pytest.raises(LoginThrottled) as caught:
        await directory.log_in("alice", "guess", PEER)
    assert caught.value.status == 429
    assert stub.asked_as(ALICE) == [b"alice-secret"]
    assert directories.counts["directory", "throttled"] == 1


async def test_an_account_with_several_names_is_tried_as_often_as_one_with_one(
    stub: LdapStub, directories: Directories
) -> None:
    """The directory is asked whose name it is; then no password is sent for an entry that was tried too often."""
    stub.on_search = lambda _: [person("alice")]
    directory = directories.stubbed(stub)
    for name in ("alice", "alice@example.test", "4711"):
        await refused(directory, name, "guess")
    await directory.log_in("alice", "alice-secret", PEER)
    names = ["found", "failed"] * 3 + ["found", "succeeded"]
    assert directories.throttle.entries == [(name, ALICE) for name in names]
    directories.throttle.barred.add(ALICE)
    directories.throttle.told.clear()
    with pytest.raises(LoginThrottled) as caught:
        await directory.log_in("another-name", "alice-secret", PEER)
    assert (caught.value.status, caught.value.retry_after) == (429, 1)
    assert directories.throttle.told == [("admit", "another-name", PEER), ("unanswered", "another-name", PEER)]
    assert directories.counts["directory", "throttled"] == 1
    assert len(stub.asked_as(ALICE)) == 4
    assert directory.standing().ready


async def test_an_entry_counts_once_where_two_servers_are_asked_about_it(
    stub: LdapStub, directories: Directories
) -> None:
    with LdapStub() as other:
        directory = directories.stubbed(stub, other)
        stub.on_bind = lambda bind: Answer(52) if bind.dn == ALICE else stub._judge(bind)
        await refused(directory, "alice", "guess")
        assert directories.throttle.entries == [("found", ALICE), ("failed", ALICE)]


# Room.


@pytest.mark.parametrize("limit", ["threads", "waiting"])
async def test_a_flood_of_logins_leaves_callers_alone_who_are_identified_already(
    stub: LdapStub, directories: Directories, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their groups are looked up in places that no login takes."""
    if limit == "waiting":
        monkeypatch.setattr("gateway.identity.ldap.questions.WAITING_LIMIT", 5)
    stub.silent = {"bind"}
    directory = directories.stubbed(stub, connections=1, timeout=20.0, bind=None)
    flood = [asyncio.create_task(directory.log_in("alice", f"guess-{n}", PEER)) for n in range(8)]
    await until(lambda: sum(task.done() for task in flood) == 3)
    await until(lambda: len(stub.asked_as(ALICE)) == 1)
    for name in ("bob", "carol", "dora"):
        await directory.groups_of(name)
    assert await directory.look() == ""
    stub.silent = set()
    stub.drop()
    assert await asyncio.gather(*flood, return_exceptions=True)


async def test_more_logins_than_there_is_room_for_are_turned_away_at_once(
    stub: LdapStub, directories: Directories
) -> None:
    """Two at once, eight wait, the rest hears 503 without waiting."""
    stub.silent = {"search"}
    directory = directories.stubbed(stub, connections=2, timeout=20.0)
    tasks = [asyncio.create_task(directory.log_in(f"user-{n}", "x", PEER)) for n in range(15)]
    await until(lambda: sum(task.done() for task in tasks) == 5)
    turned_away = [task.exception() for task in tasks if task.done()]
    assert all(isinstance(error, IdentityUnavailable) and error.retry_after for error in turned_away)
    assert sum(told[0] == "unanswered" for told in directories.throttle.told) == 5
    stub.silent = set()
    stub.drop()
    assert await asyncio.gather(*tasks, return_exceptions=True)


async def test_those_who_wait_are_bounded_although_all_show_the_same_pair(
    stub: LdapStub, directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.ldap.questions.WAITING_LIMIT", 3)
    stub.silent = {"bind"}
    directory = directories.stubbed(stub, timeout=0.5)
    tasks = [asyncio.create_task(directory.log_in("alice", "alice-secret", PEER)) for _ in range(4)]
    await until(lambda: any(task.done() for task in tasks))
    assert "too many wait" in str(getattr(tasks[3].exception(), "detail", ""))
    await asyncio.gather(*tasks, return_exceptions=True)
    assert directory._questions.waiting == 0


async def test_whoever_leaves_while_waiting_takes_nobody_along(stub: LdapStub, directories: Directories) -> None:
    directory = directories.stubbed(stub)
    await directory.log_in("bob", "bob-secret", PEER)
    stub.silent = {"search"}
    leaving, staying = (asyncio.create_task(directory.log_in("alice", "alice-secret", PEER)) for _ in range(2))
    await until(lambda: len(stub.searches) == 2)
    leaving.cancel()
    await until(leaving.done)
    stub.silent = set()
    stub.drop()  # asked again on a new connection
    assert (await staying).subject == "alice"
    assert directory._questions.waiting == 0
    assert len(stub.asked_as(ALICE)) == 1


# Nobody is mistaken for somebody else.


async def test_a_hundred_and_fifty_logins_at_once_never_cross(stub: LdapStub, directories: Directories) -> None:
    """B088: with nothing remembered, each of them goes to the directory."""
    stub.entries = [person(f"{name}{n}") for name in ("alice", "bob", "carol") for n in range(50)]
    stub.passwords = {entry.dn: f"secret-of-{entry.attributes['uid'][0]!s}" for entry in stub.entries}
    stub.on_search = lambda search: (
        [person(search.filter[8:-1].split("=")[1].split(",")[0])] if "member=" in search.filter else stub._find(search)
    )
    groups = LdapGroups(base=GROUPS, name="uid")
    directory = directories.stubbed(stub, groups=groups, cache=LdapCache(0.0, 0.0), connections=64)

    async def one(name: str, password: str) -> tuple[str, object]:
        try:
            return name, await directory.log_in(name, password, PEER)
        except BadLogin:
            return name, None

    pairs = [
        (f"{name}{n}", f"secret-of-{name}{n}" if name != "carol" else "wrong")
        for n in range(50)
        for name in ("alice", "bob", "carol")
    ]
    for name, principal in await asyncio.gather(*(one(*pair) for pair in pairs)):
        if name.startswith("carol"):
            assert principal is None
        else:
            assert (getattr(principal, "subject", ""), getattr(principal, "groups", "")) == (name, {name})


async def test_people_are_bound_on_connections_of_their_own(stub: LdapStub, directories: Directories) -> None:
    """B088: the gateway's own connections are bound once, and never as anybody else."""
    seen: list[str] = []
    judge = stub._judge

    def judged(bind: object) -> Answer:
        seen.append(getattr(bind, "dn", ""))
        return judge(bind)  # type: ignore[arg-type]

    stub.on_bind = judged
    directory = directories.stubbed(stub, cache=LdapCache(0.0, 0.0))
    for _ in range(5):
        await directory.log_in("alice", "alice-secret", PEER)
        await refused(directory, "bob", "wrong")
    assert seen.count(SERVICE) == 1
    assert stub.connections == 1 + 10


@pytest.mark.parametrize("template", ["", f"uid={{username}},{PEOPLE}"])
async def test_a_wrong_password_of_somebody_with_a_template_is_one_bind_as_well(
    stub: LdapStub, directories: Directories, template: str
) -> None:
    directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, dn_template=template))
    await refused(directory, "alice", "wrong")
    assert stub.asked_as(ALICE) == [b"wrong"]

"""Logins against the real OpenLDAP server: who gets in, as whom, with which groups."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.devcerts import Paths
from gateway.identity.ldap.directory import LdapDirectory
from gateway.identity.refused import BadLogin
from gateway.settings import Ldap, LdapBind, LdapGroups, LdapUsers
from tests.identity.ldap.conftest import PEER, Directories, refused, unavailable
from tests.parts import samba as domain
from tests.parts.samba import Samba
from tests.parts.slapd import ADMIN, FAILURES, GROUPS, PEOPLE, SERVICE, Slapd, entry, group, person


async def test_a_person_gets_in_with_the_right_password_and_has_the_groups_of_the_directory(
    slapd: Slapd, directories: Directories
) -> None:
    directory = directories.before(slapd)
    principal = await directory.log_in("alice", slapd.passwords["alice"], PEER)
    assert (principal.subject, principal.issuer, principal.provider) == ("alice", "ldap:directory", "directory")
    assert principal.groups == {"data-science", "llm-users"}
    assert directories.counts == {("directory", "ok"): 1}


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "a*",
        "alice)(uid=*",
        "*)(|(uid=*",
        "alice\\2a",
        "\\",
        "(",
        "alice\\00",
        "ａlice*",
        "alice)(objectClass=*",
        "",
    ],
)
async def test_a_name_is_never_a_filter(slapd: Slapd, directories: Directories, name: str) -> None:
    """B083: with alice's own password, so that any entry that was found by such a name would let in."""
    directory = directories.before(slapd)
    assert await refused(directory, name, slapd.passwords["alice"]) in {"bad_password", "malformed"}


async def test_who_somebody_is_is_read_from_the_directory_and_not_typed(slapd: Slapd, directories: Directories) -> None:
    directory = directories.before(slapd)
    for typed in ("ALICE", "Alice", " alice ", "alice"):
        assert (await directory.log_in(typed, slapd.passwords["alice"], PEER)).subject == "alice"


async def test_names_and_passwords_beyond_ascii_work(slapd: Slapd, directories: Directories) -> None:
    """B083, B091."""
    directory = directories.before(slapd)
    assert (await directory.log_in("élise", slapd.passwords["élise"], PEER)).groups == {"llm-users"}


@pytest.mark.parametrize("start_tls", [False, True])
async def test_a_person_gets_in_by_a_template_without_an_account_of_the_gateways_own(
    slapd: Slapd, directories: Directories, start_tls: bool
) -> None:
    servers = (slapd.url,) if start_tls else (slapd.ldaps,)
    users = LdapUsers(dn_template=f"uid={{username}},{PEOPLE}")
    directory = directories.before(slapd, users=users, bind=None, servers=servers, start_tls=start_tls)
    assert (await directory.log_in("bob", slapd.passwords["bob"], PEER)).groups == {"guests", "Ops, (EU) *"}
    assert await refused(directory, "bob", "wrong") == "bad_password"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (LdapGroups(base=GROUPS), {"team-a", "circle-1"}),
        (LdapGroups(base=GROUPS, nested=True), {"team-a", "teams", "everyone", "circle-1", "circle-2"}),
        (LdapGroups(base=GROUPS, attribute="memberOf"), {"team-a", "circle-1"}),
        (
            LdapGroups(base=GROUPS, attribute="memberOf", nested=True),
            {"team-a", "teams", "everyone", "circle-1", "circle-2"},
        ),
        (LdapGroups(base=f"cn=teams,{GROUPS}", attribute="memberOf", nested=True), {"teams"}),
        (None, set()),
    ],
)
async def test_groups_of_groups_count_where_asked_for_and_a_circle_ends(
    slapd: Slapd, directories: Directories, groups: LdapGroups | None, expected: set[str]
) -> None:
    """B089."""
    directory = directories.before(slapd, groups=groups)
    assert (await directory.log_in("dora", slapd.passwords["dora"], PEER)).groups == expected
    assert await directory.groups_of("dora") == expected


async def test_group_names_with_marks_in_them_are_read_as_they_are(slapd: Slapd, directories: Directories) -> None:
    """By the entry, and by the first step of a name in `memberOf` with its escapes."""
    for attribute in (None, "memberOf"):
        directory = directories.before(slapd, groups=LdapGroups(base=GROUPS, attribute=attribute))
        principal = await directory.log_in("bob", slapd.passwords["bob"], PEER)
        assert principal.groups == {"guests", "Ops, (EU) *"}


async def test_posix_groups_list_people_by_their_subject(slapd: Slapd, directories: Directories) -> None:
    directory = directories.before(slapd, groups=LdapGroups(base=GROUPS, filter="(memberUid={username})"))
    assert (await directory.log_in("CAROL", slapd.passwords["carol"], PEER)).groups == {"posix"}


@pytest.mark.parametrize("name", ["locked", "expired", "disabled", "reset"])
async def test_an_account_that_is_not_to_be_used_is_refused_with_its_right_password(
    slapd: Slapd, directories: Directories, name: str
) -> None:
    directory = directories.before(slapd)
    assert await refused(directory, name, slapd.passwords[name]) == "refused_account"
    if name != "reset":  # that a password is to be changed says nothing of whoever comes without one
        with pytest.raises(BadLogin):
            await directory.groups_of(name)


async def test_a_name_that_two_people_have_lets_in_neither(slapd: Slapd, directories: Directories) -> None:
    assert await refused(directories.before(slapd), "twice", slapd.passwords["twice"]) == "bad_password"


async def test_the_administrator_and_the_gateways_own_account_are_no_people(
    slapd: Slapd, directories: Directories
) -> None:
    directory = directories.before(slapd)
    for name in (ADMIN, SERVICE, "admin", "gateway"):
        assert await refused(directory, name, slapd.passwords.get(name, slapd.passwords[SERVICE])) == "bad_password"


async def test_a_directory_that_locks_after_three_failures_locks_and_unlocks(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    """B086: three different wrong passwords lock, one that is shown a hundred times does not; then the right one is
    refused, until the lock-out is over."""
    slapd = Slapd(tmp_path, certificates)
    try:
        directory, right = directories.before(slapd), slapd.passwords["alice"]
        for _ in range(100):
            assert await refused(directory, "alice", "old") == "bad_password"
        assert (await directory.log_in("alice", right, PEER)).subject == "alice"
        for n in range(FAILURES):
            await refused(directory, "bob", f"wrong-{n}")
        assert await refused(directory, "bob", slapd.passwords["bob"]) == "refused_account"
        async with asyncio.timeout(20):
            while await _still_refused(directory, directories, "bob", slapd.passwords["bob"]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        slapd.stop()


async def _still_refused(directory: LdapDirectory, directories: Directories, name: str, password: str) -> bool:
    directories.steady.at += 60  # nothing is remembered for so long
    try:
        await directory.log_in(name, password, PEER)
    except BadLogin:
        return True
    return False


async def test_somebody_in_more_groups_than_a_server_gives_at_once_has_all_of_them(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    """The server stops at 50 entries in one answer, so they are asked for page by page."""
    slapd = Slapd(tmp_path, certificates)
    try:
        slapd.add(
            "".join(
                entry(group(f"many-{n}"), "groupOfNames", cn=f"many-{n}", member=person("carol")) for n in range(45)
            )
        )
        principal = await directories.before(slapd).log_in("carol", slapd.passwords["carol"], PEER)
        assert len(principal.groups) == 45
        assert principal.groups_known
        slapd.add(
            "".join(entry(group(f"more-{n}"), "groupOfNames", cn=f"more-{n}", member=person("dora")) for n in range(60))
        )
        principal = await directories.before(slapd).log_in("dora", slapd.passwords["dora"], PEER)
        assert not principal.groups_known
    finally:
        slapd.stop()


async def test_a_group_that_somebody_leaves_is_gone_when_the_memory_ends(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    slapd = Slapd(tmp_path, certificates)
    try:
        directory = directories.before(slapd)
        assert "data-science" in (await directory.log_in("alice", slapd.passwords["alice"], PEER)).groups
        assert "data-science" in await directory.groups_of("alice")
        slapd.change(f"dn: {group('data-science')}\nchangetype: delete\n")
        directories.steady.at += 300
        assert "data-science" not in (await directory.log_in("alice", slapd.passwords["alice"], PEER)).groups
        assert "data-science" not in await directory.groups_of("alice")
    finally:
        slapd.stop()


async def test_somebody_who_logged_in_is_known_again_as_they_are_now_or_not_at_all(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    slapd = Slapd(tmp_path, certificates)
    try:
        directory = directories.before(slapd)
        alice = await directory.log_in("alice", slapd.passwords["alice"], PEER)
        assert await directory.renewed(alice) == alice
        slapd.change(f"dn: {group('data-science')}\nchangetype: delete\n")
        directories.steady.at += 300
        assert await directory.renewed(alice) == replace(alice, groups=alice.groups - {"data-science"})
        slapd.change(f"dn: {person('alice')}\nchangetype: delete\n")
        directories.steady.at += 300
        with pytest.raises(BadLogin):
            await directory.renewed(alice)
    finally:
        slapd.stop()


@pytest.mark.parametrize(("base", "bound"), [("", True), (PEOPLE, False)])
async def test_who_alone_can_open_their_directory_is_known_as_they_were(
    slapd: Slapd, directories: Directories, base: str, bound: bool
) -> None:
    users = LdapUsers(base=base, dn_template=f"uid={{username}},{PEOPLE}")
    own = LdapBind(SERVICE, slapd.passwords[SERVICE]) if bound else None
    directory = directories.before(slapd, users=users, bind=own, groups=None)
    alice = await directory.log_in("alice", slapd.passwords["alice"], PEER)
    assert await directory.renewed(alice) is alice


@pytest.mark.parametrize(
    "spelling", ["ALICE", "Alice", " alice", "alice ", "\uff41lice", "al\u00adice", "alice\u200b", "a\u030alice"]
)
async def test_a_subject_in_another_spelling_is_nobody_however_the_directory_compares(
    slapd: Slapd, directories: Directories, spelling: str
) -> None:
    """Denials and revocations name the subject as the directory gives it, and would not meet this one."""
    directory = directories.before(slapd)
    assert await directory.groups_of(spelling) == frozenset()
    assert directory.groups_hold(spelling) == 0.0
    assert "data-science" in await directory.groups_of("alice")


async def test_a_second_value_of_the_subject_is_nobody(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    """The directory finds the entry by each of its values, and has one subject for it."""
    slapd = Slapd(tmp_path, certificates)
    try:
        slapd.change(f"dn: {person('alice')}\nchangetype: modify\nadd: uid\nuid: alias\n")
        directory = directories.before(slapd)
        assert "data-science" in await directory.groups_of("alice")
        assert await directory.groups_of("alias") == frozenset()
    finally:
        slapd.stop()


async def test_groups_of_somebody_who_is_not_there_are_none(slapd: Slapd, directories: Directories) -> None:
    directory = directories.before(slapd)
    for subject in ("nobody", "*", "a*", "alice)(uid=*", ""):
        assert await directory.groups_of(subject) == frozenset()


async def test_without_an_account_people_are_found_where_anybody_may_read(
    slapd: Slapd, directories: Directories
) -> None:
    """This server shows nothing to strangers, which is no answer about anybody."""
    assert "50" in await unavailable(directories.before(slapd, bind=None), "alice", slapd.passwords["alice"])


async def test_groups_say_how_long_they_hold_and_what_is_not_remembered_holds_for_no_time(
    slapd: Slapd, directories: Directories
) -> None:
    """So that whoever remembers them with a token does not add its own time to that."""
    directory = directories.before(slapd)
    assert directory.groups_hold("alice") == 0.0
    await directory.groups_of("alice")
    assert directory.groups_hold("alice") == pytest.approx(300)
    directories.steady.at += 299
    assert directory.groups_hold("alice") == pytest.approx(1)
    directories.steady.at += 1
    assert directory.groups_hold("alice") == 0.0
    assert await directory.groups_of("nobody-here") == frozenset()
    assert directory.groups_hold("nobody-here") == 0.0


async def test_one_name_of_two_people_lets_in_neither_where_the_server_gives_one_entry_at_a_time(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    slapd = Slapd(tmp_path, certificates)
    try:
        for unit in ("a", "b"):
            slapd.add(entry(f"ou={unit},{PEOPLE}", "organizationalUnit", ou=unit))
            dn = f"uid=double,ou={unit},{PEOPLE}"
            slapd.add(entry(dn, "inetOrgPerson", uid="double", cn="x", sn="x", userPassword=f"secret-{unit}"))
        slapd.stop()
        conf = slapd.folder / "slapd.conf"
        conf.write_text(conf.read_text().replace("sizelimit 50", "sizelimit 1"))
        slapd.start()
        directory = directories.before(slapd, groups=None)
        for unit in ("a", "b"):
            assert await refused(directory, "double", f"secret-{unit}") == "bad_password"
        assert (await directory.log_in("alice", slapd.passwords["alice"], PEER)).subject == "alice"
    finally:
        slapd.stop()


async def test_a_name_that_a_domain_does_not_know_is_asked_of_the_next_directory(
    samba: Samba, directories: Directories
) -> None:
    """A search from its root comes with references to its own configuration and zones of DNS."""
    directory = directories.of(
        Ldap(
            name="ad",
            servers=(samba.ldaps,),
            ca=samba.ca,
            bind=LdapBind(f"{domain.SERVICE}@{domain.DOMAIN}", samba.passwords[domain.SERVICE]),
            users=LdapUsers(base=domain.ROOT, filter="(sAMAccountName={username})", subject="sAMAccountName"),
        )
    )
    assert await directory.log_in_if_known("nobody-here", "x", PEER) is None
    assert await directory.groups_of("nobody-here") == frozenset()


async def test_a_server_that_takes_no_password_without_tls_makes_nobody_wait(
    tmp_path: Path, certificates: Paths, directories: Directories
) -> None:
    slapd = Slapd(tmp_path, certificates)
    try:
        slapd.stop()
        conf = slapd.folder / "slapd.conf"
        conf.write_text(conf.read_text().replace("sizelimit 50", "sizelimit 50\nsecurity simple_bind=128"))
        slapd.start()
        users = LdapUsers(base=PEOPLE, dn_template=f"uid={{username}},{PEOPLE}")
        directory = directories.before(slapd, servers=(slapd.url,), users=users, bind=None, groups=None)
        for n in range(5):
            assert await refused(directory, "alice", f"{slapd.passwords['alice']}{n or ''}") == "refused_account"
        assert ("failed", "alice", PEER) not in directories.throttle.told
    finally:
        slapd.stop()

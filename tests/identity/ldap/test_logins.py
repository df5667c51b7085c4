"""Logins against the real OpenLDAP server: who gets in, as whom, with which groups."""

from __future__ import annotations

import pytest

from gateway.settings import LdapGroups, LdapUsers
from tests.identity.ldap.conftest import PEER, Directories, refused
from tests.parts.slapd import GROUPS, PEOPLE, Slapd


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

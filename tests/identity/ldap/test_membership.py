"""Groups of people: ranges, circles, depth, numbers beyond reason, and what an Active Directory is asked."""

from __future__ import annotations

import struct

import pytest

from gateway.call import Principal
from gateway.errors import GroupsUnknown
from gateway.identity.refused import BadLogin
from gateway.settings import LdapGroups, LdapUsers
from tests.identity.ldap.conftest import PEER, Directories
from tests.parts.ldap_messages import Answer, Entry, Reference, Search, escaped
from tests.parts.ldap_stub import GROUPS, PEOPLE, Found, LdapStub

ALICE = f"uid=alice,{PEOPLE}"
RULE = "1.2.840.113556.1.4.1941"
AD = "1.2.840.113556.1.4.800"
SID = b"\x01\x05" + (5).to_bytes(6, "big") + struct.pack("<5I", 21, 1, 2, 3, 1104)


def group(name: str, **attributes: list[str]) -> Entry:
    return Entry(f"cn={name},{GROUPS}", {"cn": [name], **attributes})


class Tree:
    """What a scripted directory holds: alice, and groups by the names of those that are in them."""

    def __init__(self, stub: LdapStub, alice: dict[str, list[str | bytes]] | None = None, *, ad: bool = False) -> None:
        self.stub = stub
        self.alice = Entry(ALICE, {"uid": ["alice"], **(alice or {})})
        self.members: dict[str, list[str]] = {}  # by group, distinguished names
        self.entries: dict[str, Entry] = {ALICE: self.alice}
        self.capabilities = [AD] if ad else []
        stub.on_bind = lambda _: Answer()
        stub.on_search = self.find

    def find(self, search: Search) -> Found:
        if search.base == "":
            return [Entry("", {"supportedCapabilities": self.capabilities})]
        if search.scope == 0:
            return [self.entries[search.base]] if search.base in self.entries else [Answer(32)]
        if "uid=" in search.filter.replace("=uid=", ""):
            return [self.alice]
        asked = search.filter
        return [
            group(name) for name, dns in self.members.items() if any(f"={escaped(dn.encode())})" in asked for dn in dns)
        ]


async def groups(directories: Directories, stub: LdapStub, rules: LdapGroups, **more: object) -> Principal:
    return await directories.stubbed(stub, groups=rules, **more).log_in("alice", "x", PEER)


async def test_a_circle_of_groups_comes_to_an_end(stub: LdapStub, directories: Directories) -> None:
    """B089: and each group is asked about once."""
    tree = Tree(stub)
    tree.members = {"a": [ALICE, f"cn=c,{GROUPS}"], "b": [f"cn=a,{GROUPS}"], "c": [f"cn=b,{GROUPS}"]}
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, nested=True))
    assert principal.groups == {"a", "b", "c"}
    assert len(stub.searches) == 1 + 1 + 4  # alice, what the directory can do, and each level


async def test_one_group_under_many_names_counts_once(stub: LdapStub, directories: Directories) -> None:
    """B084: a circle must not hide in how a name is written."""
    written = [f"CN=a,{GROUPS}", f"cn=A, {GROUPS.replace(',', ', ')}", f"cn=\\61,{GROUPS}", f"2.5.4.3=a,{GROUPS}"]
    tree = Tree(stub, {"memberOf": [*written]})
    for dn in written:
        tree.entries[dn] = Entry(dn, {"cn": ["a"], "memberOf": [*written]})
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, attribute="memberOf", nested=True))
    assert principal.groups == {"a"}
    assert sum(search.scope == 0 and search.base != "" for search in stub.searches) == 1


@pytest.mark.parametrize("attribute", [None, "memberOf"])
async def test_groups_deeper_than_anybody_means_leave_the_groups_unknown(
    stub: LdapStub, directories: Directories, attribute: str | None
) -> None:
    """Rules that deny a group must not miss one that was not looked for."""
    tree = Tree(stub, {"memberOf": [f"cn=g0,{GROUPS}"]})
    tree.members = {"g0": [ALICE], **{f"g{n + 1}": [f"cn=g{n},{GROUPS}"] for n in range(40)}}
    for n in range(40):
        tree.entries[f"cn=g{n},{GROUPS}"] = group(f"g{n}", memberOf=[f"cn=g{n + 1},{GROUPS}"])
    rules = LdapGroups(base=GROUPS, nested=True, attribute=attribute)
    principal = await groups(directories, stub, rules)
    assert not principal.groups_known
    assert len(principal.groups) == 16
    with pytest.raises(GroupsUnknown):
        await directories.stubbed(stub, groups=rules).groups_of("alice")


@pytest.mark.parametrize("attribute", [None, "memberOf"])
async def test_more_groups_than_anybody_is_in_leave_the_groups_unknown(
    stub: LdapStub, directories: Directories, attribute: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.ldap.membership.GROUPS_LIMIT", 20)
    tree = Tree(stub, {"memberOf": [f"cn=g{n},{GROUPS}" for n in range(30)]})
    tree.members = {f"g{n}": [ALICE] for n in range(30)}
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, attribute=attribute))
    assert not principal.groups_known
    assert len(principal.groups) == 20


async def test_a_server_that_gives_fewer_groups_than_there_are_leaves_the_groups_unknown(
    stub: LdapStub, directories: Directories
) -> None:
    """sizeLimitExceeded: what came is a part."""
    tree = Tree(stub)
    stub.on_search = lambda search: [group("a"), Answer(4)] if "member=" in search.filter else tree.find(search)
    principal = await groups(directories, stub, LdapGroups(base=GROUPS))
    assert (set(principal.groups), principal.groups_known) == ({"a"}, False)


async def test_groups_come_page_by_page(stub: LdapStub, directories: Directories) -> None:
    tree, paged, pages = Tree(stub), "1.2.840.113556.1.4.319", []

    def find(search: Search) -> Found:
        if "member=" not in search.filter:
            return tree.find(search)
        pages.append(search)
        cookie = b"" if len(pages) == 3 else b"more"
        value = b"\x30" + bytes([5 + len(cookie)]) + b"\x02\x01\x00\x04" + bytes([len(cookie)]) + cookie
        return [group(f"g{len(pages)}"), Reference("ldap://evil.test/"), Answer(controls={paged: value})]

    stub.on_search = find
    principal = await groups(directories, stub, LdapGroups(base=GROUPS))
    assert (set(principal.groups), principal.groups_known) == ({"g1", "g2", "g3"}, True)


async def test_values_that_come_in_ranges_are_followed_to_the_last(stub: LdapStub, directories: Directories) -> None:
    """B089: an Active Directory gives at most 1500 values at once."""
    dns = [f"cn=g{n},{GROUPS}" for n in range(25)]
    tree = Tree(stub, {"memberOf;range=0-9": [*dns[:10]]})

    def find(search: Search) -> Found:
        if search.base != ALICE:
            return tree.find(search)
        (asked,) = search.attributes
        start = int(asked.removeprefix("memberOf;range=").removesuffix("-*"))
        end = "*" if start == 20 else start + 9
        return [Entry(ALICE, {f"memberOf;range={start}-{end}": dns[start : start + 10]})]

    stub.on_search = find
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, attribute="memberOf"))
    assert principal.groups == {f"g{n}" for n in range(25)}
    assert principal.groups_known


@pytest.mark.parametrize(
    "again", ["memberOf;range=0-0", "memberOf;range=1-0", "memberOf;range=0-999999999999", "other"]
)
async def test_a_range_that_leads_nowhere_comes_to_an_end(stub: LdapStub, directories: Directories, again: str) -> None:
    tree = Tree(stub, {"memberOf;range=0-0": [f"cn=g0,{GROUPS}"]})
    stub.on_search = lambda search: (
        [Entry(ALICE, {again: [f"cn=g0,{GROUPS}"]})] if search.base == ALICE else tree.find(search)
    )
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, attribute="memberOf"))
    assert principal.groups == {"g0"}
    assert len(stub.searches) < 10


async def test_only_groups_below_the_base_count(stub: LdapStub, directories: Directories) -> None:
    """Whoever may make groups elsewhere in the directory makes none of ours."""
    Tree(stub, {"memberOf": [f"CN=In,{GROUPS.upper()}", "cn=out,ou=elsewhere,dc=example,dc=test", "no name"]})
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, attribute="memberOf"))
    assert principal.groups == {"In"}


async def test_a_group_with_several_names_is_called_as_its_entry_is(stub: LdapStub, directories: Directories) -> None:
    """Values have no order; whoever may add one would choose what a group is called."""
    tree = Tree(stub)
    stub.on_search = lambda search: (
        [
            Entry(f"cn=a\\2cb,{GROUPS}", {"cn": ["admins", "A,b"]}),
            Entry(f"ou=c,{GROUPS}", {"cn": ["admins", "root"]}),
            Entry(f"ou=d,{GROUPS}", {}),
        ]
        if "member=" in search.filter
        else tree.find(search)
    )
    assert (await groups(directories, stub, LdapGroups(base=GROUPS))).groups == {"A,b"}


async def test_names_are_prefixed_renamed_and_allowed_in_this_order(stub: LdapStub, directories: Directories) -> None:
    tree = Tree(stub)
    tree.members = {name: [ALICE] for name in ("Data Science", "llm-users", "Domain Admins")}
    principal = await groups(
        directories,
        stub,
        LdapGroups(base=GROUPS),
        group_prefix="ad:",
        group_map=(("ad:Data Science", "data-science"),),
        groups_allowed=("data-*", "ad:llm-*"),
    )
    assert principal.groups == {"data-science", "ad:llm-users"}


async def test_groups_may_list_their_members_by_name(stub: LdapStub, directories: Directories) -> None:
    tree = Tree(stub)
    stub.on_search = lambda search: [group("posix")] if search.filter == "(memberUid=alice)" else tree.find(search)
    rules = LdapGroups(base=GROUPS, filter="(memberUid={username})", nested=True)
    assert (await groups(directories, stub, rules)).groups == {"posix"}


# Active Directory.


async def test_an_active_directory_is_asked_for_nested_and_primary_groups_in_one_search(
    stub: LdapStub, directories: Directories
) -> None:
    """B089: by its own rule, and by the number of the primary group."""
    tree = Tree(stub, {"objectSid": [SID], "primaryGroupID": ["513"]}, ad=True)
    primary = Entry("CN=Domain Users,DC=example,DC=test", {"cn": ["Domain Users"]})

    def find(search: Search) -> Found:
        if search.filter.startswith("(objectSid="):
            assert search.base == "dc=example,dc=test"
            return [primary]
        if RULE in search.filter:
            return [group("ds"), group("team-a"), primary]
        return tree.find(search)

    stub.on_search = find
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, nested=True))
    assert principal.groups == {"ds", "team-a", "Domain Users"}
    sid = escaped(SID[:-4] + struct.pack("<I", 513))
    assert stub.searches[-1].filter == (
        f"(|(member:{RULE}:={escaped(ALICE.encode())})(objectSid={sid})"
        f"(member:{RULE}:={escaped(b'CN=Domain Users,DC=example,DC=test')}))"
    )
    assert stub.searches[-2].filter == f"(objectSid={sid})"


async def test_an_active_directory_that_gives_a_part_of_the_groups_leaves_them_unknown(
    stub: LdapStub, directories: Directories
) -> None:
    tree = Tree(stub, ad=True)
    stub.on_search = lambda search: [group("a"), Answer(4)] if RULE in search.filter else tree.find(search)
    principal = await groups(directories, stub, LdapGroups(base=GROUPS, nested=True))
    assert (set(principal.groups), principal.groups_known) == ({"a"}, False)


async def test_what_a_directory_can_do_is_asked_once(stub: LdapStub, directories: Directories) -> None:
    Tree(stub, ad=True)
    directory = directories.stubbed(stub, groups=LdapGroups(base=GROUPS, nested=True))
    for password in ("x", "y", "z"):
        await directory.log_in("alice", password, PEER)
    assert sum(search.base == "" for search in stub.searches) == 1


async def test_with_nesting_off_neither_counts(stub: LdapStub, directories: Directories) -> None:
    """B089: neither groups of groups nor the primary group, as the page says."""
    tree = Tree(stub, {"objectSid": [SID], "primaryGroupID": ["513"]}, ad=True)
    tree.members = {"team-a": [ALICE], "ds": [f"cn=team-a,{GROUPS}"]}
    assert (await groups(directories, stub, LdapGroups(base=GROUPS))).groups == {"team-a"}
    assert all(RULE not in search.filter and "objectSid" not in search.filter for search in stub.searches)


@pytest.mark.parametrize(
    "odd",
    [
        {"objectSid": [b"\x01"], "primaryGroupID": ["513"]},
        {"objectSid": [SID], "primaryGroupID": ["-1"]},
        {"objectSid": [SID], "primaryGroupID": ["99999999999"]},
        {"objectSid": [SID]},
        {"primaryGroupID": ["513"]},
    ],
)
async def test_an_entry_without_a_proper_primary_group_has_its_others(
    stub: LdapStub, directories: Directories, odd: dict[str, list[str | bytes]]
) -> None:
    tree = Tree(stub, odd, ad=True)
    tree.members = {"team-a": [ALICE]}
    assert (await groups(directories, stub, LdapGroups(base=GROUPS, nested=True))).groups == {"team-a"}


# Somebody who was let in by a template is who was bound.


@pytest.mark.parametrize(
    ("entry", "others", "gets_in"),
    [
        ({"userPrincipalName": ["alice@example.test"], "sAMAccountName": ["asmith"]}, [], True),
        ({"userPrincipalName": ["ALICE@Example.TEST"], "sAMAccountName": ["alice"]}, [], True),
        ({"sAMAccountName": ["alice"]}, [], True),
        ({"userPrincipalName": ["a.smith@example.test"], "sAMAccountName": ["alice"]}, [], True),
        # Somebody else has this very name, so it was somebody else who was bound.
        ({"userPrincipalName": ["a.smith@example.test"], "sAMAccountName": ["alice"]}, ["other"], False),
        ({"sAMAccountName": ["bob"]}, [], False),
        ({}, [], False),
    ],
)
async def test_the_entry_that_is_found_has_to_be_the_one_that_was_bound(
    stub: LdapStub, directories: Directories, entry: dict[str, list[str | bytes]], others: list[str], gets_in: bool
) -> None:
    """An Active Directory looks for the whole name first, and then for what stands before the `@`."""
    tree = Tree(stub, entry, ad=True)
    stub.on_search = lambda search: (
        [Entry(f"uid={other},{PEOPLE}", {}) for other in others]
        if search.filter == "(userPrincipalName=alice@example.test)"
        else [tree.alice]
    )
    users = LdapUsers(base=PEOPLE, dn_template="{username}@example.test")
    for own in ({}, {"bind": None}):
        directory = directories.stubbed(stub, users=users, **own)
        if gets_in:
            assert (await directory.log_in("alice", "x", PEER)).subject == "alice"
        else:
            with pytest.raises(BadLogin, match="not accepted") as caught:
                await directory.log_in("alice", "x", PEER)
            assert "not the one that was bound" in caught.value.detail


async def test_whoever_the_filter_leaves_out_does_not_get_in_by_a_template(
    stub: LdapStub, directories: Directories
) -> None:
    stub.on_bind = lambda _: Answer()
    stub.on_search = lambda search: [] if "ou=ml" in search.filter else [Entry(ALICE, {"uid": ["alice"]})]
    users = LdapUsers(base=PEOPLE, dn_template=f"uid={{username}},{PEOPLE}", filter="(&(uid={username})(ou=ml))")
    with pytest.raises(BadLogin) as caught:
        await directories.stubbed(stub, users=users).log_in("alice", "x", PEER)
    assert caught.value.reason == "refused_account"

"""Servers that answer what `slapd` never would: odd codes, referrals, wrong certificates, nonsense. Nobody gets in by
it, no password goes where it must not, and a bad credential is never mistaken for a bad server, nor the other way."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import GroupsUnknown
from gateway.identity.refused import BadLogin
from gateway.settings import LdapGroups, LdapUsers
from tests.identity.ldap import certificates
from tests.identity.ldap.certificates import ELSEWHERE, Authority
from tests.identity.ldap.conftest import OWN_PASSWORD, PEER, STUB_SERVICE, Directories, refused, unavailable
from tests.parts.ldap_messages import Answer, Bind, Entry, Reference, ended, escaped, message, notice
from tests.parts.ldap_stub import GROUPS, PEOPLE, LdapStub, person

ALICE = f"uid=alice,{PEOPLE}"


def judged(stub: LdapStub, code: int, **more: object) -> Callable[[Bind], Answer]:
    """The gateway's own account gets in; everybody else is answered with `code`."""
    return lambda bind: Answer() if bind.dn == STUB_SERVICE else Answer(code, **more)  # type: ignore[arg-type]


# What a bind is answered with.


#: What a server answers without a look at the password; `accounts` may be to blame, or a setting.
ODD = [8, 10, 13, 14, 50, 53]
#: What judges nobody, beside codes that there are not.
UNJUDGED = [1, 2, 3, 7, 11, 12, 33, 36, 51, 52, 54, 64, 71, 80, 118]


@pytest.mark.parametrize("code", [49, 19, 32, 34, 16, 48, *ODD])
@pytest.mark.parametrize("template", ["", f"uid={{username}},{PEOPLE}"])
async def test_only_one_code_of_a_bind_lets_in(
    stub: LdapStub, directories: Directories, code: int, template: str
) -> None:
    """B081: whatever the password."""
    stub.on_bind = judged(stub, code, referral=["ldap://evil.test/"] if code == 10 else ())
    directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, dn_template=template))
    for password in ("alice-secret", "wrong"):
        assert await refused(directory, "alice", password) == ("refused_account" if code in ODD else "bad_password")


@pytest.mark.parametrize("code", UNJUDGED)
@pytest.mark.parametrize("template", ["", f"uid={{username}},{PEOPLE}"])
async def test_a_server_that_did_not_judge_is_not_taken_to_have_said_no(
    stub: LdapStub, directories: Directories, code: int, template: str
) -> None:
    """B081: nobody gets in; but busy, unavailable and the like say nothing of a password, so the answer is 503."""
    stub.on_bind = judged(stub, code)
    directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, dn_template=template))
    assert f"answered with {code} " in await unavailable(directory)


@pytest.mark.parametrize("code", ODD)
async def test_an_answer_that_looked_at_no_password_is_no_failed_login_and_soon_forgotten(
    stub: LdapStub, directories: Directories, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be a setting of the server: then nobody is slowed down for it, and it is over when it is mended."""
    stub.on_bind = judged(stub, code)
    directory = directories.stubbed(stub)
    for _ in range(3):
        await refused(directory, "alice", "alice-secret")
        await refused(directory, "bob", "bob-secret")
        directories.steady.at += 1
    assert {told[0] for told in directories.throttle.told} == {"admit", "unanswered"}
    events = [record.getMessage() for record in caplog.records]
    assert events == [f"identity.directory.odd_bind name=directory code={code}"]
    stub.on_bind = stub._judge
    assert (await directory.log_in("alice", "alice-secret", PEER)).subject == "alice"


@pytest.mark.parametrize("code", UNJUDGED)
@pytest.mark.parametrize("template", ["", f"uid={{username}},{PEOPLE}"])
async def test_an_account_that_a_server_cannot_judge_takes_nobody_elses_login_along(
    stub: LdapStub, directories: Directories, code: int, template: str
) -> None:
    """However often it is tried: the server answers, so it is no outage, and the next one is asked all the same."""
    stub.on_bind = lambda bind: Answer(code) if bind.dn == ALICE else stub._judge(bind)
    directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, dn_template=template))
    for n in range(5):
        await unavailable(directory, "alice", f"guess-{n}")
        assert directory.standing().ready
    assert (await directory.log_in("bob", "bob-secret", PEER)).subject == "bob"


async def test_a_second_server_may_judge_whom_the_first_one_cannot(stub: LdapStub, directories: Directories) -> None:
    with LdapStub() as other:
        directory = directories.stubbed(stub, other)
        stub.on_bind = judged(stub, 52)
        for password in ("alice-secret", "wrong"):
            if password == "wrong":
                assert await refused(directory, "alice", password) == "bad_password"
            else:
                assert (await directory.log_in("alice", password, PEER)).subject == "alice"
        other.stop()
        await unavailable(directory, "bob", "bob-secret")
        assert directory.standing().ready, "the first one answers all the time"


async def test_a_code_that_there_is_not_lets_nobody_in(stub: LdapStub, directories: Directories) -> None:
    stub.on_bind = judged(stub, 4711)
    await unavailable(directories.stubbed(stub))


async def test_an_answer_to_something_else_lets_nobody_in(stub: LdapStub, directories: Directories) -> None:
    """A good end of a search in place of the answer to a bind."""
    stub.on_bind = judged(stub, 0)
    directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, dn_template=f"uid={{username}},{PEOPLE}"))
    stub.instead = message(2, ended(0x65, Answer()))
    for identity in range(1, 400):  # the library counts messages for the whole process
        stub.instead += message(identity, ended(0x65, Answer()))
    await unavailable(directory)


@pytest.mark.parametrize("password", ["\u00ad", "\u200b", "\u2060\ufeff", "\u00a0", " "])
async def test_a_password_of_characters_that_look_like_nothing_is_sent_as_it_is(
    stub: LdapStub, directories: Directories, password: str
) -> None:
    """B081: a client that prepares passwords (RFC 4013) would make nothing of these, and bind as nobody: a success."""
    stub.on_bind = lambda bind: Answer(0 if bind.dn == STUB_SERVICE or not bind.password else 49)
    assert await refused(directories.stubbed(stub), "alice", password) == "bad_password"
    assert stub.asked_as(ALICE) == [password.encode()]


async def test_an_empty_password_or_name_is_refused_before_anything_is_sent(
    stub: LdapStub, directories: Directories
) -> None:
    stub.on_bind = lambda _: Answer(0)
    for template in ("", f"uid={{username}},{PEOPLE}"):
        directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, dn_template=template))
        for name, password in (("alice", ""), ("", "x"), ("\x00", "x"), ("a" * 300, "x"), ("a", "x" * 5000)):
            assert await refused(directory, name, password) == "malformed"
    assert stub.connections == 0


async def test_an_entry_without_a_name_is_nobody(stub: LdapStub, directories: Directories) -> None:
    """A bind with no name and a password may be a success that says nothing."""
    stub.entries = [Entry("", {"uid": ["alice"]})]
    stub.on_bind = lambda _: Answer(0)
    assert await refused(directories.stubbed(stub), "alice", "x") == "bad_password"
    assert [bind.dn for bind in stub.binds] == [STUB_SERVICE]


# What a search is answered with.


@pytest.mark.parametrize("count", [0, 2, 3])
async def test_whoever_is_not_exactly_one_does_not_get_in(stub: LdapStub, directories: Directories, count: int) -> None:
    stub.on_bind = lambda _: Answer(0)
    stub.entries = [Entry(f"uid=alice,ou={n},{PEOPLE}", {"uid": ["alice"]}) for n in range(count)]
    directory = directories.stubbed(stub)
    stub.entries = stub.entries[:count]
    assert await refused(directory, "alice", "alice-secret") == "bad_password"
    assert [bind.dn for bind in stub.binds] == [STUB_SERVICE]


@pytest.mark.parametrize("code", [1, 10, 32, 50, 51, 52, 11, 3, 53, 80])
async def test_a_search_that_was_not_answered_to_the_end_is_503_and_nobody_is_bound(
    stub: LdapStub, directories: Directories, code: int
) -> None:
    stub.on_search = lambda _: [person("alice"), Answer(code, referral=["ldap://evil.test/"] if code == 10 else ())]
    directory = directories.stubbed(stub)
    assert f"answered with {code} " in await unavailable(directory)
    assert stub.asked_as(ALICE) == []


async def test_referrals_are_never_followed(stub: LdapStub, directories: Directories) -> None:
    """B085: neither from a bind nor from a search, and least of all with somebody's password."""
    with LdapStub() as evil:
        evil.on_bind, evil.on_search = lambda _: Answer(0), lambda _: [person("alice")]
        url = f"ldap://127.0.0.1:{evil.port}/"
        directory = directories.stubbed(stub)
        stub.on_search = lambda search: [*stub._find(search), Reference(url), Reference("ldap://evil.test/x??sub")]
        assert (await directory.log_in("alice", "alice-secret", PEER)).subject == "alice"
        stub.on_bind = judged(stub, 10, referral=[url])
        assert await refused(directory, "bob", "bob-secret") == "refused_account"
        stub.on_search = lambda _: [Answer(10, referral=[url, "ldap://127.0.0.1:1/"])]
        await unavailable(directory, "carol", "x")
        assert evil.connections == 0


@pytest.mark.parametrize("given", [0, 1])
async def test_a_name_of_which_the_server_has_more_entries_than_it_gives_is_nobodys(
    stub: LdapStub, directories: Directories, given: int
) -> None:
    """sizeLimitExceeded: which of them is meant nobody knows, and the next directory is not asked."""
    stub.on_bind = lambda _: Answer(0)
    stub.on_search = lambda _: [*[person("alice")] * given, Answer(4)]
    directory = directories.stubbed(stub)
    with pytest.raises(BadLogin):
        await directory.log_in_if_known("alice", "alice-secret", PEER)
    assert stub.asked_as(ALICE) == []


HERE = "dc=example,dc=test"


@pytest.mark.parametrize(
    ("references", "somewhere"),
    [
        ((f"ldap://child.test/dc=child,{HERE}",), True),
        ((f"ldap://other.test/ou=people,{HERE}??sub",), True),
        (("ldap://other.test/",), True),
        (("ldap://other.test",), True),
        (("nonsense %",), True),
        (("ldap://[x/dc=configuration,dc=test",), True),
        (("ldap://x/cn=configuration",), True),
        (("ldap://x/cn=configuration,ou=people,dc=test",), True),
        ((f"ldap://x/ou=cn\\=configuration\\,dc\\=a,{HERE}",), True),
        ((f"ldap://x/CN=Configuration,{HERE}", f"ldap://child.test/dc=child,{HERE}"), True),
        ((f"ldap://example.test/CN=Configuration,{HERE}",), False),
        ((f"ldap://x/CN=Schema,CN=Configuration,{HERE}",), False),
        ((f"ldap://x/DC=DomainDnsZones,{HERE}??sub", f"ldap://x/DC=ForestDnsZones%2c{HERE}"), False),
    ],
)
async def test_a_directory_that_refers_elsewhere_does_not_say_that_nobody_has_the_name(
    stub: LdapStub, directories: Directories, references: tuple[str, ...], somewhere: bool
) -> None:
    """So no other directory is asked; but for what lies beside each domain of an Active Directory and holds nobody."""
    stub.on_search = lambda _: map(Reference, references)
    directory = directories.stubbed(stub)
    if somewhere:
        with pytest.raises(BadLogin):
            await directory.log_in_if_known("alice", "alice-secret", PEER)
        with pytest.raises(GroupsUnknown):
            await directory.groups_of("alice")
    else:
        assert await directory.log_in_if_known("alice", "alice-secret", PEER) is None
        assert await directory.groups_of("alice") == frozenset()
    assert directory.standing().ready


@pytest.mark.parametrize(
    "entry",
    [
        Entry(ALICE, {}),
        Entry(ALICE, {"uid": ["alice", "bob"], "x": ["y"]}),
        Entry(f"cn=a,{PEOPLE}", {"uid": ["alice", "root"]}),
        Entry(ALICE, {"uid": ["ali\x00ce"]}),
        Entry(ALICE, {"uid": [b"\xff\xfe"]}),
        Entry(ALICE, {"uid": ["a" * 600]}),
        Entry(ALICE, {"uid": [""]}),
    ],
)
async def test_whoever_has_no_one_plain_name_does_not_get_in(
    stub: LdapStub, directories: Directories, entry: Entry
) -> None:
    """Values have no order, so of several one is taken only where the entry itself is named by it."""
    stub.on_bind = lambda _: Answer(0)
    stub.on_search = lambda _: [entry]
    directory = directories.stubbed(stub)
    if entry.attributes.get("uid") == ["alice", "bob"]:
        assert (await directory.log_in("bob", "x", PEER)).subject == "alice"
    else:
        assert await refused(directory, "alice", "x") == "refused_account"


async def test_numbers_in_bytes_make_names_too(stub: LdapStub, directories: Directories) -> None:
    guid = bytes.fromhex("33221100554477668899aabbccddeeff")
    sid = b"\x01\x05" + (5).to_bytes(6, "big") + b"".join(n.to_bytes(4, "little") for n in (21, 1, 2, 3, 1104))
    stub.on_bind = lambda _: Answer(0)
    stub.on_search = lambda _: [Entry(ALICE, {"objectGUID": [guid], "objectSid": [sid]})]
    for attribute, subject in (
        ("objectGUID", "00112233-4455-6677-8899-aabbccddeeff"),
        ("objectSid", "S-1-5-21-1-2-3-1104"),
    ):
        directory = directories.stubbed(stub, users=LdapUsers(base=PEOPLE, subject=attribute))
        assert (await directory.log_in("alice", "x", PEER)).subject == subject
        await directory.groups_of(subject)
    assert stub.searches[1].filter == ("(&(objectGUID=3\\22\\11\\00UDwf\\88\\99\\aa\\bb\\cc\\dd\\ee\\ff)(uid=*))")
    assert "(objectSid=S-1-5-21-1-2-3-1104)" in stub.searches[3].filter


@pytest.mark.parametrize(
    "name", ["*", "a*", "alice)(uid=*", "*)(|(uid=*", "alice\\2a", "\\", "(", "ａlice", "élise", " alice ", "a=b,c"]
)
async def test_what_somebody_types_arrives_as_one_value(stub: LdapStub, directories: Directories, name: str) -> None:
    """B083: as the server reads it from the wire."""
    await refused(directories.stubbed(stub), name, "x")
    assert [search.filter for search in stub.searches] == [f"(uid={escaped(name.encode())})"]


@pytest.mark.parametrize(
    ("name", "dn"),
    [
        ("x,ou=admins", "uid=x\\,ou\\=admins"),
        ("a+b", "uid=a\\+b"),
        ("#x", "uid=\\#x"),
        (" x", "uid=\\ x"),
        ("x ", "uid=x\\ "),
        ('a"b', 'uid=a\\"b'),
        ("a\\,b", "uid=a\\\\\\,b"),
        ("a=b", "uid=a\\=b"),
        ("a;b", "uid=a\\;b"),
        ("élise", "uid=élise"),
    ],
)
async def test_what_somebody_types_stays_one_step_of_the_name_that_is_bound(
    stub: LdapStub, directories: Directories, name: str, dn: str
) -> None:
    """B084."""
    users = LdapUsers(base=PEOPLE, dn_template=f"uid={{username}},{PEOPLE}")
    await refused(directories.stubbed(stub, users=users, bind=None), name, "x")
    assert [bind.dn for bind in stub.binds] == [f"{dn},{PEOPLE}"]


@pytest.mark.parametrize("name", ["a@b", "a\\b", "a,b", "a b", "a/b", 'a"b', "a=b", "", "a*", "a)b", "x" * 65])
async def test_before_an_at_sign_stand_letters_digits_and_three_marks(
    stub: LdapStub, directories: Directories, name: str
) -> None:
    """B084: in a template that is no distinguished name there is nothing to escape with."""
    users = LdapUsers(base=PEOPLE, dn_template="{username}@example.test")
    await refused(directories.stubbed(stub, users=users), name, "x")
    assert stub.connections == 0


# Transport.


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return certificates.authority(tmp_path)


WRONG: dict[str, tuple[Callable[[Authority], ssl.SSLContext], str]] = {
    "self-signed": (lambda one: certificates.self_signed(one.file.parent), "certificate does not hold"),
    "another name": (lambda one: one.server(ELSEWHERE), "certificate does not hold"),
    "the name as a common name alone": (lambda one: one.server(None, common_name="127.0.0.1"), "does not hold"),
    "expired": (lambda one: one.server(days=-1), "certificate has expired"),
    "TLS 1.1": (lambda one: one.server(version=ssl.TLSVersion.TLSv1_1), ""),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("by_start_tls", [False, True])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
async def test_a_server_whose_certificate_does_not_hold_gets_no_password(
    authority: Authority, directories: Directories, wrong: str, by_start_tls: bool
) -> None:
    """B085: 503, the log says why, and nothing is sent."""
    make, why = WRONG[wrong]
    context = make(authority)
    with LdapStub(**{"start_tls" if by_start_tls else "tls": context}) as stub:
        directory = directories.stubbed(stub, ca=authority.file, start_tls=by_start_tls)
        assert why in await unavailable(directory)
        assert stub.binds == []
        assert not any(OWN_PASSWORD.encode() in piece or b"alice-secret" in piece for piece in stub.raw)


@pytest.mark.parametrize("by_start_tls", [False, True])
async def test_a_server_whose_certificate_holds_is_asked(
    authority: Authority, directories: Directories, by_start_tls: bool
) -> None:
    with LdapStub(**{"start_tls" if by_start_tls else "tls": authority.server()}) as stub:
        directory = directories.stubbed(stub, ca=authority.file, start_tls=by_start_tls)
        assert (await directory.log_in("alice", "alice-secret", PEER)).subject == "alice"
        assert len(stub.extended) == (2 if by_start_tls else 0)


async def test_there_is_no_going_on_in_plain_where_start_tls_is_refused(
    stub: LdapStub, authority: Authority, directories: Directories
) -> None:
    """B085."""
    directory = directories.stubbed(stub, ca=authority.file, start_tls=True)
    assert "StartTLS was answered with 2" in await unavailable(directory)
    assert stub.binds == []


async def test_what_is_said_in_plain_beside_start_tls_is_not_taken_for_an_answer_within(
    authority: Authority, directories: Directories
) -> None:
    """Whoever sits in between may add answers to the last plain one."""
    with LdapStub(start_tls=authority.server()) as stub:
        directory = directories.stubbed(stub, ca=authority.file, start_tls=True)
        stub.on_bind = lambda _: Answer(49)
        injected = b"".join(message(n, ended(0x61, Answer())) for n in range(1, 3000))
        stub.instead = injected
        await unavailable(directory)
        assert stub.binds == []


# Nonsense.

GOOD = message(1, ended(0x61, Answer()))


@given(st.one_of(st.binary(max_size=200), st.tuples(st.integers(0, len(GOOD) - 1), st.binary(max_size=8))))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_a_server_says_in_place_of_an_answer_nobody_gets_in(
    directories: Directories, said: bytes | tuple[int, bytes]
) -> None:
    spoilt = said if isinstance(said, bytes) else GOOD[: said[0]] + said[1] + GOOD[said[0] + 1 :]
    with LdapStub() as stub:
        stub.on_bind = judged(stub, 49)
        directory = directories.stubbed(stub, timeout=0.2)
        await unavailable_after(stub, directory, spoilt)


async def unavailable_after(stub: LdapStub, directory: object, said: bytes) -> None:
    stub.instead = said or b"\x00"
    await unavailable(directory)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    [
        b"\x30\x84\x7f\xff\xff\xff" + b"\x00" * 100,
        b"\x30\x80" * 3000,
        b"\x30\x84\x00\x00\xff\xff" + b"\x30\x82\xff\xf0" * 16000,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        notice(),
        message(0, ended(0x78, Answer(0))),
    ],
)
async def test_an_answer_that_is_no_ldap_is_503_in_time(stub: LdapStub, directories: Directories, said: bytes) -> None:
    stub.instead = said
    await unavailable(directories.stubbed(stub, timeout=0.3))


async def test_an_answer_without_an_end_is_cut_off(
    stub: LdapStub, directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much a server has to say, it does not fill the memory."""
    monkeypatch.setattr("gateway.identity.ldap.line.ANSWERS_LIMIT", 100_000)
    stub.on_search = lambda _: (Entry(f"uid=alice{n},{PEOPLE}", {"uid": ["a" * 1000]}) for n in range(10_000))
    assert "more than 100000 bytes" in await unavailable(directories.stubbed(stub))


async def test_a_reason_in_the_log_carries_no_password(
    stub: LdapStub, directories: Directories, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    stub.on_bind = lambda bind: Answer(52, bind.password.decode())
    directory = directories.stubbed(stub, groups=LdapGroups(base="dc=test"))
    said = await unavailable(directory)
    assert "52" in said
    stub.on_bind = judged(stub, 49, message="alice-secret")
    directories.steady.at += 100
    await refused(directories.stubbed(stub), "alice", "alice-secret")
    everything = caplog.text + said
    assert "secret" not in everything


async def test_searches_leave_aliases_alone(stub: LdapStub, directories: Directories) -> None:
    """An alias could lead from where people are searched to wherever somebody who may write there likes."""
    directory = directories.stubbed(stub, groups=LdapGroups(base=GROUPS))
    await directory.log_in("alice", "alice-secret", PEER)
    assert [search.deref for search in stub.searches] == [0, 0]

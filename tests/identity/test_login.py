"""HTTP Basic before one directory or several: who is asked, in which order, and what a connection remembers."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from gateway.call import Call, Principal
from gateway.errors import IdentityUnavailable, LoginThrottled
from gateway.identity.apikeys.keytext import new_key
from gateway.identity.passwords.login import BasicIdentity
from gateway.identity.refused import BadLogin
from gateway.settings import LdapCache
from tests.identity.conftest import call_with, challenge
from tests.identity.ldap.conftest import Directories
from tests.parts.ldap_messages import Answer
from tests.parts.ldap_stub import PEOPLE, LdapStub, person

_FORGETFUL = LdapCache(positive=0.0)
ALICE, BOB = (f"uid={name},{PEOPLE}" for name in ("alice", "bob"))


@pytest.fixture
def directories() -> Iterator[Directories]:
    made = Directories()
    yield made
    made.close()


@pytest.fixture
def first() -> Iterator[LdapStub]:
    """Knows alice."""
    with LdapStub() as stub:
        stub.entries, stub.passwords = [person("alice")], {ALICE: "alice-secret"}
        yield stub


@pytest.fixture
def second() -> Iterator[LdapStub]:
    """Knows bob, and another alice."""
    with LdapStub() as stub:
        stub.entries = [person("alice"), person("bob")]
        stub.passwords = {ALICE: "another-secret", BOB: "bob-secret"}
        yield stub


@pytest.fixture
def both(first: LdapStub, second: LdapStub, directories: Directories) -> BasicIdentity:
    asked = [directories.stubbed(first, name="first"), directories.stubbed(second, name="second")]
    return BasicIdentity(asked, directories.steady, directories.count)


def basic(name: str, password: str) -> Call:
    return call_with((b"authorization", b"Basic " + base64.b64encode(f"{name}:{password}".encode())))


async def identified(identity: BasicIdentity, name: str, password: str) -> Principal:
    principal = await identity.identify(basic(name, password))
    assert principal is not None
    return principal


async def test_a_name_that_one_directory_does_not_know_is_asked_of_the_next(
    both: BasicIdentity, directories: Directories
) -> None:
    assert (await identified(both, "alice", "alice-secret")).issuer == "ldap:first"
    assert (await identified(both, "bob", "bob-secret")).issuer == "ldap:second"
    assert directories.counts == {("first", "ok"): 1, ("second", "ok"): 1}
    assert ("failed", "bob", "127.0.0.1") not in directories.throttle.told


async def test_one_that_knows_the_name_ends_the_search_and_the_password_goes_no_further(
    both: BasicIdentity, second: LdapStub, directories: Directories
) -> None:
    """Although the next one has somebody of this name with this very password, now and after it was remembered."""
    with pytest.raises(BadLogin):
        await both.identify(basic("alice", "another-secret"))
    assert second.connections == 0
    assert directories.counts == {("first", "bad_password"): 1}


async def test_one_that_cannot_be_asked_ends_the_search_too(
    both: BasicIdentity, first: LdapStub, second: LdapStub
) -> None:
    """The name may be its own."""
    first.on_bind = lambda _: Answer(52)
    for name in ("alice", "bob"):
        with pytest.raises(IdentityUnavailable):
            await both.identify(basic(name, f"{name}-secret"))
    assert second.connections == 0


async def test_a_name_that_nobody_knows_is_one_failed_login(both: BasicIdentity, directories: Directories) -> None:
    for _ in range(5):
        with pytest.raises(BadLogin) as caught:
            await both.identify(basic("nobody", "x"))
        assert challenge(caught.value.headers) == b'Basic realm="nim-gateway", charset="UTF-8"'
    assert directories.counts == {("second", "bad_password"): 5}
    assert [told[0] for told in directories.throttle.told] == ["admit", "unanswered", "admit", "failed"]


async def test_another_credential_and_none_are_somebody_elses(both: BasicIdentity, first: LdapStub) -> None:
    for call in (call_with(), call_with((b"authorization", b"Bearer abc"))):
        assert await both.identify(call) is None
    assert first.connections == 0
    assert await BasicIdentity([], lambda: 0.0, lambda *_: None).identify(basic("alice", "x")) is None


@pytest.mark.parametrize(
    "value",
    [
        b"Basic",
        b"Basic ",
        b"Basic !!!",
        b"Basic YWxpY2U",  # no padding
        b"Basic YWxpY2U=",  # no colon
        b"Basic YWxp Y2U6eA==",
        b"Basic _-8=",
        b"Basic " + base64.b64encode("élise:pässwörd".encode("latin-1")),
        b"Basic " + base64.b64encode(b"alice\x00:x"),
        b"Basic " + base64.b64encode(b"alice:x\n"),
        b"Basic " + base64.b64encode(b":x"),
        b"Basic " + base64.b64encode(b"alice:"),
        b"Basic " + base64.b64encode(b"a" * 4000 + b":x"),
    ],
)
async def test_what_cannot_be_read_in_one_way_is_401_and_asks_nobody(
    both: BasicIdentity, first: LdapStub, second: LdapStub, directories: Directories, value: bytes
) -> None:
    """B091."""
    with pytest.raises(BadLogin) as caught:
        await both.identify(call_with((b"authorization", value)))
    assert caught.value.status == 401
    assert first.connections + second.connections == 0
    assert sum(directories.counts.values()) == 1


@pytest.mark.parametrize("password", ["pa:ss:word", ":", "pässwörd€", " x ", '"'])
async def test_a_password_is_all_that_stands_behind_the_first_colon(
    both: BasicIdentity, first: LdapStub, password: str
) -> None:
    """B091."""
    first.passwords[ALICE] = password
    assert (await identified(both, "alice", password)).subject == "alice"


# What a connection remembers.


async def test_a_head_that_comes_again_is_known_without_asking_as_long_as_the_login_is_remembered(
    both: BasicIdentity, directories: Directories
) -> None:
    call = basic("alice", "alice-secret")
    assert both.recall(call) is None
    principal = await both.identify(call)
    directories.steady.at += 299
    assert both.recall(call) == principal
    directories.steady.at += 1
    assert both.recall(call) is None
    assert directories.counts == {("first", "ok"): 1, ("first", "cached"): 1}


async def test_nothing_is_noted_where_nothing_is_to_be_remembered(first: LdapStub, directories: Directories) -> None:
    from_settings = directories.stubbed(first, cache=_FORGETFUL)
    identity = BasicIdentity([from_settings], directories.steady, directories.count)
    call = basic("alice", "alice-secret")
    await identity.identify(call)
    assert identity.recall(call) is None


async def test_whoever_is_throttled_hears_429(both: BasicIdentity, directories: Directories) -> None:
    directories.throttle.barred.add("alice")
    with pytest.raises(LoginThrottled) as caught:
        await both.identify(basic("alice", "alice-secret"))
    assert (caught.value.status, caught.value.retry_after) == (429, 1)


KEY = new_key("svcbatch", lambda _: 7)


@pytest.mark.parametrize(("name", "password"), [
    ("alice", KEY), ("alice", f" {KEY}"), ("alice", f"{KEY} "), ("alice", f"Bearer {KEY}"), ("alice", KEY[:-9]),
    (KEY, "alice-secret"), (f"{KEY}@office", "x"),
])  # fmt: skip
async def test_an_api_key_is_shown_to_no_directory(
    both: BasicIdentity, first: LdapStub, second: LdapStub, directories: Directories, name: str, password: str
) -> None:
    """A bind would hand it, as it is, to whoever runs or reads the directory; also where no keys are configured."""
    with pytest.raises(BadLogin) as refused:
        await both.identify(basic(name, password))
    assert KEY[:-9] not in f"{refused.value} {refused.value.detail}"
    assert (first.connections, second.connections) == (0, 0)
    assert directories.counts == {("unknown", "wrong_kind"): 1}
    assert ("failed", name, "127.0.0.1") not in directories.throttle.told


async def test_somebody_whose_name_only_begins_like_a_key_logs_in(both: BasicIdentity, first: LdapStub) -> None:
    first.entries.append(person("nimgw_reader"))
    first.passwords[f"uid=nimgw_reader,{PEOPLE}"] = "not a nimgw_ key"
    assert (await identified(both, "nimgw_reader", "not a nimgw_ key")).subject == "nimgw_reader"

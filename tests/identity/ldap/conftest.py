"""The bench of the LDAP tests: directories of ours before real and scripted servers, closed with the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import tls
from gateway.errors import IdentityUnavailable, LoginThrottled
from gateway.identity.ldap.directory import LdapDirectory
from gateway.identity.refused import BadLogin
from gateway.settings import ClientTls, Ldap, LdapBind, LdapGroups, LdapUsers
from tests.identity.conftest import EPOCH, Clock
from tests.parts import ldap_stub
from tests.parts.ldap_stub import LdapStub
from tests.parts.slapd import GROUPS, PEOPLE, SERVICE, Slapd

PEER = "192.0.2.7"
STUB_SERVICE = ldap_stub.SERVICE
OWN_PASSWORD = "own-secret"


class Throttle:
    """Writes down what it is told; refuses whom it is told to."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.entries: list[tuple[str, str]] = []
        self.barred: set[str] = set()

    def admit(self, account: str, peer: str) -> None:
        if account in self.barred:
            raise LoginThrottled(retry_after=1)
        self.told.append(("admit", account, peer))

    def found(self, entry: str, peer: str) -> None:
        if entry in self.barred:
            raise LoginThrottled(retry_after=1)
        self.entries.append(("found", entry))

    def failed(self, account: str, peer: str, entry: str) -> None:
        self._ended("failed", account, peer, entry)

    def succeeded(self, account: str, peer: str, entry: str) -> None:
        self._ended("succeeded", account, peer, entry)

    def unanswered(self, account: str, peer: str, entry: str) -> None:
        self._ended("unanswered", account, peer, entry)

    def _ended(self, how: str, account: str, peer: str, entry: str) -> None:
        self.told.append((how, account, peer))
        if entry:
            self.entries.append((how, entry))


class Directories:
    """Makes directories; `steady` is the clock of what they remember, `wall` that of the world."""

    def __init__(self) -> None:
        self.steady = Clock(1000.0)
        self.wall = Clock(EPOCH)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.throttle = Throttle()
        self._made: list[LdapDirectory] = []

    def count(self, provider: str, result: str) -> None:
        self.counts[provider, result] += 1

    def of(self, settings: Ldap) -> LdapDirectory:
        context = tls.client_context(ClientTls(ca=settings.ca)) if settings.ca else None
        made = LdapDirectory(settings, context, self.count, self.throttle, self.steady, self.wall)
        self._made.append(made)
        return made

    def before(self, slapd: Slapd, **more: Any) -> LdapDirectory:
        """Search and bind over LDAPS; `more` replaces settings."""
        return self.of(settings(slapd, **more))

    def stubbed(self, *stubs: LdapStub, **more: Any) -> LdapDirectory:
        """Before scripted servers, which get the gateway's own account, and alice and bob where they have nobody."""
        for stub in stubs:
            stub.passwords.setdefault(STUB_SERVICE, OWN_PASSWORD)
            if not stub.entries:
                stub.entries = [ldap_stub.person("alice"), ldap_stub.person("bob")]
                stub.passwords |= {f"uid={name},{ldap_stub.PEOPLE}": f"{name}-secret" for name in ("alice", "bob")}
        usual: dict[str, Any] = {
            "name": "directory",
            "servers": tuple(stub.url for stub in stubs),
            "users": LdapUsers(base=ldap_stub.PEOPLE),
            "bind": LdapBind(STUB_SERVICE, OWN_PASSWORD),
        }
        return self.of(Ldap(**usual | more))

    def close(self) -> None:
        for made in self._made:
            made.close()


def settings(slapd: Slapd, **more: Any) -> Ldap:
    """For a real directory."""
    usual: dict[str, Any] = {
        "name": "directory",
        "servers": (slapd.ldaps,),
        "ca": Path(slapd.ca),
        "users": LdapUsers(base=PEOPLE),
        "bind": LdapBind(SERVICE, slapd.passwords[SERVICE]),
        "groups": LdapGroups(base=GROUPS),
    }
    return Ldap(**usual | more)


async def refused(directory: LdapDirectory, name: str, password: str) -> str:
    """The reason why a login is refused, as counted. Fails if it is not refused the way clients rely on."""
    with pytest.raises(BadLogin) as caught:
        await directory.log_in(name, password, PEER)
    assert caught.value.status == 401
    return caught.value.reason.value


async def unavailable(directory: LdapDirectory, name: str = "alice", password: str = "alice-secret") -> str:  # noqa: S107
    """Why the directory could not be asked, as the log has it. Fails if the caller is told anything else."""
    with pytest.raises(IdentityUnavailable) as caught:
        await directory.log_in(name, password, PEER)
    assert caught.value.status == 503
    assert 1 <= (caught.value.retry_after or 0) <= 60
    return caught.value.detail


@pytest.fixture
def stub() -> Iterator[LdapStub]:
    with LdapStub() as made:
        yield made


@pytest.fixture
def directories() -> Iterator[Directories]:
    made = Directories()
    yield made
    made.close()

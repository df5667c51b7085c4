"""What lets nobody log in is found out before anybody tries: at each server, with the setting to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway import tls
from gateway.devcerts import make
from gateway.identity.ldap.trial import Trouble, troubles
from gateway.settings import ClientTls, Ldap, LdapBind, LdapGroups, LdapUsers
from tests.identity.ldap.conftest import Directories, settings, unavailable
from tests.parts.ldap_messages import Answer
from tests.parts.ldap_stub import LdapStub
from tests.parts.process import free_port
from tests.parts.slapd import GROUPS, PEOPLE, SERVICE, Slapd, person


def found(configured: Ldap) -> list[Trouble]:
    context = tls.client_context(ClientTls(ca=configured.ca), protocols=()) if configured.ca else None
    return list(troubles(configured, context))


def one(slapd: Slapd, **more: Any) -> tuple[tuple[str | int, ...], str]:
    """The setting and the reason of the only trouble."""
    (trouble,) = found(settings(slapd, **more))
    return trouble.setting, trouble.why


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"groups": None},
        {"groups": LdapGroups(attribute="memberOf")},
        {"bind": None, "users": LdapUsers(dn_template=f"uid={{username}},{PEOPLE}")},
        {"users": LdapUsers(dn_template=f"uid={{username}},{PEOPLE}")},
    ],
)
def test_good_settings_are_no_trouble(slapd: Slapd, more: dict[str, Any]) -> None:
    assert found(settings(slapd, **more)) == []


@pytest.mark.parametrize(
    ("more", "setting", "words"),
    [
        (
            {"users": LdapUsers(base=f"ou=peple,{PEOPLE}")},
            ("users", "base"),
            f"a search under 'ou=peple,{PEOPLE}' was answered with 32 noSuchObject; is users.base spelt as in the",
        ),
        (
            {"users": LdapUsers(base=GROUPS)},
            ("users", "base"),
            "nobody is found under users.base with the filter (uid=*)",
        ),
        (
            {"users": LdapUsers(base=PEOPLE, subject="sAMAccountName")},
            ("users", "subject"),
            "none of the people that are found has the attribute sAMAccountName",
        ),
        (
            {"groups": LdapGroups(base=f"ou=grups,{PEOPLE}")},
            ("groups", "base"),
            f"a search under 'ou=grups,{PEOPLE}' was answered with 32 noSuchObject; is groups.base spelt as in the",
        ),
        ({"bind": LdapBind(SERVICE, "wrong")}, ("bind",), "49 invalidCredentials; bind.dn or bind.password is wrong"),
        ({"bind": LdapBind("nobody", "wrong")}, ("bind",), "34 invalidDNSyntax; bind.dn or bind.password is wrong"),
    ],
)
def test_a_setting_under_which_nobody_could_log_in_is_named(
    slapd: Slapd, more: dict[str, Any], setting: tuple[str, ...], words: str
) -> None:
    named, why = one(slapd, **more)
    assert named == setting
    assert words in why


def test_a_directory_that_lets_nobody_read_without_an_account_asks_for_one(slapd: Slapd) -> None:
    for trouble in found(settings(slapd, bind=None)):
        assert trouble.setting == ("users",)
        assert trouble.why.endswith(
            "50 insufficientAccessRights; without bind the search is made by nobody: give an account"
        )


def test_both_bases_are_tried(slapd: Slapd) -> None:
    wrong = settings(slapd, users=LdapUsers(base=f"ou=a,{PEOPLE}"), groups=LdapGroups(base=f"ou=b,{PEOPLE}"))
    assert [trouble.setting for trouble in found(wrong)] == [("users", "base"), ("groups", "base")]


def test_a_certificate_that_is_not_trusted_leads_to_the_authorities(slapd: Slapd, tmp_path: Path) -> None:
    setting, why = one(slapd, ca=make(tmp_path).ca)
    assert setting == ("ca",)
    assert why.endswith("certificate in certificate chain; set ca to the authorities that vouch for it")


@pytest.mark.parametrize(
    ("tls_first", "words"),
    [
        (True, "is this a plain port? There it is ldap:// with start_tls: true"),
        (False, "is this a port for TLS? There it is ldaps://"),
    ],
)
def test_the_wrong_kind_of_port_is_told(slapd: Slapd, tls_first: bool, words: str) -> None:
    server = f"ldaps://127.0.0.1:{slapd.plain}" if tls_first else f"ldap://127.0.0.1:{slapd.secure}"
    setting, why = one(slapd, servers=(server,), allow_insecure=True)
    assert setting == ("servers", 0)
    assert why.endswith(words)


def test_each_server_is_asked_and_each_that_fails_is_named(slapd: Slapd) -> None:
    away = [f"ldaps://127.0.0.1:{free_port()}" for _ in range(2)]
    said = found(settings(slapd, servers=(away[0], slapd.ldaps, away[1])))
    assert said == [
        Trouble(("servers", 0), away[0], "Connection refused"),
        Trouble(("servers", 2), away[1], "Connection refused"),
    ]


def test_an_account_that_one_server_refuses_is_not_tried_at_the_next(slapd: Slapd) -> None:
    """It would be locked."""
    servers = (slapd.ldaps, f"ldaps://localhost:{slapd.secure}")
    assert len(found(settings(slapd, servers=servers, bind=LdapBind(SERVICE, "wrong")))) == 1


async def test_an_account_of_the_gateway_whose_password_must_be_changed_says_so(
    slapd: Slapd, directories: Directories
) -> None:
    bind = LdapBind(person("reset"), slapd.passwords["reset"])
    words = "the gateway's own account is refused by the password policy: its password has to be changed first"
    assert one(slapd, bind=bind) == (("bind",), words)
    assert words in await unavailable(directories.before(slapd, bind=bind))


async def test_a_search_that_fails_says_where_it_was_made(slapd: Slapd, directories: Directories) -> None:
    """So it is clear from the log whether it was for people or for groups."""
    base = f"ou=grups,{PEOPLE}"
    directory = directories.before(slapd, groups=LdapGroups(base=base))
    why = await unavailable(directory, "alice", slapd.passwords["alice"])
    assert f"a search under '{base}' was answered with 32" in why


def test_a_server_that_wants_tls_is_told(stub: LdapStub) -> None:
    stub.on_bind = lambda _: Answer(13)
    configured = Ldap("directory", (stub.url,), LdapUsers(base=PEOPLE), LdapBind("cn=a", "b"))
    (trouble,) = found(configured)
    assert trouble.why.endswith("13 confidentialityRequired; it wants TLS: ldaps://, or start_tls: true")

"""Entries of `identity.ldap`: what does not fit together is said with its line, before anybody logs in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.config.conftest import MINIMAL, refused, taken

Write = Callable[[str], Path]

ENTRY = """\
  ldap:
    - name: directory
      servers: [ldaps://ldap.example.com]
      users: {base: "ou=people,dc=example,dc=com"}
      groups: {base: "ou=groups,dc=example,dc=com"}
policies: policies
"""
GOOD = MINIMAL.replace("policies: policies\n", ENTRY)

MISTAKES = {
    "plain": ("ldaps://", "ldap://", 10, "must be asked in TLS"),
    "plain by a name that only looks near": ("ldaps://ldap.example.com", "ldap://localhost.test", 10, "in TLS"),
    "no server": ("[ldaps://ldap.example.com]", "[]", 10, "a directory has at least one server"),
    "start_tls within TLS": ("      users", "      start_tls: true\n      users", 10, "start_tls is for ldap://"),
    "server twice": ("com]", "com, ldaps://LDAP.example.com:636]", 10, "stands in the list already"),
    "no URL": ("ldaps://ldap", "https://ldap", 10, "a server as ldaps://host"),
    "port": ("example.com]", "example.com:99999]", 10, "is not from 1"),
    "port of nothing": ("example.com]", "example.com:0]", 10, "port of this server is not from 1"),
    "a path": ("example.com]", "example.com/dc=x]", 10, "a server as ldaps://host"),
    "no base": ('{base: "ou=people,dc=example,dc=com"}', "{subject: uid}", 11, "users need a base"),
    "a base that is none": ('"ou=people,dc=example,dc=com"', "people", 11, "has no type"),
    "no filter": ("people,", 'people,dc=x", filter: "(uid={username}", x: "', 11, "do not match"),
    "a filter for everybody": (
        'com"}\n      groups',
        'com", filter: "(uid=alice)"}\n      groups',
        11,
        "same for everybody",
    ),
    "a filter for members": (
        'com"}\n      groups',
        'com", filter: "(uid={dn})"}\n      groups',
        11,
        "only {username} is known",
    ),
    "a place of no name": (
        'com"}\n      groups',
        'com", filter: "(uid={user})"}\n      groups',
        11,
        "nothing is called {user}",
    ),
    "a template without a place": (
        'base: "ou=people',
        'dn_template: "uid=alice,dc=x", base: "ou=people',
        11,
        "has {username} in it",
    ),
    "a template with two": (
        'base: "ou=people',
        'dn_template: "uid={username},ou={username}", base: "ou=people',
        11,
        "in it, once",
    ),
    "a template that is no name": (
        'base: "ou=people',
        'dn_template: "uid={username},people", base: "ou=people',
        11,
        "has no type",
    ),
    "a template with a name for a type": (
        'base: "ou=people',
        'dn_template: "{username}=a,dc=x", base: "ou=people',
        11,
        "has no type",
    ),
    "a full name and no base": (
        'base: "ou=people,dc=example,dc=com"',
        'dn_template: "{username}@example.com"',
        11,
        "need a base",
    ),
    "groups without a base": (
        'groups: {base: "ou=groups,dc=example,dc=com"}',
        "groups: {name: cn}",
        12,
        "groups need a base",
    ),
    "a group filter that is none": ("groups: {", 'groups: {filter: "member={dn}", ', 12, "in parentheses"),
    "connections": ("      users", "      connections: 1000\n      users", 11, "from 1 to 256"),
    "a password in the file": (
        "      users",
        "      bind: {dn: cn=gw, password: hunter2}\n      users",
        11,
        "a secret is not written here",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_said_with_its_line(write: Write, mistake: str) -> None:
    old, new, place, words = MISTAKES[mistake]
    assert old in GOOD
    lines = refused(write(GOOD.replace(old, new)))
    assert any(line.startswith(f"{place}:") and words in line for line in lines), lines
    assert "hunter2" not in "".join(lines)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("ldaps://ldap.example.com", "ldap://127.0.0.1"),
        ("ldaps://ldap.example.com", "ldap://localhost:10389"),
        ("ldaps://ldap.example.com", '"ldap://[::1]:389"'),
        ("[ldaps://ldap.example.com]", "[ldap://ldap.example.com]\n      start_tls: true"),
        ("[ldaps://ldap.example.com]", "[ldap://ldap.example.com]\n      allow_insecure: true"),
        ("[ldaps://ldap.example.com]", "[ldaps://a.example.com, ldaps://b.example.com:3269/]"),
        ('{base: "ou=people,dc=example,dc=com"}', '{dn_template: "uid={username},dc=x"}'),
        ('{base: "ou=people,dc=example,dc=com"}', '{dn_template: "{username}@example.com", base: "dc=x"}'),
        ('{base: "ou=groups,dc=example,dc=com"}', "{attribute: memberOf}"),
        ('{base: "ou=groups,dc=example,dc=com"}', '{base: "dc=x", filter: "(|(member={dn})(memberUid={username}))"}'),
    ],
)
def test_what_fits_is_taken(write: Write, old: str, new: str) -> None:
    assert taken(write(GOOD.replace(old, new))).settings.ldap[0].name == "directory"

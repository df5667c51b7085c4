"""What must hold between the settings of a directory.

Knows: which settings of `identity.ldap` depend on each other. Must not know: files on disk, how a directory is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from gateway.config.part import Finding, Part
from gateway.config.values import LDAP_URL
from gateway.identity.ldap.filters import Filter
from gateway.identity.ldap.line import address
from gateway.identity.ldap.names import parse

USERNAME: Final = "{username}"
ANYBODY: Final = "\N{WHITE SMILING FACE}"  # stands for a name where only a value may: no type has it


def directories(file: Part) -> Iterator[Finding]:
    """Everything that does not fit together in an entry of `identity.ldap`."""
    for directory in file["identity"]["ldap"]:
        yield from _servers(directory)
        yield from _people(directory["users"])
        yield from _groups(directory["groups"])


def _servers(directory: Part) -> Iterator[Finding]:
    """Names and passwords cross a network in TLS only, unless that is asked for by name."""
    start_tls, insecure = directory["start_tls"].value is True, directory["allow_insecure"].value is True
    seen: set[str] = set()
    for server in directory["servers"].texts():
        if not re.fullmatch(LDAP_URL, server.text):
            continue  # its type says so
        try:
            at = address(server.text)
        except ValueError as error:
            yield Finding(server.path, str(error))
            continue
        if at.tls and start_tls:
            yield Finding(server.path, "start_tls is for ldap:// servers; this one speaks TLS from the first byte")
        elif not at.tls and not start_tls and not insecure and not _loopback(at.host):
            yield Finding(
                server.path,
                "a directory must be asked in TLS: passwords could be read on the way. Write ldaps://, or start_tls: "
                "true; plain ldap:// is taken on a loopback address, elsewhere only with allow_insecure: true",
            )
        if str(at) in seen:
            yield Finding(server.path, "this server stands in the list already")
        seen.add(str(at))


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _people(users: Part) -> Iterator[Finding]:
    template, base = users["dn_template"], users["base"]
    yield from _name(base)
    yield from _filter(users["filter"], {"username"})
    if template.text.count(USERNAME) > 1 or (template.text and USERNAME not in template.text):
        yield Finding(template.path, "a template has {username} in it, once")
    elif "=" in template.text:
        try:
            parse(template.text.replace(USERNAME, ANYBODY))
        except ValueError as error:
            yield Finding(template.path, str(error))
        return
    if isinstance(users.value, dict) and not base.text:
        yield Finding(users.path, "users need a base to be searched under, or a dn_template that is a whole name")


def _groups(groups: Part) -> Iterator[Finding]:
    yield from _name(groups["base"])
    yield from _filter(groups["filter"], {"username", "dn"})
    if isinstance(groups.value, dict) and not groups["base"].text and not groups["attribute"].text:
        yield Finding(groups.path, "groups need a base to be searched under, or an attribute that lists them")


def _name(part: Part) -> Iterator[Finding]:
    try:
        parse(part.text)
    except ValueError as error:
        yield Finding(part.path, f"{error}; expected a distinguished name such as ou=people,dc=example,dc=com")


def _filter(part: Part, places: set[str]) -> Iterator[Finding]:
    if not part.text:
        return
    try:
        found = Filter(part.text).places
    except ValueError as error:
        yield Finding(part.path, str(error))
        return
    wanted = " or ".join(f"{{{place}}}" for place in sorted(places))
    if not found:
        yield Finding(part.path, f"this filter finds the same for everybody: it needs {wanted}")
    elif found - places:
        yield Finding(part.path, f"only {wanted} is known here")

"""Whether people could log in under the settings of a directory: tried at each of its servers, before anybody does.

Knows: which setting is to blame for what a server answers, and what to do. Must not know: where a setting stands.
Blocks: for worker threads only.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gateway.identity.ldap.filters import Filter
from gateway.identity.ldap.line import ServerFailed
from gateway.identity.ldap.membership import PRESENT
from gateway.identity.ldap.servers import Link, Servers
from gateway.identity.ldap.session import NO_JUDGEMENT, NO_SUCH_OBJECT, SearchRefused, Session
from gateway.settings import Ldap

# People who are looked at for the attribute that names them: some accounts of machines may lack it.
SAMPLE: Final = 50

Setting = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something by which nobody could log in. `setting`: what to change, as its path within the directory's entry."""

    setting: Setting
    server: str
    why: str


#: What a server that cannot be asked has said, over TLS or not or either; the setting to look at, and what to do.
ADVICE: Final[tuple[tuple[str, bool | None, Setting, str], ...]] = (
    (r"mismatch", True, (), "name the server as its certificate does"),
    (r"^its certificate does not hold", None, ("ca",), "set ca to the authorities that vouch for it"),
    (r"\[SSL|reset", True, (), "is this a plain port? There it is ldap:// with start_tls: true"),
    (r"terminated|closed|reset|no LDAP", False, (), "is this a port for TLS? There it is ldaps://"),
    (r"strongerAuthRequired|confidentialityRequired", False, (), "it wants TLS: ldaps://, or start_tls: true"),
    (r"own account was answered with (49|34|32) ", None, ("bind",), "bind.dn or bind.password is wrong"),
    (r"own account", None, ("bind",), ""),
)


def troubles(settings: Ldap, tls: ssl.SSLContext | None) -> Iterator[Trouble]:
    """All of them, server by server. After one that refuses the gateway's own account no other is asked: the account is
    the same everywhere, and would be locked."""
    for number, url in enumerate(settings.servers):
        servers = Servers(replace(settings, servers=(url,)), tls)
        try:
            until = time.monotonic() + settings.timeout
            yield from servers.ask(until, partial(_tried, settings, url))
        except SearchRefused as error:
            yield _refused(settings, ("servers", number), url, error)
        except ServerFailed as error:
            yield _failed(url, number, str(error), over_tls=url.startswith("ldaps:"))
            if error.own_account:
                break
        finally:
            servers.close()


def _failed(url: str, number: int, reason: str, *, over_tls: bool) -> Trouble:
    for pattern, when, setting, advice in ADVICE:
        if when in {None, over_tls} and re.search(pattern, reason):
            return Trouble(setting or ("servers", number), url, f"{reason}; {advice}" if advice else reason)
    return Trouble(("servers", number), url, reason)


def _tried(settings: Ldap, url: str, link: Link) -> list[Trouble]:
    """What a login would look for. Raises `ServerFailed`."""
    with link.own(lambda session: session.search("", PRESENT, ["objectClass"], scope="BASE", limit=1)) as (session, _):
        if settings.bind is None and settings.users.dn_template:
            return []  # all searches are made as the person
        return [*_people(settings, url, session), *_groups(settings, url, session)]


def _people(settings: Ldap, url: str, session: Session) -> Iterator[Trouble]:
    users = settings.users
    if "=" in users.dn_template:
        return  # the template says where everybody is
    wanted = Filter(users.filter).for_anybody()
    try:
        found = session.search(users.base, wanted, [users.subject], limit=SAMPLE).entries
    except SearchRefused as error:
        yield _refused(settings, ("users", "base"), url, error)
        return
    if not found:
        yield Trouble(("users", "base"), url, f"nobody is found under users.base with the filter {wanted}")
    elif not any(entry.values(users.subject) for entry in found):
        yield Trouble(("users", "subject"), url, f"none of the people that are found has the attribute {users.subject}")


def _groups(settings: Ldap, url: str, session: Session) -> Iterator[Trouble]:
    if settings.groups is None or not settings.groups.base:
        return
    nothing: Sequence[str] = ()
    try:
        if not session.search(settings.groups.base, PRESENT, nothing, limit=1).entries:
            yield Trouble(("groups", "base"), url, "nothing can be seen under groups.base")
    except SearchRefused as error:
        yield _refused(settings, ("groups", "base"), url, error)


def _refused(settings: Ldap, setting: Setting, url: str, error: SearchRefused) -> Trouble:
    if error.code in NO_JUDGEMENT:
        return Trouble(setting, url, str(error))
    if error.code == NO_SUCH_OBJECT:
        return Trouble(setting, url, f"{error}; is {'.'.join(map(str, setting))} spelt as in the directory?")
    if settings.bind is None:
        return Trouble(("users",), url, f"{error}; without bind the search is made by nobody: give an account")
    return Trouble(setting, url, f"{error}; may the gateway's own account search there?")

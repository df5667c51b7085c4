"""A login and a look-up, as a directory is asked for them: find the person, judge the account, bind, collect groups.

Knows: search and bind, bind by template, which entry is whose. Must not know: HTTP, caches, policies, several servers.
Blocks: for worker threads only.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from gateway.identity.ldap import accounts
from gateway.identity.ldap.filters import Filter, all_of
from gateway.identity.ldap.line import ServerFailed
from gateway.identity.ldap.membership import PRESENT, Groups, Membership, one_value
from gateway.identity.ldap.names import escape_assertion, escape_value, folded, parse
from gateway.identity.ldap.references import may_hold_people
from gateway.identity.ldap.servers import Link
from gateway.identity.ldap.session import REFUSES, SAYS_NO, BindAnswer, Entry, Found, Session
from gateway.identity.names import plain
from gateway.identity.refused import Result
from gateway.settings import Ldap

#: What may be put before the `@` of a template: letters, digits and three marks, as directories take them in names.
UPN_NAME: Final = re.compile(r"[\w.\-]{1,64}")
#: Names by which an Active Directory knows whom it let in.
UPN_ATTRIBUTES: Final = ("userPrincipalName", "sAMAccountName")
#: Attributes that are numbers in bytes, and how they are read and written as text.
GUID, SID = "objectguid", "objectsid"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whose login held, or who was looked up. `groups`: named as in the directory."""

    subject: str
    groups: Groups


@dataclass(frozen=True, slots=True)
class Refused:
    """A login that does not hold. `unknown`: the directory does not know the name. `judged` False: it looked at neither
    name nor password. `detail` is for the log."""

    result: Result
    detail: str
    unknown: bool = False
    judged: bool = True


# Codes of binds that are logged, once each.
ODD_LIMIT: Final = 32

UNKNOWN: Final = Refused(Result.BAD_PASSWORD, "nobody of this name", unknown=True)
AMBIGUOUS: Final = Refused(Result.BAD_PASSWORD, "several entries have this name")
#: Not `unknown`: the person may be there, so no other directory gets the password.
ELSEWHERE: Final = Refused(Result.BAD_PASSWORD, "nobody of this name here, and a reference to elsewhere")
NOBODY: Final = Groups(frozenset())
NOT_KNOWN: Final = Groups(frozenset(), known=False)


class People:
    """Asks one directory under the rules of `settings`; `wall` gives UNIX time in seconds. Raises `ValueError`."""

    def __init__(self, settings: Ldap, wall: Callable[[], float]) -> None:
        self._name = settings.name
        self._odd: set[int] = set()
        self._users = settings.users
        self._filter = Filter(settings.users.filter)
        self._template = settings.users.dn_template
        self._upn = "=" not in self._template
        self._own_account = settings.bind is not None
        self._membership = None if settings.groups is None else Membership(settings.groups)
        self._wall = wall
        groups = self._membership.attributes if self._membership else ()
        more = UPN_ATTRIBUTES if self._template and self._upn else ()
        self._attributes = tuple(dict.fromkeys((settings.users.subject, *accounts.ATTRIBUTES, *groups, *more)))

    def log_in(self, link: Link, name: str, password: str, found: Callable[[str], None]) -> Person | Refused:
        """Whose name and password these are. `found` is told whose name it is before the password is sent, where that
        is searched for. Raises `ServerFailed` where the directory does not say, and what `found` raises."""
        if self._template:
            return self._log_in_by_template(link, name, password)
        with link.own(lambda session: self._find(session, self._filter.fill(username=name))) as (session, answer):
            person = _one(answer)
            if isinstance(person, Refused):
                return person
            subject = self._judged(person, asked_bind=True)
            if isinstance(subject, Refused):
                return subject
            found(person.dn)
            with link.stranger() as own:
                refused = self._refused_bind(own.bind(person.dn, password), known=True)
            return refused or Person(subject, self._groups(session, person, subject))

    def look_up(self, link: Link, subject: str) -> Person | Refused:
        """The person with exactly this subject, whom somebody else has identified. Raises `ServerFailed`."""
        wanted = all_of(
            [f"({self._users.subject}={_assertion(self._users.subject, subject)})", self._filter.for_anybody()]
        )
        with link.own(lambda session: self._find(session, wanted)) as (session, found):
            person = _one(found)
            if person is ELSEWHERE:
                return Person(subject, NOT_KNOWN)
            if isinstance(person, Refused):
                return person
            judged = self._judged(person, asked_bind=False)
            if isinstance(judged, Refused):
                return judged
            # A directory compares by rules of its own (case, width, spaces, another value); whoever denies or revokes
            # names the one subject, code point by code point.
            if judged != subject:
                return UNKNOWN
            return Person(judged, self._groups(session, person, judged))

    def probe(self, link: Link) -> None:
        """Whether it can be asked at all. Raises `ServerFailed`."""
        with link.own(lambda session: session.search("", PRESENT, ["objectClass"], scope="BASE", limit=1)):
            pass

    def _log_in_by_template(self, link: Link, name: str, password: str) -> Person | Refused:
        """Bind first: the template says as whom. Their entry is read by the gateway's own account, else as them."""
        if self._upn and UPN_NAME.fullmatch(name) is None:
            return UNKNOWN
        as_whom = self._template.replace("{username}", name if self._upn else escape_value(name))
        with link.stranger() as own:
            answer = own.bind(as_whom, password)
            try:
                refused = self._refused_bind(answer, known=False)
            except ServerFailed:
                self.probe(link)  # nothing was asked before: if nobody can ask, this says so
                raise
            if refused is not None:
                return refused
            if not self._own_account:
                return self._bound(own, self._entries(own, as_whom, name), as_whom, name)
        with link.own(lambda session: self._entries(session, as_whom, name)) as (session, found):
            return self._bound(session, found, as_whom, name)

    def _entries(self, session: Session, as_whom: str, name: str) -> Found:
        wanted = self._filter.fill(username=name)
        if self._upn:
            return self._find(session, wanted)
        return session.search(as_whom, wanted, self._attributes, scope="BASE", limit=2)

    def _bound(self, session: Session, found: Found, as_whom: str, name: str) -> Person | Refused:
        """The person that was let in `as_whom`, if it is the one that was found."""
        person = _one(found)
        if isinstance(person, Refused):
            return Refused(Result.REFUSED_ACCOUNT, f"bound, but {person.detail}")
        if self._upn and not self._same(session, person, as_whom, name):
            return Refused(Result.REFUSED_ACCOUNT, "the entry that was found is not the one that was bound")
        subject = self._judged(person, asked_bind=True)
        return subject if isinstance(subject, Refused) else Person(subject, self._groups(session, person, subject))

    def _same(self, session: Session, person: Entry, as_whom: str, name: str) -> bool:
        """Whether the directory let in this person: it looks for the whole name first, and then for what stands before
        the `@` (MS-ADTS 5.1.1.1.1)."""
        if folded(person.text("userPrincipalName") or "") == folded(as_whom):
            return True
        if folded(person.text("sAMAccountName") or "") != folded(name):
            return False
        base = parse(person.dn).domain() or self._users.base
        others = session.search(base, f"(userPrincipalName={escape_assertion(as_whom)})", [], limit=1)
        return not others.entries and not others.more

    def _find(self, session: Session, wanted: str) -> Found:
        return session.search(self._users.base, wanted, self._attributes, limit=2)

    def _refused_bind(self, answer: BindAnswer, *, known: bool) -> Refused | None:
        """None for the one answer that lets in. Raises `ServerFailed` where the server did not judge."""
        if why := accounts.refused_at_bind(answer):
            return Refused(Result.REFUSED_ACCOUNT, why)
        if answer.good:
            return None
        said = f"bind answered with {answer.code} {answer.description}"
        if answer.code in SAYS_NO:
            return Refused(Result.BAD_PASSWORD, said, unknown=not known and accounts.unknown_at_bind(answer))
        if answer.code not in self._odd and len(self._odd) < ODD_LIMIT:
            self._odd.add(answer.code)
            log.warning("identity.directory.odd_bind name=%s code=%d", self._name, answer.code)
        if answer.code in REFUSES:
            return Refused(Result.REFUSED_ACCOUNT, said, judged=False)
        raise ServerFailed(f"a {said}", one_account=True)

    def _judged(self, person: Entry, *, asked_bind: bool) -> str | Refused:
        """The subject of an account that may be used."""
        if why := accounts.refused(person, self._wall(), asked_bind=asked_bind):
            return Refused(Result.REFUSED_ACCOUNT, f"the account is {why}")
        subject = _subject(person, self._users.subject)
        if subject is None or not plain(subject):
            return Refused(Result.REFUSED_ACCOUNT, f"the entry has no one plain {self._users.subject}")
        return subject

    def _groups(self, session: Session, person: Entry, subject: str) -> Groups:
        return NOBODY if self._membership is None else self._membership.of(session, person, subject)


def _one(found: Found) -> Entry | Refused:
    if found.more or len(found.entries) > 1:  # also where the server gives fewer than there are
        return AMBIGUOUS
    if not found.entries:
        return ELSEWHERE if may_hold_people(found.references) else UNKNOWN
    # An empty name is that of the root of the directory; a bind with it would be nobody's.
    return found.entries[0] if found.entries[0].dn else UNKNOWN


def _subject(person: Entry, attribute: str) -> str | None:
    kind, values = attribute.lower(), person.values(attribute)
    if kind == GUID:
        return str(uuid.UUID(bytes_le=values[0])) if len(values) == 1 and len(values[0]) == 16 else None
    if kind == SID:
        return _sid_text(values[0]) if len(values) == 1 and len(values[0]) >= 8 else None
    return one_value(person, attribute)


def _assertion(attribute: str, subject: str) -> str:
    """A subject as it is searched for."""
    if attribute.lower() == GUID:
        with suppress(ValueError):
            return escape_assertion(uuid.UUID(subject).bytes_le)
    return escape_assertion(subject)  # security identifiers are taken as text


def _sid_text(sid: bytes) -> str:
    """MS-DTYP section 2.4.2.1."""
    numbers = [int.from_bytes(sid[at : at + 4], "little") for at in range(8, len(sid) - 3, 4)]
    return "-".join(map(str, ("S", sid[0], int.from_bytes(sid[2:8], "big"), *numbers)))

"""The groups of a person, as the directory tells them: direct ones, and those that come by other groups.

Knows: member searches, `memberOf`, nesting, the primary group, ranges of values. Must not know: people's passwords,
what groups are called in policies. Blocks: for worker threads only.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.identity.ldap import filters
from gateway.identity.ldap.filters import Filter
from gateway.identity.ldap.names import Name, escape_assertion, parse, part_of
from gateway.identity.ldap.session import Entry, Session
from gateway.settings import LdapGroups

# Of one person. Nobody is in more on purpose, and each costs a name in memory for as long as the login is remembered.
GROUPS_LIMIT: Final = 2000
# Groups of groups of groups …: what people draw up has four levels; more is a mistake, or somebody's attack.
LEVELS_LIMIT: Final = 16
# Groups whose own groups are asked for in one search: a filter of this many names stays under 20 KiB.
AT_ONCE: Final = 50

#: What the root of an Active Directory says it can do (MS-ADTS 3.1.1.3.4.3.1).
ACTIVE_DIRECTORY: Final = "1.2.840.113556.1.4.800"
#: What has to be read of a person to know the primary group, which is neither in `memberOf` nor has a `member`.
ATTRIBUTES: Final = ("objectSid", "primaryGroupID")
PRESENT: Final = "(objectClass=*)"

_RANGE = re.compile(r";range=[0-9]+-([0-9]+|\*)$")


@dataclass(frozen=True, slots=True)
class Groups:
    """Names of groups as the directory has them; `known` False: there are more than are followed here."""

    names: frozenset[str]
    known: bool = True


class Membership:
    """Finds the groups of people under the rules of `settings`. Raises `ValueError` for a filter that is none."""

    def __init__(self, settings: LdapGroups) -> None:
        self._settings = settings
        self._attribute = settings.attribute
        self._filter = Filter("(member={dn})" if settings.attribute else settings.filter)
        self._base = parse(settings.base)
        self._active_directory: bool | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """What has to be read of a person's entry for this."""
        return (*ATTRIBUTES, self._attribute) if self._attribute else ATTRIBUTES

    def of(self, session: Session, person: Entry, subject: str) -> Groups:
        """The groups of `person`, read on `session`. Raises `ServerFailed`."""
        if self._settings.nested and self._is_active_directory(session):
            found = self._in_chain(session, person, subject)
            if found is not None:
                return found
        walk = _Walk(self, session, subject)
        if self._attribute:
            walk.by_attribute(person, self._attribute)
        else:
            walk.by_search(person.dn)
        return Groups(frozenset(walk.names), walk.complete)

    def _is_active_directory(self, session: Session) -> bool:
        """Asked once: the servers of one directory are alike."""
        if self._active_directory is None:
            root = session.search("", PRESENT, ["supportedCapabilities"], scope="BASE", limit=1)
            self._active_directory = any(
                ACTIVE_DIRECTORY in entry.texts("supportedCapabilities") for entry in root.entries
            )
        return self._active_directory

    def _in_chain(self, session: Session, person: Entry, subject: str) -> Groups | None:
        """What an Active Directory finds in one search; None where the filter has no attribute that it could follow."""
        domain = parse(person.dn).domain()
        wanted = [self._filter.in_chain(username=subject, dn=person.dn)]
        if (sid := primary_group(person)) is not None:
            wanted.append(self._filter.of_sid(sid, username=subject))
            primary = session.search(domain, f"(objectSid={escape_assertion(sid)})", [], limit=2)
            wanted += [self._filter.in_chain(username=subject, dn=entry.dn) for entry in primary.entries]
        asked = [each for each in wanted if each is not None]
        if not asked:
            return None
        found = session.search(
            self._settings.base or domain, filters.any_of(asked), [self._settings.name], limit=GROUPS_LIMIT
        )
        names = {name for entry in found.entries if (name := self.name_of(entry)) is not None}
        return Groups(frozenset(names), known=not found.more)

    def name_of(self, group: Entry) -> str | None:
        """What a group is called: the one value of its naming attribute, or of several that in its own name."""
        return one_value(group, self._settings.name)

    def counts(self, group: Name) -> bool:
        """True for groups below the base, which are all where none is given."""
        return group.under(self._base)

    def search(self, session: Session, dns: Iterable[str], subject: str, limit: int) -> tuple[tuple[Entry, ...], bool]:
        """The groups that one of `dns` is a direct member of, and whether these are all."""
        wanted = filters.any_of([self._filter.fill(username=subject, dn=dn) for dn in dns])
        found = session.search(self._settings.base, wanted, [self._settings.name], limit=limit)
        return found.entries, not found.more

    @property
    def nested(self) -> bool:
        """True where groups of groups count."""
        return self._settings.nested

    @property
    def name(self) -> str:
        """The attribute that names a group."""
        return self._settings.name


class _Walk:
    """Upwards from a person, one level after the other, each group once: a circle of groups comes to an end."""

    def __init__(self, rules: Membership, session: Session, subject: str) -> None:
        self.names: set[str] = set()
        self.complete = True
        self._rules = rules
        self._session = session
        self._subject = subject
        self._seen: set[object] = set()

    def by_search(self, dn: str) -> None:
        level, depth = [dn], 0
        while level:
            above: list[str] = []
            for start in range(0, len(level), AT_ONCE):
                room = GROUPS_LIMIT - len(self._seen)
                dns = level[start : start + AT_ONCE]
                entries, whole = self._rules.search(self._session, dns, self._subject, room)
                self.complete = self.complete and whole
                above += [entry.dn for entry in entries if self._take(entry.dn, self._rules.name_of(entry))]
            depth += 1
            level = self._next(above, depth)

    def by_attribute(self, person: Entry, attribute: str) -> None:
        level, depth = self._values(person, attribute), 0
        while level:
            above: list[str] = []
            for dn in level:
                above += self._visit(dn, attribute)
            depth += 1
            level = self._next(above, depth)

    def _visit(self, dn: str, attribute: str) -> list[str]:
        """Take the group of this name; the groups that it is in, where those count."""
        name = _parsed(dn)
        if name is None or not self._fresh(name):
            return []
        if not self._rules.nested:
            if self._rules.counts(name):
                self.names.add(name.steps[0][0].value)
            return []
        found = self._session.search(dn, PRESENT, [self._rules.name, attribute], scope="BASE", limit=1)
        for group in found.entries:
            if self._rules.counts(name) and (own := self._rules.name_of(group)) is not None:
                self.names.add(own)
            return self._values(group, attribute)
        return []

    def _take(self, dn: str, own: str | None) -> bool:
        """True for a group that was not seen before."""
        name = _parsed(dn)
        if name is None or not self._fresh(name):
            return False
        if own is not None:
            self.names.add(own)
        return True

    def _fresh(self, name: Name) -> bool:
        if name.key in self._seen or not name.steps:
            return False
        if len(self._seen) >= GROUPS_LIMIT:
            self.complete = False
            return False
        self._seen.add(name.key)
        return True

    def _next(self, above: list[str], depth: int) -> list[str]:
        if not self._rules.nested or not above:
            return []
        if depth >= LEVELS_LIMIT or len(self._seen) >= GROUPS_LIMIT:
            self.complete = False
            return []
        return above

    def _values(self, entry: Entry, attribute: str) -> list[str]:
        """All values of an attribute that names groups, also where a server gives them in ranges (MS-ADTS
        3.1.1.3.1.3.3)."""
        values, last = ranged(entry, attribute)
        while last is not None and len(values) < GROUPS_LIMIT:
            rest = f"{attribute};range={last + 1}-*"
            found = self._session.search(entry.dn, PRESENT, [rest], scope="BASE", limit=1)
            more, following = ranged(found.entries[0], attribute) if found.entries else ([], None)
            values += more
            last = following if following is not None and following > last else None
        if last is not None or len(values) > GROUPS_LIMIT:
            self.complete = False
        return values[:GROUPS_LIMIT]


def ranged(entry: Entry, attribute: str) -> tuple[list[str], int | None]:
    """The values that came, and the number of the last one where more are to be asked for."""
    values, last = entry.texts(attribute), None
    for name in entry.attributes:
        if name.startswith(f"{attribute.lower()};range=") and (end := _RANGE.search(name)):
            values += entry.texts(name)
            last = None if end[1] == "*" else int(end[1])
    return values, last


def primary_group(person: Entry) -> bytes | None:
    """The security identifier of the primary group: that of the domain with another last number (MS-DTYP 2.4.2.2)."""
    sids, number = person.values("objectSid"), person.text("primaryGroupID")
    if len(sids) != 1 or not 12 <= len(sids[0]) <= 68 or number is None or not number.isdecimal():
        return None
    value = int(number)
    return sids[0][:-4] + struct.pack("<I", value) if value < 2**32 else None


def one_value(entry: Entry, attribute: str) -> str | None:
    """The one value of an attribute, or of several the one in the entry's own name; else None."""
    values = entry.texts(attribute)
    if len(values) > 1 and (name := _parsed(entry.dn)) is not None and name.steps:
        own = {part.key for part in name.steps[0]}
        values = [value for value in values if part_of(attribute, value).key in own]
    return values[0] if len(values) == 1 else None


def _parsed(dn: str) -> Name | None:
    try:
        return parse(dn)
    except ValueError:
        return None

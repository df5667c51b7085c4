"""References that a search is answered with beside entries (RFC 4511 section 4.5.3): what they lead to is not asked.

Knows: LDAP URLs, the parts of an Active Directory that hold nobody. Must not know: sessions, people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

from gateway.identity.ldap.names import Name, parse

#: Parts beside each domain, by the step before its name (MS-ADTS 3.1.1.1.5, MS-DNSP): schema and sites, and zones of
#: DNS. A search from the root of a domain always comes with references to those.
NOBODYS: Final = frozenset({("cn", "configuration"), ("dc", "domaindnszones"), ("dc", "forestdnszones")})


def may_hold_people(references: Iterable[str]) -> bool:
    """True unless each of them leads to where nobody is."""
    return not all(map(_nobodys, references))


def _nobodys(reference: str) -> bool:
    try:
        name = parse(unquote(urlsplit(reference).path.removeprefix("/"), errors="strict"))
    except ValueError:
        return False
    return any(_is_nobodys(name, at) for at in range(len(name.steps)))


def _is_nobodys(name: Name, at: int) -> bool:
    """Whether such a part begins with this step, and a domain behind it."""
    key = name.key
    behind = key[at + 1 :]
    return key[at] in {(part,) for part in NOBODYS} and bool(behind) and all(_is_dc(step) for step in behind)


def _is_dc(step: tuple[tuple[str, str], ...]) -> bool:
    return len(step) == 1 and step[0][0] == "dc"

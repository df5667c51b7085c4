"""Search filters with places for a name: read and checked once (RFC 4515), filled for each search.

Knows: the grammar of filters, the matching rule for members of members. Must not know: any directory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gateway.identity.ldap.names import escape_assertion

#: Active Directory follows membership to its end itself (MS-ADTS 3.1.1.3.4.4.3, LDAP_MATCHING_RULE_IN_CHAIN).
IN_CHAIN: Final = "1.2.840.113556.1.4.1941"

PLACES: Final = ("username", "dn")
DEPTH_LIMIT: Final = 16  # of brackets within brackets; filters that people write have three

_ATTRIBUTE = r"[A-Za-z][A-Za-z0-9;-]*|[0-9]+(?:\.[0-9]+)+"
_ITEM = re.compile(
    rf"\s*(?:(?:{_ATTRIBUTE})\s*(?:[~<>]?=|(?::dn)?(?::[A-Za-z0-9.-]+)?:=)|(?::dn)?:[A-Za-z0-9.-]+:=)"
    r"(?P<value>(?:[^()\\\x00]|\\[0-9A-Fa-f]{2})*)"
)
_PLACE = re.compile(r"\{([^{}]*)\}")
_MEMBER = re.compile(rf"\(\s*({_ATTRIBUTE})\s*=\s*\{{dn\}}\s*\)")


class Filter:
    """A filter with places. Raises `ValueError` where `text` is none, or has a place that nothing is put into."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        if _read(self._text, 0, 0) != len(self._text):
            raise ValueError("something stands behind the last parenthesis of this filter")
        #: What stands between braces: `username`, `dn`.
        self.places = frozenset(_PLACE.findall(self._text))
        if strange := sorted(self.places.difference(PLACES)):
            raise ValueError(f"nothing is called {{{strange[0]}}}; there is {{username}} and {{dn}}")

    def fill(self, *, username: str = "", dn: str = "") -> str:
        """With these in the places, escaped."""
        values = {"username": username, "dn": dn}
        return _PLACE.sub(lambda place: escape_assertion(values[place[1]]), self._text)

    def for_anybody(self) -> str:
        """What it says of entries whatever their name: `*` in place of `{username}`."""
        return _PLACE.sub("*", self._text)

    def in_chain(self, *, username: str = "", dn: str = "") -> str | None:
        """That has `dn` for a member, or a member's member; None where no attribute is compared with `{dn}` alone."""
        value = escape_assertion(dn)
        return self._instead(lambda member: f"({member[1]}:{IN_CHAIN}:={value})", username)

    def of_sid(self, sid: bytes, *, username: str = "") -> str | None:
        """That is the group with this `objectSid`, whoever its members are; None as with `in_chain`."""
        return self._instead(lambda _: f"(objectSid={escape_assertion(sid)})", username)

    def _instead(self, item: Callable[[re.Match[str]], str], username: str) -> str | None:
        replaced, count = _MEMBER.subn(item, self._text)
        if not count or "{dn}" in replaced:
            return None
        return replaced.replace("{username}", escape_assertion(username))


def any_of(filters: list[str]) -> str:
    """That fits any of `filters`."""
    return filters[0] if len(filters) == 1 else f"(|{''.join(filters)})"


def all_of(filters: list[str]) -> str:
    """That fits all of `filters`."""
    return filters[0] if len(filters) == 1 else f"(&{''.join(filters)})"


def _read(text: str, at: int, depth: int) -> int:
    """Where the filter that begins at `at` ends."""
    if depth > DEPTH_LIMIT:
        raise ValueError("the parentheses of this filter are nested too deeply")
    if text[at : at + 1] != "(":
        raise ValueError("expected a search filter in parentheses, such as (uid={username})")
    at += 1
    sign = text[at : at + 1]
    if sign and sign in "&|!":
        at = _space(text, at + 1)
        count = 0
        while text[at : at + 1] == "(":
            at = _space(text, _read(text, at, depth + 1))
            count += 1
        if count == 0 or (sign == "!" and count != 1):
            raise ValueError("'&' and '|' join filters in parentheses, and '!' stands before one")
    else:
        at = _item(text, at)
    if text[at : at + 1] != ")":
        raise ValueError("the parentheses of this filter do not match")
    return at + 1


def _item(text: str, at: int) -> int:
    if (item := _ITEM.match(text, at)) is None:
        raise ValueError("expected an attribute, '=' and a value within the parentheses")
    if "{" in _PLACE.sub("", item["value"]) or "{" in text[at : item.start("value")]:
        raise ValueError("a name is put into a value only: write (attribute={username})")
    return item.end()


def _space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at

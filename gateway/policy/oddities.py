"""What is taken as it is written, and was hardly meant so: patterns of other programs, quotes, zones that mislead.

Pure. Knows: characters, names of zones. Must not know: what is configured, what is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.policy.rules import Rule

# Globs and regular expressions of other programs.
_PATTERNS: Final = frozenset("?[]{}()^$|\\")
# Ours, and those that a word processor puts in their place.
_QUOTES: Final = frozenset("\"'`\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\u00ab\u00bb\u2039\u203a")

# The sign of these counts westward (POSIX), against what everybody writes.
_TURNED: Final = re.compile(r"Etc/GMT([-+])([0-9]{1,2})")
_UNCHANGING: Final = {"EST": "America/New_York", "MST": "America/Denver", "HST": "Pacific/Honolulu"}


def oddities(rule: Rule) -> Iterator[tuple[str, str]]:
    """Each with the code of its finding."""
    for pattern in sorted(set(rule.models)):
        if odd := sorted((_PATTERNS | _QUOTES).intersection(pattern)):
            signs = " ".join(map(ascii, odd))
            yield "odd_name", f"models: {pattern!a} means {signs} to the letter; only '*' and '**' stand for others"
        elif pattern.startswith("/"):
            yield "odd_name", f"models: {pattern!a} begins with '/', and no name of a model does"
    for kind in ("users", "groups", "not_groups", "clients", "issuers", "scopes"):
        for name in sorted(getattr(rule, kind)):
            if _QUOTES.intersection((name[:1], name[-1:])):  # one within may belong to a name
                yield "odd_name", f"{kind}: {name!a} has quotes that belong to the name"
    if rule.window is not None:
        yield from _zone(rule.window.zone)


def _zone(name: str) -> Iterator[tuple[str, str]]:
    turned = _TURNED.fullmatch(name)
    if turned is not None and turned[2] != "0":
        east = "-" if turned[1] == "+" else "+"
        yield "odd_zone", f"{name} is UTC{east}{turned[2]}: its sign counts westward; name a zone like Europe/Madrid"
    elif name in _UNCHANGING:
        yield "odd_zone", f"{name} may know no summer time; name a zone like {_UNCHANGING[name]}"

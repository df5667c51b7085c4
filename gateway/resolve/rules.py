"""The rule tables: rows read from a file, and the first row that fits a request.

Knows: the columns, how a row is matched, what makes a row fast to find.
Must not know: models, pools, bodies, what is done with a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files

from gateway.call import Operation
from gateway.seams import Interface

ANY = "any"
_WIDTH = 8
_LITERAL = re.compile(r"[A-Za-z0-9/_-]+")
_LITERAL_START = re.compile(r"[A-Za-z0-9/_-]*")
_GROUP = re.compile(r"\([^()]*\)")


class Source(Enum):
    """Where a row's model name stands."""

    NONE = "none"
    POOL = "pool"
    PATH = "path"
    JSON = "json"
    FORM = "form"
    LEDGER = "ledger"
    FRAME = "frame"


class Default(Enum):
    """Who gets through a row, and how; closed unless a rule or the pool opens it."""

    GRANT = "grant"
    AUTH = "auth"
    PROBE = "probe"
    OPS = "ops"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Row:
    """One rule. `operation` is None for class `unknown`; `starred` marks `infer*`.

    `field` is the name behind `json:`, `form:` or `frame:`; `group` and `version` are groups of `pattern`, 0 for none.
    `interface`: whose words a body is written in.
    """

    set: str
    methods: frozenset[str]
    pattern: re.Pattern[str]
    operation: Operation | None
    starred: bool
    source: Source
    field: str
    group: int
    version: int
    interface: Interface
    default: Default

    def takes(self, method: str) -> bool:
        """True when the row holds for this method."""
        return method in self.methods or "*" in self.methods


@dataclass(frozen=True, slots=True)
class Found:
    """A row that fits, and the match that carries its groups (None where the row has none to give)."""

    row: Row
    match: re.Match[str] | None


def shipped() -> tuple[Row, ...]:
    """The HTTP table that comes with this package."""
    return parse((files("gateway.resolve") / "tables" / "http.rules").read_text("ascii"))


def parse(text: str) -> tuple[Row, ...]:
    """Rows of a table, in order. Raises `ValueError` that names the line."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                rows.append(_row(re.split(r" {2,}", line.strip())))
            except (ValueError, re.error) as fault:
                raise ValueError(f"line {number}: {fault}") from fault
    return tuple(rows)


def _row(columns: list[str]) -> Row:
    if len(columns) != _WIDTH:
        raise ValueError(f"{_WIDTH} columns are needed, not {len(columns)}")
    name, methods, path, kind, source, version, words, default = columns
    origin, _, argument = source.partition(":")
    pattern = re.compile(path, re.ASCII)
    group = int(argument) if origin == Source.PATH.value else 0
    number = int(version.removeprefix("path:")) if version != "-" else 0
    if max(group, number) > pattern.groups:
        raise ValueError("the path has no such group")
    starred = kind.endswith("*")
    return Row(
        set=name,
        methods=frozenset(methods.split(",")),
        pattern=pattern,
        operation=None if kind == "unknown" else Operation(kind.removesuffix("*")),
        starred=starred,
        source=Source(origin),
        field="" if group else argument,
        group=group,
        version=number,
        interface=Interface(words),
        default=Default(default),
    )


class Table:
    """Some rows in their order. Literal paths are looked up; the others are tried one after the other."""

    __slots__ = ("_by_method", "_literal", "_others")

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = tuple(rows)
        methods = {method for row in rows for method in row.methods}
        led = [(_lead(row.pattern.pattern), row) for row in rows]
        self._by_method = {method: [each for each in led if each[1].takes(method)] for method in methods}
        self._others = self._by_method.get("*", [])
        self._literal: dict[tuple[str, str], Found] = {}
        for row in rows:
            if _LITERAL.fullmatch(path := row.pattern.pattern):
                for method in row.methods - {"*"}:
                    # Asking the plain interpreter keeps an earlier regex row first.
                    if (found := first(rows, method, path)) is not None:
                        self._literal[method, path] = found

    def literal(self, method: str, path: str) -> Found | None:
        """The row for a path that the table spells out. Such a path is in plain form: nothing more is to be checked."""
        return self._literal.get((method, path))

    def find(self, method: str, path: str) -> Found | None:
        """The first row that fits, or None."""
        if (found := self._literal.get((method, path))) is not None:
            return found
        for lead, row in self._by_method.get(method, self._others):
            if path.startswith(lead) and (match := row.pattern.fullmatch(path)) is not None:
                return Found(row, match if row.pattern.groups else None)
        return None


def _lead(pattern: str) -> str:
    """Plain text that every path which fits begins with; empty where that is not easily told."""
    outside, rest = "", pattern
    while outside != rest:
        outside, rest = rest, _GROUP.sub("", rest)
    lead = _LITERAL_START.match(pattern)
    if "|" in outside or lead is None:
        return ""
    return lead.group()[:-1] if pattern[lead.end() : lead.end() + 1] in {"?", "*", "{"} else lead.group()


def first(rows: Iterable[Row], method: str, path: str) -> Found | None:
    """The plain interpreter: the first row, in order, whose method and whole path fit; else None."""
    for row in rows:
        if row.takes(method) and (match := row.pattern.fullmatch(path)) is not None:
            return Found(row, match if row.pattern.groups else None)
    return None

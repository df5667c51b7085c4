"""Distinguished names: read, compared, written (RFC 4514), and values put into search filters (RFC 4515).

Knows: the grammar of names, and which differences mean nothing. Must not know: any directory.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# A tree is some ten levels deep; names longer than this are no names of entries.
LENGTH_LIMIT: Final = 8192

#: RFC 4514 section 3 and RFC 4519: the same types by number and by their other names.
SAME_TYPE: Final = {
    "2.5.4.3": "cn",
    "2.5.4.4": "sn",
    "2.5.4.6": "c",
    "2.5.4.7": "l",
    "2.5.4.8": "st",
    "2.5.4.9": "street",
    "2.5.4.10": "o",
    "2.5.4.11": "ou",
    "0.9.2342.19200300.100.1.1": "uid",
    "0.9.2342.19200300.100.1.25": "dc",
    "commonname": "cn",
    "organizationname": "o",
    "organizationalunitname": "ou",
    "domaincomponent": "dc",
    "userid": "uid",
}

#: Types of BER strings that a `#` value may hold: OCTET STRING and the string types that are UTF-8 or a part of it.
_STRINGS: Final = {0x04, 0x0C, 0x12, 0x13, 0x16, 0x1A}

_TYPE = re.compile(r"[ ]*(?:OID\.|oid\.)?([A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+)[ ]*=[ ]*")
_HEX = re.compile(r"#((?:[0-9A-Fa-f]{2})+)[ ]*")
_PLAIN: Final = re.compile(r"[^\x00\"+,;<>\\]+")
_PAIR = re.compile(r"\\(?:([0-9A-Fa-f]{2})|([ \"#+,;<=>\\]))")


@dataclass(frozen=True, slots=True)
class Part:
    """One type and value of a name; `type` is in lower case, by its common name."""

    type: str
    value: str

    @property
    def key(self) -> tuple[str, str]:
        """Equal where the two differ in nothing that counts (RFC 4518: case, width, runs of spaces)."""
        return self.type, folded(self.value)


@dataclass(frozen=True, slots=True)
class Name:
    """A distinguished name. `steps`: each a relative name, of one part or several; the first is that of the entry."""

    steps: tuple[tuple[Part, ...], ...]

    @property
    def key(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Equal for two names of one entry."""
        return tuple(tuple(sorted(part.key for part in step)) for step in self.steps)

    def under(self, base: Name) -> bool:
        """True for `base` itself and all below it."""
        size = len(base.steps)
        return size <= len(self.steps) and self.key[len(self.steps) - size :] == base.key

    def domain(self) -> str:
        """The `dc` steps at its end, as text: the root of its part of an Active Directory; empty without any."""
        found: list[str] = []
        for step in reversed(self.steps):
            if len(step) != 1 or step[0].type != "dc":
                break
            found.insert(0, f"dc={escape_value(step[0].value)}")
        return ",".join(found)


def part_of(type_: str, value: str) -> Part:
    """One part, its type by the common name."""
    kind = type_.lower()
    return Part(SAME_TYPE.get(kind, kind), value)


def folded(value: str) -> str:
    """A value as directories compare it where case does not count (RFC 4518)."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", value).casefold()).split())


def parse(text: str) -> Name:
    """Read a name. Raises `ValueError` for what is none."""
    if len(text) > LENGTH_LIMIT:
        raise ValueError("a distinguished name of this length is no name")
    if not text.strip(" "):
        return Name(())
    return Name(tuple(_steps(text)))


def _steps(text: str) -> Iterator[tuple[Part, ...]]:
    at, parts = 0, []
    while True:
        part, at = _part(text, at)
        parts.append(part)
        separator = text[at : at + 1]
        if separator == "+":
            at += 1
            continue
        yield tuple(parts)
        if not separator:
            return
        at, parts = at + 1, []


def _part(text: str, at: int) -> tuple[Part, int]:
    """The part that begins at `at`, and where what separates it from the next stands."""
    if (head := _TYPE.match(text, at)) is None:
        raise ValueError("a step of a distinguished name has no type")
    value, at = _value(text, head.end())
    if text[at : at + 1] not in {"", ",", ";", "+"}:
        raise ValueError("a value of a distinguished name holds what must be escaped")
    return part_of(head[1], value), at


def _value(text: str, at: int) -> tuple[str, int]:
    if (encoded := _HEX.match(text, at)) is not None:
        return _ber(bytes.fromhex(encoded[1])), encoded.end()
    if text[at : at + 1] == "#":
        raise ValueError("a '#' value of a distinguished name is no text")
    found, kept = b"", 0  # `kept`: up to where spaces count, because they are escaped or something follows
    while True:
        if (plain := _PLAIN.match(text, at)) is not None:
            found += plain[0].encode()
            kept = max(kept, len(found.rstrip(b" ")))
            at = plain.end()
        elif (pair := _PAIR.match(text, at)) is not None:
            found += bytes.fromhex(pair[1]) if pair[1] else pair[2].encode()
            kept = len(found)
            at = pair.end()
        else:
            return found[:kept].decode(), at  # UnicodeDecodeError is a ValueError


def _ber(encoded: bytes) -> str:
    """The text in a BER string of up to 127 bytes, which is as long as such values are."""
    if len(encoded) < 2 or encoded[0] not in _STRINGS or encoded[1] > 127 or encoded[1] != len(encoded) - 2:
        raise ValueError("a '#' value of a distinguished name is no text")
    return encoded[2:].decode()


def escape_value(value: str) -> str:
    """A value as it stands in a distinguished name (RFC 4514 section 2.4), whatever it holds."""
    escaped = re.sub(r"[\"+,;<=>\\]", lambda match: f"\\{match[0]}", value)
    escaped = re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\{ord(match[0]):02x}", escaped)
    if escaped.startswith(("#", " ")):
        escaped = f"\\{escaped}"
    if value.endswith(" ") and len(value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped


def escape_assertion(value: str | bytes) -> str:
    """A value as it stands in a filter (RFC 4515 section 3): all but letters, digits and a few marks as their bytes, so
    that no two readers can differ."""
    raw = value.encode() if isinstance(value, str) else value
    return "".join(chr(byte) if byte in _UNESCAPED else f"\\{byte:02x}" for byte in raw)


_UNESCAPED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_@=,")

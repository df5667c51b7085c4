"""LDAP messages as bytes (RFC 4511, X.690), written apart from any LDAP library so that none is its own judge.

Knows: tags, lengths, the few messages that a login takes. Must not know: sockets, what is answered to what.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

BIND, UNBIND, SEARCH, EXTENDED = 0x60, 0x42, 0x63, 0x77
NOTICE_OF_DISCONNECTION = "1.3.6.1.4.1.1466.20036"
START_TLS = "1.3.6.1.4.1.1466.20037"


@dataclass(frozen=True, slots=True)
class Bind:
    """A simple bind."""

    dn: str
    password: bytes


@dataclass(frozen=True, slots=True)
class Search:
    """A search; `filter` as text in which every byte is escaped but letters, digits and a few marks."""

    base: str
    scope: int
    filter: str
    attributes: tuple[str, ...]
    deref: int


@dataclass(frozen=True, slots=True)
class Extended:
    """An extended request."""

    name: str


Asked = Bind | Search | Extended


@dataclass(frozen=True, slots=True)
class Answer:
    """How something ended. `controls` by number."""

    code: int = 0
    message: str = ""
    referral: Sequence[str] = ()
    controls: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that a search found."""

    dn: str
    attributes: Mapping[str, Sequence[str | bytes]]


@dataclass(frozen=True, slots=True)
class Reference:
    """A searchResultReference: look there as well."""

    url: str


def tlv(tag: int, *contents: bytes) -> bytes:
    """One element, definite length."""
    content = b"".join(contents)
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def text(value: str | bytes, tag: int = 0x04) -> bytes:
    return tlv(tag, value.encode() if isinstance(value, str) else value)


def number(value: int, tag: int = 0x02) -> bytes:
    return tlv(tag, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def size_of(data: bytes) -> int | None:
    """The length of the first element; None while it cannot be told."""
    if len(data) < 2:
        return None
    if data[1] < 0x80:
        return data[1] + 2
    octets = data[1] & 0x7F
    return None if len(data) < 2 + octets else int.from_bytes(data[2 : 2 + octets], "big") + 2 + octets


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tags and contents of what stands one after the other."""
    while data:
        size = size_of(data)
        assert size is not None
        head = 2 if data[1] < 0x80 else 2 + (data[1] & 0x7F)
        yield data[0], data[head:size]
        data = data[size:]


def read(message: bytes) -> tuple[int, Asked | None]:
    """The number of a request and what it asks; None where it says farewell."""
    (_, whole) = next(elements(message))
    (_, identity), (operation, content), *_ = elements(whole)
    parts = list(elements(content)) if operation & 0x20 else []
    asked: Asked | None = None
    if operation == BIND:
        assert parts[2][0] == 0x80, "only simple binds"
        asked = Bind(parts[1][1].decode(), parts[2][1])
    elif operation == SEARCH:
        base, scope, deref, _, _, _, (tag, wanted), (_, names) = parts
        attributes = tuple(name.decode() for _, name in elements(names))
        asked = Search(base[1].decode(), scope[1][0], filter_text(tag, wanted), attributes, deref[1][0])
    elif operation == EXTENDED:
        asked = Extended(parts[0][1].decode())
    else:
        assert operation == UNBIND, hex(operation)
    return int.from_bytes(identity, "big"), asked


def filter_text(tag: int, content: bytes) -> str:
    """RFC 4515, with every byte of a value escaped that is no letter, digit or one of `. - _ @ = ,`."""
    if tag in {0xA0, 0xA1, 0xA2}:
        inner = "".join(filter_text(*each) for each in elements(content))
        return f"({'&|!'[tag - 0xA0]}{inner})"
    if tag == 0x87:
        return f"({content.decode()}=*)"
    if tag == 0xA9:
        found = dict(elements(content))
        rule = f":{found[0x81].decode()}" if 0x81 in found else ""
        return f"({found.get(0x82, b'').decode()}{rule}:={escaped(found[0x83])})"
    (_, name), (_, value) = elements(content)
    if tag == 0xA4:
        pieces = list(elements(value))
        start = "" if pieces[0][0] == 0x80 else "*"
        end = "" if pieces[-1][0] == 0x82 else "*"
        return f"({name.decode()}={start}{'*'.join(escaped(piece) for _, piece in pieces)}{end})"
    sign = {0xA3: "=", 0xA5: ">=", 0xA6: "<=", 0xA8: "~="}[tag]
    return f"({name.decode()}{sign}{escaped(value)})"


def escaped(value: bytes) -> str:
    return "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b".-_@=," else f"\\{byte:02x}" for byte in value
    )


def message(identity: int, operation: bytes, controls: Mapping[str, bytes] | None = None) -> bytes:
    """The whole message."""
    listed = [tlv(0x30, text(name), text(value)) for name, value in (controls or {}).items()]
    return tlv(0x30, number(identity), operation, tlv(0xA0, *listed) if listed else b"")


def ended(tag: int, answer: Answer, *more: bytes) -> bytes:
    """An LDAPResult under the tag of its kind: 0x61 bind, 0x65 search, 0x78 extended."""
    referral = tlv(0xA3, *map(text, answer.referral)) if answer.referral else b""
    return tlv(tag, number(answer.code, 0x0A), text(""), text(answer.message), referral, *more)


def found(what: Entry | Reference) -> bytes:
    """What a search gives before its end."""
    if isinstance(what, Reference):
        return tlv(0x73, text(what.url))
    attributes = [tlv(0x30, text(name), tlv(0x31, *map(text, values))) for name, values in what.attributes.items()]
    return tlv(0x64, text(what.dn), tlv(0x30, *attributes))


def notice() -> bytes:
    """The server says that it is going away (RFC 4511 section 4.4.1)."""
    return message(0, ended(0x78, Answer(52, "going down"), text(NOTICE_OF_DISCONNECTION, 0x8A)))

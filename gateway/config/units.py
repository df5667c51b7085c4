"""How single values are written in a configuration file, so that it can be read in one way only.

Knows: sizes, times, ports, names, paths as text. Must not know: YAML, any library, where a value stands.
Every reader takes what stands in the file and raises `ValueError` with words for the user. They never repeat the value,
which may be a secret that stands in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

Network = IPv4Network | IPv6Network

SIZES: Final = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
TIMES: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
SIZE: Final = re.compile(r"([0-9]{1,9})(KiB|MiB|GiB)")
TIME: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
LARGEST_SIZE: Final = 1024**4  # a tebibyte; beyond it a size is a slip of the hand
LONGEST_TIME: Final = 10 * 365 * 24 * 3600.0  # ten years, likewise
INSTANT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")

HOST: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_-]{1,63})*\.?")
URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]{1,256}){0,32}/?)"
)
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


#: JSON Schema (draft 2020-12) of what may be written; may take more than a reader does, never less.
Form = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """A reader that knows its form."""

    read: Callable[[Any], T]
    form: Form = field(hash=False)

    def __call__(self, value: Any) -> T:
        return self.read(value)


@dataclass(frozen=True, slots=True)
class Written:
    """For `Annotated`: `read` alone turns what the file says into the value.

    `shown`: its form, for readers that do not know it themselves.
    """

    read: Callable[[Any], Any]
    shown: Form = field(default_factory=dict, hash=False)

    @property
    def form(self) -> Form:
        """Empty where nobody has said it."""
        return self.shown or (self.read.form if isinstance(self.read, Reader) else {})

    def __get_pydantic_core_schema__(self, _source: Any, _follow: Any) -> dict[str, Any]:
        return {"type": "function-plain", "function": {"type": "no-info", "function": self.read}}


def size(value: Any) -> int:
    """Bytes, more than none, from text such as `64MiB`."""
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a size: a whole number with KiB, MiB or GiB, such as 64MiB")
    count = int(match[1]) * SIZES[match[2]]
    if not 0 < count <= LARGEST_SIZE:
        raise ValueError("a size must be more than 0 and at most 1024GiB")
    return count


def duration(value: Any) -> float:
    """Seconds, 0 or more, from text such as `500ms`, `1.5s`, `10m`."""
    match = TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a time: a number with ms, s, m or h, such as 30s")
    seconds = float(match[1]) * TIMES[match[2]]
    if seconds > LONGEST_TIME:
        raise ValueError("a time must be at most ten years")
    return seconds


def wait(value: Any) -> float:
    """Seconds, at least one millisecond: a limit of nothing would stop everything."""
    seconds = duration(value)
    if seconds < 0.001:
        raise ValueError("this time must be at least 1ms")
    return seconds


def instant(value: Any) -> float:
    """UNIX seconds, from a time in UTC such as `2026-01-31T12:00:00Z` (RFC 3339 section 5.6)."""
    try:
        if isinstance(value, str) and INSTANT.fullmatch(value):
            return datetime.fromisoformat(value).timestamp()
    except ValueError:
        pass
    raise ValueError("expected a time in UTC, such as 2026-01-31T12:00:00Z")


def text_like(pattern: str, expected: str = "") -> Form:
    """The form of text that `pattern` matches as a whole; `expected` is said by editors where it does not."""
    form = {"type": "string", "pattern": f"^(?:{pattern})$"}
    return {**form, "patternErrorMessage": f"expected {expected}"} if expected else form


def whole(least: int, most: int) -> Reader[int]:
    """A reader of whole numbers from `least` to `most`."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"expected a whole number from {least} to {most}")
        return value

    return Reader(read, {"type": "integer", "minimum": least, "maximum": most})


def matching(pattern: str, expected: str) -> Reader[str]:
    """A reader of text that `pattern` matches as a whole; `expected` says so in words."""
    compiled = re.compile(pattern)

    def read(value: Any) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise ValueError(f"expected {expected}")
        return value

    return Reader(read, text_like(pattern, expected))


def path(value: Any) -> Path:
    """A path, still relative to whatever it is relative to."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError("expected the path of a file or folder")
    return Path(value)


def network(value: Any) -> Network:
    """A network such as `10.0.0.0/8`, or a single address."""
    try:
        return ip_network(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("expected a network such as 10.20.0.0/16, with no bits set behind the prefix") from None


def host(value: Any) -> str:
    """An address or host name, without port; an IPv6 address without brackets."""
    if not isinstance(value, str) or not (HOST.fullmatch(value) or is_address(value)):
        raise ValueError("expected an address or host name, without port")
    return value


def url(value: Any) -> str:
    """An http or https URL of scheme, host, and at most a port and a path: the rest could carry secrets or be lost."""
    match = URL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected http:// or https:// with a host, at most a port and a path, and no user, '?' or '#'")
    name, port = match["host"], match["port"]
    if not (":" in name and is_address(name[1:-1]) if name.startswith("[") else HOST.fullmatch(name)):
        raise ValueError("the host of this URL is neither a name nor an address")
    if port and not 0 < int(port) < 65536:
        raise ValueError("the port of this URL is not from 1 to 65535")
    return match[0]


def same_place(value: str) -> str:
    """Equal for URLs that lead to the same port and path: scheme, default ports, letter case of the host and a last '/'
    aside. Whatever is no URL stays as it is."""
    match = URL.fullmatch(value)
    if match is None:
        return value
    port = int(match["port"] or DEFAULT_PORTS[match["scheme"]])
    return f"{match['host'].lower()}:{port}{(match['path'] or '').rstrip('/')}"


def is_loopback(value: str) -> bool:
    """True for a URL whose host is this very machine."""
    match = URL.fullmatch(value)
    name = match["host"].strip("[]").lower() if match else ""
    return name == "localhost" or (is_address(name) and ip_address(name).is_loopback)


def is_address(value: str) -> bool:
    """True for an IPv4 or IPv6 address."""
    try:
        ip_address(value)
    except ValueError:
        return False
    return True

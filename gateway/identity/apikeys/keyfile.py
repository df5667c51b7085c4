"""The file of API keys: read into values, or everything that is wrong with it, each at its place.

Knows: the form of the file. Must not know: how keys are shown and judged, who changes the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from gateway.config import typed, yamlfile
from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.units import Written, matching
from gateway.config.values import Instant, Label
from gateway.config.yamlfile import Document
from gateway.identity.apikeys.apikey import ApiKey
from gateway.identity.apikeys.keytext import DIGEST_PREFIX

KeyId = Annotated[str, Written(matching(r"[0-9a-z]{8}", "the id of a key: the eight letters and digits behind nimgw_"))]
Digest = Annotated[str, Written(matching(r"sha256:[0-9a-f]{64}", "sha256: and 64 digits from 0 to f, in quotes"))]

# Where no two keys may be the same: a call could mean either, or one of them can never be meant.
_ONCE: Final = ("id", "digest")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key as it is written. `note` is for people."""

    id: KeyId
    digest: Digest
    owner: Label
    created: Instant
    groups: tuple[Label, ...] = ()
    expires: Instant | None = None
    revoked: Instant | None = None
    note: Label | None = None


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A whole file."""

    version: Literal[1]
    keys: tuple[Entry, ...]


def load(path: Path) -> tuple[ApiKey, ...]:
    """The keys in the file at `path`. Blocks. Raises `Mistakes` with every one."""
    return tuple(map(_key, written(path)))


def written(path: Path) -> tuple[Entry, ...]:
    """The same as they are written."""
    if not path.exists():
        raise Mistakes([Mistake(str(path), 1, 1, "does not exist; nim-gateway key create makes it")])
    return entries(yamlfile.read_file(path))


def entries(document: Document) -> tuple[Entry, ...]:
    """The keys as they are written. Raises `Mistakes`."""
    found = [*_unlike(document)]
    try:
        keys = typed.validate(document, KeyFile).keys
    except Mistakes as mistakes:
        found += mistakes.mistakes
    if found:
        raise Mistakes(found)
    return keys


def _key(entry: Entry) -> ApiKey:
    return ApiKey(
        id=entry.id,
        digest=bytes.fromhex(entry.digest.removeprefix(DIGEST_PREFIX)),
        owner=entry.owner,
        groups=frozenset(entry.groups),
        created=entry.created,
        expires=float("inf") if entry.expires is None else entry.expires,
        revoked=entry.revoked,
    )


def _unlike(document: Document) -> Iterator[Mistake]:
    """What types cannot tell. Works on whatever stands there, so that it is said together with what types can tell."""
    data = document.data if isinstance(document.data, dict) else {}
    if type(data.get("version", 1)) is not int:
        yield _mistake(document, ("version",), "expected 1")  # true and 1.0 are equal to it
    listed = data.get("keys")
    first: dict[tuple[str, str], tuple[str | int, ...]] = {}
    for number, each in enumerate(listed if isinstance(listed, list) else []):
        for name in _ONCE if isinstance(each, dict) else ():
            path, value = ("keys", number, name), each.get(name)
            if isinstance(value, str) and (before := first.setdefault((name, value), path)) != path:
                line, _ = document.place(before)
                yield _mistake(document, path, f"another key has this {name} already, in line {line}")


def _mistake(document: Document, path: tuple[str | int, ...], message: str) -> Mistake:
    return Mistake(document.file, *document.place(path), message)

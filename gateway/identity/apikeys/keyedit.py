"""Changes to the text of a file of API keys, which leave all else in it as its author wrote it.

Knows: the form of the file, as text. Pure. Must not know: files on disk, what a key means.

A change is tried as an edit of some lines. It counts only if the whole text then says what was meant, neither more nor
less; so an odd form of a file is at worst refused, never spoiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Final, Literal

from gateway.config import yamlfile
from gateway.config.mistakes import Mistakes
from gateway.config.yamlfile import Document
from gateway.identity.apikeys.keyfile import Entry, entries

HEAD: Final = "# API keys, as digests: no key can be read from here. See nim-gateway key --help.\nversion: 1\nkeys:\n"

_DASH: Final = re.compile(r"( *)- +")
_NOTHING: Final = re.compile(r"\[ *\]")
_VALUE: Final = r""": *("[^"]*"|'[^']*'|[^ ,}#\r\n]+)"""


class CannotChange(Exception):  # noqa: N818  named for what happened, like the refusals
    """No edit of the text does what is meant. Its text is one line for the user."""


def with_key(text: str, file: str, entry: Entry) -> str:
    """`text` with one more key; `file` is its name in mistakes. Raises `Mistakes` for a bad one, `CannotChange`."""
    if not text.strip():
        return HEAD + _item(entry, "  ")
    document = yamlfile.read(text.encode(), file)
    wanted = (*entries(document), entry)
    return _first(_additions(text, document, len(wanted) - 1, entry), text, file, wanted)


def with_time(text: str, file: str, key_id: str, name: Literal["expires", "revoked"], at: float) -> str:
    """`text` with `name` of the key set to `at`, UNIX seconds. Raises as above, and `KeyError` without such a key."""
    document = yamlfile.read(text.encode(), file)
    before = entries(document)
    number = next((number for number, entry in enumerate(before) if entry.id == key_id), None)
    if number is None:
        raise KeyError(key_id)
    old = before[number]
    changed = replace(old, revoked=at) if name == "revoked" else replace(old, expires=at)
    wanted = (*before[:number], changed, *before[number + 1 :])
    return _first(_settings(text, document, number, name, at), text, file, wanted)


def stamp(at: float) -> str:
    """UNIX seconds as they stand in the file."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _first(edits: Iterator[str], text: str, file: str, wanted: tuple[Entry, ...]) -> str:
    written_anew = HEAD + "".join(_item(entry, "  ") for entry in wanted)
    for edited in chain(edits, [] if "#" in text else [written_anew]):
        try:
            if entries(yamlfile.read(edited.encode(), file)) == wanted:
                return edited
        except Mistakes:
            continue  # the file has a form that this edit is not for
    raise CannotChange("cannot be changed without losing its comments; write each key as '- ' and lines of its own")


def _additions(text: str, document: Document, count: int, entry: Entry) -> Iterator[str]:
    """Behind the last of `count` items, or in the place of an empty list."""
    lines = _lines(text)
    line, _ = document.place(("keys",))
    after = [at for name in document.data if (at := document.place((name,))[0]) > line]
    end = min(after, default=len(lines) + 1) - 1
    if count:
        line, column = document.place(("keys", count - 1))
        if dash := _DASH.fullmatch(lines[line - 1][: column - 1]):
            yield _inserted(lines, end, _item(entry, dash[1]))
    else:
        opened = _NOTHING.sub("", lines[line - 1], count=1).rstrip() + "\n"
        yield _inserted([*lines[: line - 1], opened, *lines[line:]], end, _item(entry, "  "))


def _settings(text: str, document: Document, number: int, name: str, at: float) -> Iterator[str]:
    """In the place of the old value, on a line of its own below the id, or behind the id within braces."""
    lines = _lines(text)
    written = f'{name}: "{stamp(at)}"'
    place = document.place(("keys", number, name))
    line, column = document.place(("keys", number, "id"))
    if name in document.data["keys"][number]:
        yield _substituted(lines, *place, name, lambda _: written)
        return
    if re.fullmatch(r" *(- +)?", lines[line - 1][: column - 1]):
        yield _inserted(lines, line, " " * (column - 1) + written + "\n")
    yield _substituted(lines, line, column, "id", lambda found: f"{found}, {written}")


def _lines(text: str) -> list[str]:
    """With their ends, which the last one gets too."""
    return (text if text.endswith("\n") else text + "\n").splitlines(keepends=True)


def _inserted(lines: list[str], after: int, text: str) -> str:
    return "".join((*lines[:after], text, *lines[after:]))


def _substituted(lines: list[str], line: int, column: int, name: str, instead: Callable[[str], str]) -> str:
    """With the setting `name` at this place, value included, as `instead` has it."""
    row = lines[line - 1]
    found = re.compile(name + _VALUE).match(row, column - 1)
    if found is None:
        return "".join(lines)
    edited = row[: found.start()] + instead(found[0]) + row[found.end() :]
    return "".join((*lines[: line - 1], edited, *lines[line:]))


def _item(entry: Entry, indent: str) -> str:
    """Text stands in quotes, as JSON has it: an id may look like a number."""
    settings: dict[str, object] = {
        "id": entry.id,
        "digest": entry.digest,
        "owner": entry.owner,
        "groups": list(entry.groups),
        "created": stamp(entry.created),
    }
    if entry.expires is not None:
        settings["expires"] = stamp(entry.expires)
    if entry.revoked is not None:
        settings["revoked"] = stamp(entry.revoked)
    if entry.note is not None:
        settings["note"] = entry.note
    written = [f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in settings.items()]
    return f"{indent}- " + f"{indent}  ".join(written)

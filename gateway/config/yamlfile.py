"""Read one YAML file into plain values, each with its place; refuse whatever two readers could take in two ways.

Knows: the scalars of YAML 1.2, places, bounds; the only importer of `yaml`. Must not know: what any key means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.config.mistakes import MOST, Mistake, Mistakes
from gateway.config.yamlhints import earlier, remedy
from gateway.config.yamltext import LARGEST, UNUSABLE, decoded, scalar

__all__ = ["Document", "Mistake", "Mistakes", "read", "read_file"]

DEEPEST: Final = 64  # levels; the deepest setting has nine
MOST_PARTS: Final = 100_000  # values; a thousand rules have fifty thousand, and the time to read is bounded by it

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same grammar, many times faster


@dataclass(slots=True)
class _Spot:
    """Where a part begins, its own parts, and whether it is a scalar without quotes."""

    line: int
    column: int
    parts: dict[str | int, _Spot] | None = None  # None in a scalar, of which there are most
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: `data` is made of dict, list, str, int, float, bool and None only."""

    data: Any = field(repr=False)
    file: str
    _spot: _Spot = field(repr=False)

    def place(self, path: tuple[str | int, ...]) -> tuple[int, int]:
        """Line and column, from 1, of the deepest part of `path` that exists: a setting's key, or an item of a list."""
        spot = self._deepest(path)
        return spot.line, spot.column

    def plain(self, path: tuple[str | int, ...]) -> bool:
        """True where a scalar without quotes stands, so that it may mean something else than its text."""
        return self._deepest(path).plain

    def _deepest(self, path: tuple[str | int, ...]) -> _Spot:
        spot = self._spot
        for step in path:
            inner = spot.parts.get(step) if spot.parts else None
            if inner is None:
                break
            spot = inner
        return spot


def read_file(path: Path) -> Document:
    """The document in the file at `path`. Blocks. Raises `Mistakes` as `read`, and when the file cannot be read."""
    return read(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """What stands in the file, one byte more than `read` takes at most. Raises `Mistakes` when it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            # Opening a pipe would wait for its other end.
            what = "is a folder; name a file" if path.is_dir() else "not a file"
            raise Mistakes([Mistake(str(path), 1, 1, what)])
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        message = f"cannot be read: {error.strerror or 'unknown reason'}"
        raise Mistakes([Mistake(str(path), 1, 1, message)]) from None


def read(text: bytes, file: str) -> Document:
    """The document in `text`; `file` is its name in mistakes.

    Raises `Mistakes` with every one that could be found: bytes that are not UTF-8, a tab or an invisible character, a
    grammar error, duplicate or non-text keys, anchors, aliases, merges, tags, directives, a second document, no
    document, and what is beyond a bound.
    """
    source = decoded(text, file)
    reader = _Reader(file)
    try:
        for event in yaml.parse(source, Loader=LOADER):
            reader.take(event)
            if reader.over:
                break
    except yaml.MarkedYAMLError as error:
        reader.refuse(error)
    except (yaml.YAMLError, ValueError, OverflowError):  # the latter: escapes and directives beyond Unicode or an int
        reader.mistake(None, "not valid YAML")
    return reader.document()


class _Bad:
    """Stands for a key that is not one; its value is read and dropped."""


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is still open. `key` is the mapping's key whose value comes next."""

    value: dict[str, Any] | list[Any]
    spot: _Spot
    parts: dict[str | int, _Spot]
    is_key: bool
    key: str | _Bad | None = None
    key_spot: _Spot | None = None


class _Reader:
    """Builds values out of parser events, with a stack of its own so that depth is bounded here."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._mistakes: list[Mistake] = []
        self._open: list[_Frame] = []
        self._documents = 0
        self._parts = 0
        self._root: tuple[Any, _Spot] | None = None
        self.over = False

    def document(self) -> Document:
        """What was read. Raises `Mistakes`."""
        if not self._mistakes and (self._root is None or self._root[0] is None):
            self.mistake(None, "the file is empty")
        if self._mistakes or self._root is None:
            raise Mistakes(self._mistakes)
        data, spot = self._root
        return Document(data, self._file, spot)

    def mistake(self, mark: Any, message: str) -> None:
        """Note a mistake; after `MOST` of them, stop."""
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        self._mistakes.append(Mistake(self._file, line, column, message))
        self.over = self.over or len(self._mistakes) > MOST

    def refuse(self, error: yaml.MarkedYAMLError) -> None:
        """Note where the parser gave up, or what it was reading then."""
        problem, context = error.problem or "", error.context or ""
        began = error.context_mark or error.problem_mark
        mark = began if earlier(problem) else error.problem_mark or began
        more = remedy(problem, context, 0 if began is None else began.line + 1)
        self.mistake(mark, f"not valid YAML: {problem or context}{more}")

    def take(self, event: Any) -> None:
        """Go on by one parser event."""
        match event:
            case yaml.AliasEvent():
                self.mistake(event.start_mark, f"an alias (*{event.anchor}) is not taken; write the value again")
                self._put(None, event, plain=False)
            case yaml.ScalarEvent():
                self._marks(event)
                self._put(self._value(event), event, plain=not event.style)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._marks(event)
                self._begin(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._finish(event)
            case yaml.DocumentStartEvent():
                self._start(event)

    def _start(self, event: Any) -> None:
        self._documents += 1
        if event.version or event.tags:
            self.mistake(event.start_mark, "a directive (%YAML, %TAG) is not taken")
        if self._documents > 1:
            self.mistake(event.start_mark, "a second document ('---') is not taken; one file holds one")
            self.over = True

    def _marks(self, event: Any) -> None:
        if event.anchor is not None:
            self.mistake(event.start_mark, f"an anchor (&{event.anchor}) is not taken")
        if event.tag is not None:
            self.mistake(event.start_mark, "a tag (!) is not taken; quote the value if it begins with '!'")

    def _value(self, event: Any) -> str | int | float | bool | None:
        text: str = event.value
        if UNUSABLE.search(text):
            self.mistake(event.start_mark, "this text holds a character that cannot be used (NUL or half of a pair)")
            return None
        if event.style:
            return text
        try:
            return scalar(text)
        except ValueError as error:
            self.mistake(event.start_mark, str(error))
            return None

    def _begin(self, event: Any) -> None:
        if len(self._open) >= DEEPEST:
            self.mistake(event.start_mark, f"nested deeper than {DEEPEST} levels")
            self.over = True
            return
        mark = event.start_mark
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        parts: dict[str | int, _Spot] = {}
        self._open.append(_Frame(value, _Spot(mark.line + 1, mark.column + 1, parts), parts, self._at_key()))

    def _finish(self, event: Any) -> None:
        frame = self._open.pop()
        if frame.is_key:
            self.mistake(event.start_mark, "a key is text, not a list or a mapping")
            self._open[-1].key = _Bad()
        else:
            self._store(frame.value, frame.spot)

    def _at_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _put(self, value: Any, event: Any, *, plain: bool) -> None:
        mark = event.start_mark
        spot = _Spot(mark.line + 1, mark.column + 1, plain=plain)
        if self._at_key():
            self._key(value, spot, event, plain=plain)
        else:
            self._store(value, spot)

    def _key(self, key: Any, spot: _Spot, event: Any, *, plain: bool) -> None:
        frame = self._open[-1]
        frame.key, frame.key_spot = _Bad(), spot
        if plain and key == "<<":
            self.mistake(event.start_mark, "a merge (<<) is not taken; write the settings again")
        elif isinstance(event, yaml.AliasEvent):
            return
        elif not isinstance(key, str):
            self.mistake(event.start_mark, "a key is text; put it in quotes")
        elif key in frame.value:
            self.mistake(event.start_mark, f"'{key}' stands twice, first in line {frame.parts[key].line}")
        else:
            frame.key = key

    def _store(self, value: Any, spot: _Spot) -> None:
        self._parts += 1
        if self._parts == MOST_PARTS:
            self._mistakes.append(Mistake(self._file, spot.line, spot.column, f"more than {MOST_PARTS} values"))
            self.over = True
        if not self._open:
            self._root = (value, spot)
            return
        frame = self._open[-1]
        if isinstance(frame.value, list):
            frame.parts[len(frame.value)] = spot
            frame.value.append(value)
            return
        if isinstance(frame.key, str) and frame.key_spot is not None:
            frame.key_spot.parts, frame.key_spot.plain = spot.parts, spot.plain
            frame.parts[frame.key] = frame.key_spot
            frame.value[frame.key] = value
        frame.key = frame.key_spot = None

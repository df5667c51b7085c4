"""A part of a file that may hold anything: asked for what it should hold, it gives that or nothing.

Lets a check look past other mistakes, so that all of them are found at once. Knows: lists, mappings, text.
Must not know: what any setting means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A value and where it stands."""

    value: Any = field(repr=False)
    path: Path = ()

    def __getitem__(self, name: str) -> Part:
        """The setting `name`; a part without a value where there is none."""
        inner = self.value.get(name) if isinstance(self.value, dict) else None
        return Part(inner, (*self.path, name))

    def __iter__(self) -> Iterator[Part]:
        """The items of a list; none where there is no list."""
        items = self.value if isinstance(self.value, list) else ()
        for index, item in enumerate(items):
            yield Part(item, (*self.path, index))

    def at(self, *path: str) -> Iterator[Part]:
        """Every part that `path` leads to, where `*` is each item of a list."""
        parts = [self]
        for step in path:
            parts = [inner for part in parts for inner in (part if step == "*" else (part[step],))]
        yield from parts

    @property
    def text(self) -> str:
        """The text that stands here, else nothing."""
        return self.value if isinstance(self.value, str) else ""

    def texts(self) -> list[Part]:
        """The items of a list that are text and not empty."""
        return [item for item in self if item.text]

    def read(self, reader: Callable[[Any], T], otherwise: T) -> T:
        """What `reader` makes of the value; `otherwise` where it is absent or wrong."""
        try:
            return otherwise if self.value is None else reader(self.value)
        except ValueError:
            return otherwise


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a path of the file."""

    path: Path
    message: str

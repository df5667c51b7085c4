"""What is wrong with a file that somebody wrote, and where.

Knows: places. Must not know: any format of files, what any setting means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST: Final = 100  # mistakes said at once; nobody reads more, and a file can be made of nothing else
LONGEST: Final = 400  # characters of a message; ours are shorter, but what they quote need not be


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """Something wrong at a place of a file. `line` and `column` count from 1, columns in characters."""

    file: str
    line: int
    column: int
    message: str

    def __post_init__(self) -> None:
        """Make it one line that a terminal and a log can bear: it may quote the file, whose name may be anything."""
        if not self.file.isprintable():
            object.__setattr__(self, "file", _printable(self.file))
        if len(self.message) > LONGEST or not self.message.isprintable():
            safe = _printable(self.message[:LONGEST])
            object.__setattr__(self, "message", safe[:LONGEST] + ("…" if len(self.message) > LONGEST else ""))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Mistakes(Exception):  # noqa: N818  it holds mistakes and is named after them
    """Every mistake that was found, up to `MOST`, in the order of their places, each once.

    `files`: what was looked at, so that whoever waits for a better version knows where it can come from.
    """

    def __init__(self, mistakes: Iterable[Mistake], files: Iterable[Path] = ()) -> None:
        self.files: tuple[Path, ...] = tuple(files)
        found = sorted(set(mistakes))
        if len(found) > MOST:
            last = found[MOST - 1]
            found[MOST:] = [Mistake(last.file, last.line, last.column, "and more mistakes; these are the first")]
        self.mistakes: tuple[Mistake, ...] = tuple(found)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))

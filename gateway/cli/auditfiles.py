"""Audit files, line by line, as they were written or packed by gzip.

Knows: files, what can be wrong with them. Must not know: what lines say.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Final, cast

from gateway.cli.saying import CannotSay
from gateway.progress import progress

#: Bytes of a line beyond which it is no line of ours, and is read in pieces; the longest of ours has a fifth of it.
LINE_LIMIT: Final = 1024 * 1024

STDIN: Final = "-"


class Unreadable(CannotSay):
    """A file cannot be read; the text says which, and why."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Raises `Unreadable`, also in the middle."""
    try:
        with cast("IO[bytes]", gzip.open(path)) if _packed(path) else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def lines(file: IO[bytes]) -> Iterator[bytes]:
    """Each with its end; of one that is too long, pieces."""
    return iter(lambda: file.readline(LINE_LIMIT), b"")


def total(paths: Iterable[Path]) -> int | None:
    """Bytes to be read; None where nobody knows, because they are packed. Raises `Unreadable`."""
    paths = tuple(paths)
    try:
        sizes = [path.stat().st_size for path in paths]
    except OSError as error:
        raise _unreadable(error.filename, error) from error
    return None if any(map(_packed, paths)) else sum(sizes)


def every_line(files: Sequence[str]) -> Iterator[bytes]:
    """Those of all these files (`-`: standard input), with a bar. Raises `Unreadable`."""
    size = None if STDIN in files else total(map(Path, files))
    return progress(chain.from_iterable(map(_lines_of, files)), "audit lines", size, len)


def _lines_of(file: str) -> Iterator[bytes]:
    if file == STDIN:
        yield from lines(sys.stdin.buffer)
        return
    with opened(Path(file)) as source:
        yield from lines(source)


def _packed(path: Path) -> bool:
    return path.suffix == ".gz"


def _unreadable(path: object, error: Exception) -> Unreadable:
    return Unreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")

"""Find code that stands twice: `python -m tests.checks.duplicates FOLDER…` prints the places and exits 1.

Two places are the same when `LEAST` lines in a row have the same shape: names and constants left alone, blank lines,
comments, imports and lone brackets left out.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Shorter runs are often the plain grammar of the language rather than a thought that stands twice.
LEAST = 8
BRACKETS = set("()[]{},: ")
SKIPPED = ("#", "import ", "from ", '"""')

Line = tuple[int, str]
Place = tuple[Path, int]


def lines_of(path: Path) -> list[Line]:
    """The lines that count, with their numbers."""
    numbered = enumerate((line.strip() for line in path.read_text().splitlines()), 1)
    return [(number, text) for number, text in numbered if set(text) - BRACKETS and not text.startswith(SKIPPED)]


def windows(path: Path) -> Iterator[tuple[tuple[str, ...], Place]]:
    """Every run of `LEAST` lines and where it begins."""
    lines = lines_of(path)
    for start in range(len(lines) - LEAST + 1):
        run = lines[start : start + LEAST]
        yield tuple(text for _, text in run), (path, run[0][0])


def duplicates(paths: Sequence[Path]) -> list[list[Place]]:
    """The places of each run that stands in more than one place."""
    places: dict[tuple[str, ...], list[Place]] = defaultdict(list)
    for path in paths:
        for run, place in windows(path):
            places[run].append(place)
    return [found for found in places.values() if len(found) > 1]


def main(folders: Sequence[str]) -> int:
    found = duplicates(sorted(path for folder in folders for path in Path(folder).rglob("*.py")))
    for places in found:
        print("the same lines stand at " + " and ".join(f"{path}:{number}" for path, number in places))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

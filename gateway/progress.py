"""How far long work has come, as a bar on standard error.

Knows: the library that draws it. Must not know: what the work is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tqdm import tqdm

T = TypeVar("T")

# Seconds before there is a bar: what is done by then was not long.
_DELAY: Final = 1.0


def progress(
    items: Iterable[T], what: str, total: int | None = None, size: Callable[[T], int] | None = None
) -> Iterator[T]:
    """The same `items`, while a bar called `what` shows how far they are gone through, if a person is watching.

    `total`: how many there are, None where nobody knows. With `size` it is counted in bytes, each item's `size`.
    Nothing is written where standard error is no terminal, nor for what takes less than a second.
    """
    bar = tqdm(
        desc=what,
        total=total,
        unit=" " if size is None else "B",
        unit_scale=True,
        file=sys.stderr,
        disable=not sys.stderr.isatty(),
        delay=_DELAY,
        leave=False,
        dynamic_ncols=True,
    )
    with bar:
        for item in items:
            yield item
            bar.update(1 if size is None else size(item))

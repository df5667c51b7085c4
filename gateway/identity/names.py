"""Names of people and groups as policies know them, whichever provider gave them.

Knows: prefix, renaming, which groups a provider may give at all. Must not know: any provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gateway.globs import compile_glob

# OpenID Connect Core 1.0 section 2 bounds `sub` to 255 characters; other claims (mail, distinguished names) run longer.
NAME_LIMIT = 512
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # and line ends, and halves of characters


def plain(name: str) -> bool:
    """Fit to stand in a header and in a log line."""
    return 0 < len(name) <= NAME_LIMIT and not _CONTROL.search(name)


class GroupNames:
    """From a group's name at its provider to its name here, or to nothing: prefix, then `renamed`, then `allowed`.

    Raises `ValueError` for a pattern that is none.
    """

    def __init__(self, prefix: str, renamed: Iterable[tuple[str, str]], allowed: Iterable[str]) -> None:
        self._prefix = prefix
        self._renamed = dict(renamed)
        self._allowed = tuple(compile_glob(pattern) for pattern in allowed)

    def __call__(self, given: str) -> Iterator[str]:
        """The name that `given` has here, if this provider may give it."""
        if plain(given):
            prefixed = self._prefix + given
            name = self._renamed.get(prefixed, prefixed)
            if any(allows(name) for allows in self._allowed):
                yield name

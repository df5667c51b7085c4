"""How much two policies may have in them for all their differences to be found.

Knows: the bounds of the search. Must not know: what is searched.
"""

from __future__ import annotations

from typing import Final

NAMES_LIMIT: Final = 50_000  # states of all patterns at once; some seconds of work
PARTS_LIMIT: Final = 500_000  # ways to combine providers, versions, addresses and times; some seconds of work
STEPS_LIMIT: Final = 200_000  # steps to the smallest callers of one question; some seconds of work


class TooMuch(Exception):  # noqa: N818  named for what happened
    """Part of the differences would be left out. The text says what there is too much of, and what helps."""

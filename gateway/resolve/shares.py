"""Which of several models a caller gets under a name they share: by weight, and the same one every time.

Weighted rendezvous hashing: each model draws a number for the caller, and the smallest for its weight wins. Nothing is
remembered, so all replicas agree, and a change of weights moves no more callers than it has to.
Pure. Knows: callers' names, weights. Must not know: what is granted, requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import log

_BITS = 53  # of a draw: what a float holds


def ranked(who: tuple[str, str], name: str, shares: Sequence[tuple[str, int]]) -> list[int]:
    """The places of `shares`, pairs of a model and its weight above zero, in the order this caller would take them.

    `who`: provider and subject. `name`: the one they share, so that callers are drawn anew for each.
    """
    draws = [(_draw((*who, name, model)) / weight, place) for place, (model, weight) in enumerate(shares)]
    return [place for _, place in sorted(draws)]


def _draw(words: tuple[str, ...]) -> float:
    """A number above or at zero that follows from these words alone, exponentially distributed."""
    each = [word.encode("utf-8", "surrogatepass") for word in words]
    text = b"".join(b"%d:%b" % (len(word), word) for word in each)
    number = int.from_bytes(blake2b(text, digest_size=8).digest()) >> (64 - _BITS)
    return -log((number + 0.5) / (1 << _BITS))

"""What a remembered word rests on.

Knows: whether it stands. Must not know: whose word it is, who remembers it.
"""

from __future__ import annotations


class Basis:
    """What the word for a token rests on, a set of keys for example. Once it does not stand, nor does the word."""

    __slots__ = ("stands",)

    def __init__(self) -> None:
        self.stands = True

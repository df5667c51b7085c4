"""What a call asks for beyond its terms, and what could be changed about it.

Knows: names of members, JSON text. Must not know: which limits there are.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """A member of the top level that becomes this JSON text, or goes (None)."""

    name: str
    text: bytes | None

    @property
    def words(self) -> str:
        """For the caller and the log."""
        return f"{self.name} removed" if self.text is None else f"{self.name}={self.text.decode()}"


@dataclass(frozen=True, slots=True)
class Excess:
    """Too much of something. `message` is for the caller; `lowered`: what would make it fit, if anything could.

    `bulky`: the size of the body is what is too much. `facts`: the message for the log, where that can be shorter.
    """

    name: str
    message: str
    lowered: Change | None = None
    bulky: bool = False
    facts: str = ""


def above(name: str, value: int, cap: int, lowered: Change | None) -> Excess:
    """That a number is too high."""
    message = f"'{name}' is {value}, and you may ask for {cap} at most."
    return Excess(name, message, lowered, facts=f"{name} {value} > {cap}")

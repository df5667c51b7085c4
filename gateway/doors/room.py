"""The memory that request bodies of all callers may take together.

Knows: bytes. Must not know: HTTP, who holds them, what for.
"""

from __future__ import annotations

# Bytes of a body that are not counted: most calls have fewer, and so have their place however large others are.
UNCOUNTED = 64 * 1024


class Room:
    """So many bytes, and how many of them are taken."""

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def has(self, size: int) -> bool:
        """Whether a body of `size` bytes could be held now."""
        return size <= UNCOUNTED or self.taken + size <= self.limit


class Share:
    """What one body takes of a room. It is given back when nothing holds the share any more, as its bytes are."""

    __slots__ = ("_room", "size")

    def __init__(self, room: Room) -> None:
        self._room = room
        self.size = 0

    def grow(self, size: int) -> bool:
        """Take `size` bytes in all; False, and nothing more is taken, where there is no room for them."""
        room = self._room
        taken = room.taken - self.size + size
        if taken > room.limit:
            return False
        room.taken = taken
        self.size = size
        return True

    def __del__(self) -> None:
        self._room.taken -= self.size

"""Names for calls. Knows: chance and a counter. Must not know: calls."""

from __future__ import annotations

import secrets
import time

# The last three digits of a name, written once.
_DIGITS = tuple(f"{number:03x}" for number in range(4096))


class RequestIds:
    """32 hexadecimal digits each, unlike any other gateway's: half chance, half a counter.

    Also valid as a W3C trace id.
    """

    __slots__ = ("_before", "_count", "_prefix")

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._count = time.time_ns() & 0xFFFFFFFF
        self._before = ""

    def new(self) -> str:
        """The next one."""
        count = self._count
        self._count = count + 1
        last = count & 4095
        if not last or not self._before:
            self._before = f"{self._prefix}{count >> 12:013x}"
        return self._before + _DIGITS[last]

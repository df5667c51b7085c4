"""What a directory said a moment ago, by a keyed digest of what it was asked: no password is kept.

Knows: how long, how much. Must not know: what is remembered.
Pure: the time comes in.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# An entry takes about half a KiB, and a name of a group 100 bytes: 30 MiB at most, whoever is in however many groups.
ENTRIES_LIMIT: Final = 10_000
NAMES_LIMIT: Final = 250_000


class Digests:
    """Digests under a key of this process, so that nobody who reads its memory can try passwords elsewhere in
    advance."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, *words: str) -> bytes:
        """The same for the same words in the same order only."""
        sized = b"".join(len(raw).to_bytes(4, "big") + raw for raw in (word.encode() for word in words))
        return hmac.digest(self._key, sized, "sha256")


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """Something that holds before `until`, in seconds of the clock that is passed in. `names`: how many it keeps."""

    value: T
    until: float
    names: int = 0


class Remembered(Generic[T]):
    """Bounded: what was put in first goes first."""

    def __init__(self) -> None:
        self._held: OrderedDict[bytes, Held[T]] = OrderedDict()
        self._names = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, digest: bytes, now: float) -> Held[T] | None:
        """What is remembered, if it still holds."""
        held = self._held.get(digest)
        if held is None or now < held.until:
            return held
        self._drop(digest)
        return None

    def put(self, digest: bytes, held: Held[T]) -> None:
        """Remember it in place of what there was."""
        self._drop(digest)
        self._held[digest] = held
        self._names += held.names
        while len(self._held) > ENTRIES_LIMIT or self._names > NAMES_LIMIT:
            self._names -= self._held.popitem(last=False)[1].names

    def _drop(self, digest: bytes) -> None:
        held = self._held.pop(digest, None)
        if held is not None:
            self._names -= held.names

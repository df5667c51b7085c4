"""An API key as text: how one is made, and told apart from other credentials and from a slip of the hand.

Knows: the form of a key. Must not know: files, who has which key, HTTP.

`nimgw_`, eight characters that name the key, `_`, 43 characters of chance, six that check all before them. So a scanner
for leaked secrets finds one by its form alone, and a key that was not copied whole is told from one that is unknown.
"""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable
from hashlib import sha256
from typing import Final
from zlib import crc32

PREFIX: Final = "nimgw_"

ID_LETTERS: Final = string.digits + string.ascii_lowercase
LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase

ID_LENGTH: Final = 8
SECRET_LENGTH: Final = 43  # of 62 letters: 256 bits
CHECK_LENGTH: Final = 6  # 62**6 is more than the 2**32 values of a CRC-32

#: Found in a text, it is a key that somebody lost (docs/identity.md has it for scanners).
PATTERN: Final = r"nimgw_[0-9a-z]{8}_[0-9A-Za-z]{49}"
_FORM: Final = re.compile(PATTERN)

DIGEST_PREFIX: Final = "sha256:"


def new_id(chance: Callable[[int], int] = secrets.randbelow) -> str:
    """A name for a key; `chance(n)` gives a whole number below `n`."""
    return _drawn(ID_LETTERS, ID_LENGTH, chance)


def new_key(key_id: str, chance: Callable[[int], int] = secrets.randbelow) -> str:
    """A new key of this name."""
    body = f"{PREFIX}{key_id}_{_drawn(LETTERS, SECRET_LENGTH, chance)}"
    return body + _check(body)


def id_of(text: str) -> str | None:
    """The name of the key that `text` is; None when it is not of the form, or its check part does not fit."""
    if _FORM.fullmatch(text) is None or _check(text[:-CHECK_LENGTH]) != text[-CHECK_LENGTH:]:
        return None
    return text[len(PREFIX) : len(PREFIX) + ID_LENGTH]


def has_key(text: str) -> bool:
    """Whether a key stands anywhere in it."""
    return _FORM.search(text) is not None


def meant(text: str) -> bool:
    """Whether it was meant to be a key, whole or not, or has one in it."""
    return text.lstrip().startswith(PREFIX) or has_key(text)


def digest_of(text: str) -> bytes:
    """What is kept of a key. With 256 bits of chance in it nothing slower is needed: there is nothing to guess."""
    return sha256(text.encode()).digest()


def _drawn(letters: str, length: int, chance: Callable[[int], int]) -> str:
    return "".join(letters[chance(len(letters))] for _ in range(length))


def _check(body: str) -> str:
    """CRC-32 in letters: against slips, not against anybody."""
    number, found = crc32(body.encode()), ""
    for _ in range(CHECK_LENGTH):
        number, rest = divmod(number, len(LETTERS))
        found = LETTERS[rest] + found
    return found

"""Small values that a browser keeps for us as cookies: nobody else can read them, and nobody else can make them.

Knows: keys, purposes, ages. Must not know: what is sealed, cookies, HTTP.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_KEY_BYTES = 32  # of Fernet: half of it encrypts (AES-128-CBC), half of it authenticates (HMAC-SHA256)

Secrets = Callable[[], Sequence[bytes]]
Clock = Callable[[], float]


class Seal:
    """One purpose: what was sealed for it is nothing to the seal of another.

    `secrets` are those of the moment. The first seals and all of them open, so that a new one may be put before the
    others and every replica with the same ones opens what another sealed. `now` gives UNIX seconds.
    """

    def __init__(self, secrets: Secrets, purpose: str, now: Clock) -> None:
        self._secrets = secrets
        self._purpose = purpose
        self._now = now
        self._made_of: Sequence[bytes] = ()
        self._fernet: MultiFernet | None = None

    def close(self, content: bytes) -> str:
        """`content`, sealed now: letters, digits, `-`, `_` and `=`."""
        return self._current().encrypt_at_time(content, int(self._now())).decode("ascii")

    def open(self, text: str, age: float) -> bytes | None:
        """What was sealed at most `age` seconds ago; None for everything else, whatever is wrong with it."""
        try:
            return self._current().decrypt_at_time(text.encode("ascii"), int(age), int(self._now()))
        except (InvalidToken, UnicodeEncodeError):
            return None

    def _current(self) -> MultiFernet:
        secrets = self._secrets()
        if self._fernet is None or secrets != self._made_of:
            self._fernet = MultiFernet([Fernet(_key(secret, self._purpose)) for secret in secrets])
            self._made_of = secrets
        return self._fernet


def _key(secret: bytes, purpose: str) -> bytes:
    """RFC 5869: what is known of a seal's key tells nothing of the secret, nor of another purpose's key."""
    derived = HKDF(SHA256(), _KEY_BYTES, salt=None, info=b"nim-gateway pages: " + purpose.encode("ascii"))
    return base64.urlsafe_b64encode(derived.derive(secret))

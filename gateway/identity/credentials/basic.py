"""The Basic credential of a request: a name and a password (RFC 7617).

Knows: the form of the `Authorization` field. Must not know: who checks the pair.
"""

from __future__ import annotations

import base64
import binascii
import re

from gateway.identity.refused import BadLogin, Result

# RFC 9110 section 11.1: the scheme is case-insensitive; section 11.4: 1*SP and then one token68.
_MINE = re.compile(rb"basic(?![!#$%&'*+\-.^_`|~0-9a-z])", re.IGNORECASE)
_WHOLE = re.compile(rb"basic +([A-Za-z0-9+/]+=*)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

# A name is at most a distinguished name, a password a long API key.
LIMIT = 4096


def name_and_password(value: bytes) -> tuple[str, str] | None:
    """What an `Authorization` value carries, split at the first colon; None for another scheme.

    Raises `BadLogin` where it is Basic and odd: not Base64, not UTF-8, no colon, control characters, no name.
    """
    value = value.strip(b" \t")
    if not _MINE.match(value):
        return None
    if (match := _WHOLE.fullmatch(value)) is None or len(match[1]) > LIMIT:
        raise BadLogin(Result.MALFORMED)
    try:
        text = base64.b64decode(match[1], validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise BadLogin(Result.MALFORMED) from None
    name, colon, password = text.partition(":")
    if not colon:
        raise BadLogin(Result.MALFORMED)
    return plain_pair(name, password)


def plain_pair(name: str, password: str) -> tuple[str, str]:
    """Both as they are. Raises `BadLogin` without a name, for control characters, and beyond `LIMIT`."""
    if not name or len(name) + len(password) > LIMIT or _CONTROL.search(name + password):
        raise BadLogin(Result.MALFORMED)
    return name, password

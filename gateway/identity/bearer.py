"""The bearer credential of a request (RFC 6750).

Knows: the form of the `Authorization` field. Must not know: what a token holds.
"""

from __future__ import annotations

import re

from gateway.call import Call
from gateway.identity.refused import BadToken, Result

# Access tokens of a person in very many groups stay under 10 KiB; all header fields together end at 32 KiB.
TOKEN_LIMIT = 16 * 1024

# RFC 9110 section 11.1: the scheme is case-insensitive; section 11.4: 1*SP and then one token68.
_MINE = re.compile(rb"bearer(?![!#$%&'*+\-.^_`|~0-9a-z])", re.IGNORECASE)
_WHOLE = re.compile(rb"bearer +([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)


def authorization(call: Call) -> bytes | None:
    """The one `Authorization` value, or None when there is none. Raises `BadToken` when there are several."""
    found: bytes | None = None
    for name, value in call.fields:
        if name == b"authorization":
            if found is not None:
                raise BadToken(Result.MALFORMED, "send the Authorization field once")
            found = value
    return found


def bearer_token(value: bytes) -> str | None:
    """The token in an `Authorization` value, or None for another scheme. Raises `BadToken` where it is ours and odd."""
    value = value.strip(b" \t")
    if not _MINE.match(value):
        return None
    if (match := _WHOLE.fullmatch(value)) is None:
        raise BadToken(Result.MALFORMED, "the form is one scheme, one space, one token")
    token = match[1]
    if len(token) > TOKEN_LIMIT:
        raise BadToken(Result.MALFORMED, f"a token has at most {TOKEN_LIMIT} bytes")
    return token.decode("ascii")

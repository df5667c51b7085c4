"""The token of a request: as a bearer credential (RFC 6750), or with a proof beside it (RFC 9449).

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
_DPOP = re.compile(rb"dpop(?![!#$%&'*+\-.^_`|~0-9a-z])", re.IGNORECASE)
_WHOLE_DPOP = re.compile(rb"dpop +([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)


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
    return _token(value, _MINE, _WHOLE)


def dpop_token(value: bytes) -> str | None:
    """The same for the scheme `DPoP` (RFC 9449 section 7.1)."""
    return _token(value, _DPOP, _WHOLE_DPOP)


def shown_token(value: bytes) -> str | None:
    """The token under either scheme."""
    token = bearer_token(value)
    return dpop_token(value) if token is None else token


def is_dpop(value: bytes) -> bool:
    """Whether an `Authorization` value has the scheme `DPoP`."""
    return _DPOP.match(value.strip(b" \t")) is not None


def _token(value: bytes, mine: re.Pattern[bytes], whole: re.Pattern[bytes]) -> str | None:
    value = value.strip(b" \t")
    if not mine.match(value):
        return None
    if (match := whole.fullmatch(value)) is None:
        raise BadToken(Result.MALFORMED, "the form is one scheme, one space, one token")
    token = match[1]
    if len(token) > TOKEN_LIMIT:
        raise BadToken(Result.MALFORMED, f"a token has at most {TOKEN_LIMIT} bytes")
    return token.decode("ascii")

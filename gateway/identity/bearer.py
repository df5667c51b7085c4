"""The bearer credential of a request (RFC 6750), and how the gateway says what is wrong with it.

Knows: the form of the `Authorization` field, of challenges, the closed list of outcomes.
Must not know: what a token holds.
"""

from __future__ import annotations

import re
from enum import StrEnum

from gateway.call import Call
from gateway.errors import Unidentified

REALM = "nim-gateway"

#: What a caller without a credential is told (RFC 6750 section 3.1: no error code then).
CHALLENGE = f'Bearer realm="{REALM}"'.encode()

# Access tokens of a person in very many groups stay under 10 KiB; all header fields together end at 32 KiB.
TOKEN_LIMIT = 16 * 1024

# RFC 9110 section 11.1: the scheme is case-insensitive; section 11.4: 1*SP and then one token68.
_MINE = re.compile(rb"bearer(?![!#$%&'*+\-.^_`|~0-9a-z])", re.IGNORECASE)
_WHOLE = re.compile(rb"bearer +([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)


class Result(StrEnum):
    """How an authentication ended: the label `result` of `gateway_authentications_total`, hence a closed list."""

    OK = "ok"
    CACHED = "cached"
    MALFORMED = "malformed"
    BAD_ISSUER = "bad_issuer"
    BAD_ALGORITHM = "bad_algorithm"
    BAD_AUDIENCE = "bad_audience"
    BAD_CLAIMS = "bad_claims"
    BAD_SIGNATURE = "bad_signature"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    UNKNOWN_KEY = "unknown_key"
    WRONG_KIND = "wrong_kind"
    UNAVAILABLE = "unavailable"


class BadToken(Unidentified):
    """A bearer token that does not hold. `text` is for the caller: ASCII without quotes, nothing from the token."""

    def __init__(self, reason: Result, text: str) -> None:
        challenge = f'Bearer realm="{REALM}", error="invalid_token", error_description="{text}"'
        super().__init__(
            f"The bearer token is not accepted: {text}.",
            detail=reason.value,
            headers=((b"www-authenticate", challenge.encode("ascii")),),
        )
        self.reason = reason


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

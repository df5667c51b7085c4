"""How the gateway says that a credential does not hold: challenges, and the closed list of outcomes.

Knows: RFC 6750, RFC 7617, RFC 9449. Must not know: any kind of credential.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from gateway.errors import Unidentified
from gateway.settings import ALGORITHMS

REALM = "nim-gateway"

#: What a caller without a credential is told (RFC 6750 section 3.1: no error code then).
CHALLENGE = f'Bearer realm="{REALM}"'.encode()

#: The same where names and passwords are taken (RFC 7617 section 2.1).
BASIC_CHALLENGE = f'Basic realm="{REALM}", charset="UTF-8"'.encode()

_DPOP_ALGORITHMS = " ".join(ALGORITHMS)


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
    NO_PROOF = "no_proof"
    BAD_PROOF = "bad_proof"
    INACTIVE = "inactive"
    REVOKED = "revoked"
    UNKNOWN_KEY_ID = "unknown_api_key"
    BAD_PASSWORD = "bad_password"  # noqa: S105  a word for a result
    REFUSED_ACCOUNT = "refused_account"
    THROTTLED = "throttled"


#: Said of what is not known here and of what was revoked alike.
INVALID = "it does not hold"


class BadToken(Unidentified):
    """A bearer token that does not hold. `text` is for the caller: ASCII without quotes, nothing from the token.
    `detail` is for operators."""

    what: ClassVar[str] = "bearer token"

    def __init__(self, reason: Result, text: str, detail: str = "") -> None:
        challenge = f'Bearer realm="{REALM}", error="invalid_token", error_description="{text}"'
        super().__init__(
            f"The {self.what} is not accepted: {text}.",
            detail=detail or reason.value,
            headers=((b"www-authenticate", challenge.encode("ascii")),),
        )
        self.reason = reason
        self.text = text


class BadProof(BadToken):
    """A proof that the caller holds a key, and does not hold (RFC 9449 section 7.1)."""

    what = "DPoP proof"
    error: ClassVar[str] = "invalid_dpop_proof"

    def __init__(self, reason: Result, text: str, detail: str = "", *, bearer: bool = False) -> None:
        """`bearer`: the token came under that scheme, which is answered too (section 7.2)."""
        super().__init__(reason, text, detail)
        told = f'error="{self.error}", error_description="{text}", algs="{_DPOP_ALGORITHMS}"'
        challenge = f'DPoP realm="{REALM}", {told}'.encode("ascii")
        self.headers = (*(self.headers if bearer else ()), (b"www-authenticate", challenge))


class BadDpopToken(BadProof):
    """A token that came, or has to come, under the scheme `DPoP`."""

    what = "DPoP token"
    error = "invalid_token"


class BadCertificate(Unidentified):
    """A client certificate that was verified, but names nobody here. `text` as in `BadToken`."""

    def __init__(self, reason: Result, text: str, detail: str = "") -> None:
        super().__init__(
            f"The client certificate is not accepted: {text}.",
            detail=detail or reason.value,
            headers=((b"www-authenticate", CHALLENGE),),
        )
        self.reason = reason


class BadKey(BadToken):
    """An API key that does not hold."""

    what = "API key"


class BadLogin(Unidentified):
    """A name and password that do not hold. Always the same words: nobody learns which of the two is wrong."""

    def __init__(self, reason: Result, detail: str = "") -> None:
        super().__init__(
            "The name or the password is not accepted.",
            detail=detail or reason.value,
            headers=((b"www-authenticate", BASIC_CHALLENGE),),
        )
        self.reason = reason


class NotLoggedIn(Unidentified):
    """A browser came back from a provider, and nobody is logged in by that. The message is for the person."""

    def __init__(self, reason: Result, message: str, detail: str) -> None:
        super().__init__(message, detail=detail, headers=((b"www-authenticate", CHALLENGE),))
        self.reason = reason

"""What a token says its sender has to hold besides it (RFC 7800).

Knows: the `cnf` claim. Must not know: how anything is proven.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.identity.refused import BadToken, Result

# SHA-256 in base64url: 32 bytes are 43 characters, the last of which has two bits to spare.
_THUMBPRINT = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
_MEMBERS = frozenset({"x5t#S256", "jkt"})


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a token is bound to, one of the two at least: the thumbprint of a client certificate (RFC 8705 section 3.1),
    that of a key which signs a proof for each call (RFC 9449 section 6.1)."""

    certificate: str | None
    key: str | None


def confirmation(claims: Mapping[str, object]) -> Confirmation | None:
    """What the token is bound to, None for one that whoever has it may use. Raises `BadToken` for what is not known."""
    if "cnf" not in claims:
        return None
    bound = claims["cnf"]
    if not isinstance(bound, Mapping) or not bound:
        raise BadToken(Result.BAD_CLAIMS, "its cnf names nothing to hold")
    if not _MEMBERS.issuperset(bound):
        raise BadToken(Result.WRONG_KIND, "its cnf asks for a proof that is not known here")
    if not all(isinstance(value, str) and _THUMBPRINT.fullmatch(value) for value in bound.values()):
        raise BadToken(Result.BAD_CLAIMS, "its cnf holds no thumbprint")
    return Confirmation(bound.get("x5t#S256"), bound.get("jkt"))

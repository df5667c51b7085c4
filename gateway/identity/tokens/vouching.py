"""Who vouches for a token, and how long its word may be remembered.

Knows: the question and the answer. Must not know: any issuer, keys, HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.call import Principal
from gateway.identity.basis import Basis
from gateway.identity.signatures.jwt import Token
from gateway.identity.tokens.confirmation import Confirmation


@dataclass(frozen=True, slots=True)
class Vouched:
    """A token that held. Until when that may be remembered, in UNIX seconds, and while `basis` stands. `bound`: what
    its sender has to hold besides it, which is not vouched for."""

    principal: Principal
    until: float
    basis: Basis
    bound: Confirmation | None = None


class Opaque(Protocol):
    """Asks one provider about tokens that are only names to anybody else, and so do not say whose they are."""

    @property
    def name(self) -> str: ...

    async def vouch(self, text: str) -> Vouched:
        """May be awaited on the path of a call, which is not a task. Raises `BadToken` or `IdentityUnavailable`."""
        ...


class Voucher(Protocol):
    """Verifies the tokens of one issuer. `name` is the provider's, in policies, metrics and logs."""

    @property
    def name(self) -> str: ...

    @property
    def issuer(self) -> str: ...

    async def verify(self, token: Token) -> Vouched:
        """May be awaited on the path of a call, which is not a task. Raises `BadToken` or `IdentityUnavailable`."""
        ...

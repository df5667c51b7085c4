"""What the pages ask of the running gateway; asked anew for each request, so that a reload shows at once.

Knows: the questions. Must not know: who answers, HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.call import Principal
from gateway.identity.contracts import BrowserLogin, Directory
from gateway.identity.tokens.own import Minted


@dataclass(frozen=True, slots=True)
class Granted:
    """A model that a caller may use: the name to call it by, its aliases, the protocols of its pool, its prefix."""

    name: str
    aliases: tuple[str, ...]
    protocols: tuple[str, ...]
    prefix: str = ""


class Services(Protocol):
    """`public_url`: where callers reach the gateway, without a final slash."""

    @property
    def public_url(self) -> str: ...

    @property
    def directories(self) -> Sequence[Directory]: ...

    @property
    def logins(self) -> Sequence[BrowserLogin]:
        """The providers that log people in with their browser, in the order of the configuration."""
        ...

    @property
    def secrets(self) -> Sequence[bytes]:
        """What cookies are sealed with, at least one, newest first: the same for every replica that shares the keys of
        tokens, else made when the gateway started."""
        ...

    def still(self, principal: Principal) -> bool:
        """False once somebody who is logged in may be so no more: revoked, or their provider is gone."""
        ...

    async def renewed(self, principal: Principal) -> Principal:
        """Somebody who is logged in, as the directory that knows them or their groups has them now.

        Raises `BadLogin` for an account that is not there any more or not to be used, `IdentityUnavailable`.
        """
        ...

    @property
    def mints(self) -> bool:
        """Whether the gateway has a key to sign tokens with; without one there is no page about them."""
        ...

    def mint(self, principal: Principal) -> Minted:
        """A token for somebody who just logged in, no longer than their login holds. Raises `NotMinted`."""
        ...

    def key_set(self) -> dict[str, object]:
        """The public keys of the gateway's tokens (RFC 7517)."""
        ...

    def granted(self, principal: Principal, peer: str) -> Sequence[Granted]:
        """The models that this caller may run now from this address, in the order of the configuration."""
        ...

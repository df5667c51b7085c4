"""Callers whom one provider knows and whose groups another one does: a token's subject, looked up in a directory.

Knows: that the groups of the directory count in place of the token's. Must not know: any provider, any directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.identity.groupsource import GroupSource, with_groups
from gateway.identity.refused import BadLogin, BadToken, Result
from gateway.identity.signatures.jwt import Token
from gateway.identity.tokens.vouching import Opaque, Vouched, Voucher


class GroupsSupplied:
    """A `Voucher` for the tokens of another, whose callers have the groups that `groups` knows. `now`: UNIX seconds."""

    def __init__(self, voucher: Voucher, groups: GroupSource, now: Callable[[], float]) -> None:
        self.name = voucher.name
        self.issuer = voucher.issuer
        self._voucher = voucher
        self._groups = groups
        self._now = now

    async def verify(self, token: Token) -> Vouched:
        """As the voucher, and with the groups of the directory, for as long as those may be remembered.

        Raises what it raises; `BadToken` where the account is not to be used, `IdentityUnavailable` where the directory
        cannot be asked. The token is believed before anybody is asked about its subject.
        """
        return await supplied(await self._voucher.verify(token), self._groups, self._now)


class OpaqueGroupsSupplied:
    """The same for tokens that say nothing by themselves."""

    def __init__(self, opaque: Opaque, groups: GroupSource, now: Callable[[], float]) -> None:
        self.name = opaque.name
        self._opaque = opaque
        self._groups = groups
        self._now = now

    async def vouch(self, text: str) -> Vouched:
        """Raises `BadToken` or `IdentityUnavailable`."""
        return await supplied(await self._opaque.vouch(text), self._groups, self._now)


async def supplied(vouched: Vouched, groups: GroupSource, now: Callable[[], float]) -> Vouched:
    """`vouched` with the groups that `groups` knows. Raises `BadToken` or `IdentityUnavailable`."""
    try:
        principal = await with_groups(vouched.principal, groups)
    except BadLogin as error:
        raise BadToken(Result.REFUSED_ACCOUNT, "its subject has no account that holds", error.detail) from None
    held = now() + groups.groups_hold(principal.subject)
    return replace(vouched, principal=principal, until=min(vouched.until, held))

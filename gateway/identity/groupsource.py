"""Groups of callers who are known by something else than the directory that knows their groups.

Knows: that the directory's word counts in place of the credential's. Must not know: any credential, any directory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from gateway.call import Principal
from gateway.errors import GroupsUnknown


class GroupSource(Protocol):
    """Who knows groups by subject; a directory."""

    async def groups_of(self, subject: str) -> frozenset[str]:
        """The groups, as finally named; none for somebody who is not there. May be awaited on the path of a call.

        Raises `BadLogin` for an account that is not to be used, `GroupsUnknown` for more groups than are looked at,
        `IdentityUnavailable`.
        """
        ...

    def groups_hold(self, subject: str) -> float:
        """Seconds for which what it said of this subject may still be remembered; 0 when it may not."""
        ...


async def with_groups(principal: Principal, source: GroupSource) -> Principal:
    """`principal` with the groups that `source` knows; unknown ones where there are too many.

    Raises `BadLogin` for an account that is not to be used, and `IdentityUnavailable`.
    """
    try:
        return replace(principal, groups=await source.groups_of(principal.subject), groups_known=True)
    except GroupsUnknown:
        return replace(principal, groups=frozenset(), groups_known=False)

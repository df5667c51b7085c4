"""Groups that a provider gave a while ago, in a session or a token, under the rules of today.

Knows: which groups each provider may give. Must not know: how groups came to be known, what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.call import Principal
from gateway.globs import compile_glob
from gateway.settings import Settings

#: See `GroupsAllowed`.
Narrowing = Callable[[Principal], Principal]


class GroupsAllowed:
    """From a caller to the same one with those groups only that `groups_allowed` lets their provider still give: their
    directory, or the one that gives the groups of their issuer's people. Raises `ValueError` for an odd pattern.
    """

    def __init__(self, settings: Settings) -> None:
        directories = {one.name: one.groups_allowed for one in settings.ldap}
        patterns = {f"ldap:{name}": allowed for name, allowed in directories.items()}
        for issuer in settings.oidc:
            given = issuer.groups_allowed if issuer.groups_from is None else directories.get(issuer.groups_from, ())
            patterns[issuer.issuer] = given
        self._allowed = {issuer: tuple(map(compile_glob, given)) for issuer, given in patterns.items()}

    def __call__(self, principal: Principal) -> Principal:
        """Of a provider that there is no more no group counts."""
        allowed = self._allowed.get(principal.issuer, ())
        groups = frozenset(name for name in principal.groups if any(allows(name) for allows in allowed))
        return principal if groups == principal.groups else replace(principal, groups=groups)

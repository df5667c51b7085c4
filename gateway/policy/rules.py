"""What a rule says, as frozen values that check themselves.

Knows: whom and what a rule means, when and from where it holds, what it asks of a call that it lets in.
Must not know: files, how rules decide together, HTTP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from gateway.call import Operation
from gateway.globs import compile_glob
from gateway.policy.conditions import Network, Window
from gateway.terms import NO_TERMS, Terms

DEFAULT_OPERATIONS = frozenset({Operation.INFER, Operation.STREAM, Operation.LIST, Operation.METADATA})

# Triton reads a version with `stol`, to which "02", "+2" and "2x" are 2 as well: only one spelling names it here.
VERSION = re.compile(r"0|[1-9][0-9]{0,18}")


class Effect(StrEnum):
    """What a rule does where it matches."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the policy, and where it stands.

    A caller is meant who is one of `users`, in one of `groups` or comes through one of `clients`, and whom one of
    `issuers` (names of providers) vouches for; empty `issuers` are any, `issuers` alone is everybody they vouch for.
    Who carries none of `scopes` (if there are any), or is in one of `not_groups`, is not meant.
    `explicit_operations` are those of `operations` that were written out rather than defaulted. Empty `versions`: any.
    It holds within `window` and for clients in one of `networks`, if there are any. `terms`: of one that allows.
    Raises `ValueError` when it could never match, would match everybody, or has terms and denies.
    """

    id: str
    file: str
    line: int
    effect: Effect
    models: tuple[str, ...]
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    issuers: frozenset[str] = frozenset()
    operations: frozenset[Operation] = DEFAULT_OPERATIONS
    explicit_operations: frozenset[Operation] = frozenset()
    versions: frozenset[str] = frozenset()
    not_groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    window: Window | None = None
    networks: tuple[Network, ...] = ()
    terms: Terms = NO_TERMS

    def __post_init__(self) -> None:
        if not (self.users or self.groups or self.clients or self.issuers):
            raise ValueError("a rule names at least one user, group, client or issuer")
        if not self.models or not self.operations:
            raise ValueError("a rule names at least one model and one operation")
        if not self.explicit_operations <= self.operations:
            raise ValueError("what is written out is part of the operations")
        if self.effect is Effect.DENY and self.terms != NO_TERMS:
            raise ValueError("terms belong to a rule that allows")
        for version in self.versions:
            if not VERSION.fullmatch(version):
                raise ValueError(f"a version is a whole number without leading zeros, not {version!r}")
        for pattern in self.models:
            compile_glob(pattern)

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    @property
    def conditional(self) -> bool:
        """Whether it hangs on the time or the client's address."""
        return self.window is not None or bool(self.networks)

    @property
    def anybody(self) -> bool:
        """Whether everybody whom its issuers vouch for is meant."""
        return not (self.users or self.groups or self.clients)

"""What the assembly, the pages and other identities ask of a provider.

Knows: the questions. Must not know: any provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gateway.call import Principal


@dataclass(frozen=True, slots=True)
class Standing:
    """How a provider does. `ready`: a caller could be identified by it now. `outage`: seconds since it last answered,
    0 while it does. `bound`: seconds of outage after which callers it vouched for are refused."""

    provider: str
    ready: bool
    outage: float
    bound: float


class Provider(Protocol):
    """Whom the gateway depends on to know callers."""

    def standing(self) -> Standing: ...


class Directory(Protocol):
    """A directory of people. All of it may be awaited on the path of a call, which is not a task."""

    @property
    def name(self) -> str: ...

    async def log_in(self, name: str, password: str, peer: str) -> Principal:
        """The person whose name and password these are; `peer` is the address they came from.

        Raises `BadLogin`, `LoginThrottled`, `IdentityUnavailable`.
        """
        ...

    async def log_in_if_known(self, name: str, password: str, peer: str) -> Principal | None:
        """The same, and None for a name that it does not know, which is no failed login then."""
        ...

    async def groups_of(self, subject: str) -> frozenset[str]:
        """The groups of the person with this subject, as finally named; none for somebody who is not there.

        Raises `BadLogin` for an account that is not to be used, `GroupsUnknown` for more groups than are looked at,
        `IdentityUnavailable`.
        """
        ...

    async def renewed(self, principal: Principal) -> Principal:
        """Somebody who logged in here before, as they are known now: as they were, where nobody can be looked up.

        Raises `BadLogin` for an account that is not there any more or not to be used, `IdentityUnavailable`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """A browser was sent to a provider. What its answer is held against: `state`, the `nonce` of the ID token, the
    `verifier` of PKCE (RFC 7636), and `back`, where the provider was told to send the browser."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    back: str


class BrowserLogin(Protocol):
    """A provider that logs people in with their browser. Both may wait for it, a bounded time."""

    @property
    def name(self) -> str: ...

    async def begin(self, back: str) -> tuple[str, Begun]:
        """Where to send the browser, which the provider sends on to `back`. Raises `IdentityUnavailable`."""
        ...

    async def finish(self, begun: Begun, answer: Mapping[str, str]) -> Principal:
        """Who came back with `answer`, the parameters of that request. Raises `NotLoggedIn`, `IdentityUnavailable`."""
        ...

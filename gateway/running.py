"""What the gateway's own pages ask, answered by the generation that runs.

Knows: where in a generation each answer is. Must not know: pages, HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from secrets import token_bytes
from typing import Final

from gateway.call import ModelRef, Operation, Principal
from gateway.generation import Generation
from gateway.identity.contracts import BrowserLogin, Directory
from gateway.identity.groupsource import with_groups
from gateway.identity.tokens.own import Minted, NotMinted, OwnTokens, logins
from gateway.portal.services import Granted

# Who may do either with a model may use it, as far as a list for people goes.
_USES = (Operation.INFER, Operation.STREAM)

_SECRET_BYTES: Final = 32


class RunningServices:
    """Implements `portal.services.Services`. `now`: the generation to ask, anew each time."""

    def __init__(self, now: Callable[[], Generation]) -> None:
        self._now = now
        self._made = (token_bytes(_SECRET_BYTES),)

    @property
    def public_url(self) -> str:
        """Where callers reach the gateway, without a final slash."""
        return self._now().identities.public_url

    @property
    def directories(self) -> Sequence[Directory]:
        """Who takes names and passwords, in the order of the configuration."""
        return tuple(self._now().identities.directories.values())

    @property
    def logins(self) -> Sequence[BrowserLogin]:
        """Who logs people in with their browser, in the order of the configuration."""
        return self._now().identities.browser_logins

    @property
    def secrets(self) -> Sequence[bytes]:
        """What cookies are sealed with: what follows from the keys of tokens, else what was made at the start."""
        own = self._now().identities.own
        return self._made if own is None else own.secrets

    def still(self, principal: Principal) -> bool:
        """False once this person is revoked, or the provider that vouched for them logs nobody in here any more."""
        source = self._now().source
        if source.listed.revoked is not None and source.listed.revoked.why(principal):
            return False
        return logins(source.settings).get(principal.issuer) == principal.provider

    async def renewed(self, principal: Principal) -> Principal:
        """As the directory that knows them, or their groups, has them now. Raises `BadLogin`, `IdentityUnavailable`."""
        now = self._now()
        directories = {directory.name: directory for directory in now.identities.directories.values()}
        if principal.issuer == f"ldap:{principal.provider}" and principal.provider in directories:
            return await directories[principal.provider].renewed(principal)
        for issuer in now.source.settings.oidc:
            if issuer.issuer == principal.issuer and issuer.groups_from is not None:
                return await with_groups(principal, directories[issuer.groups_from])
        return principal

    @property
    def mints(self) -> bool:
        """Whether there is a key to sign tokens with."""
        return self._now().identities.own is not None

    def mint(self, principal: Principal) -> Minted:
        """A token for somebody who just logged in. Raises `NotMinted`."""
        return self._own.mint(principal)

    def key_set(self) -> dict[str, object]:
        """The public keys of the gateway's tokens (RFC 7517)."""
        return self._own.key_set()

    def granted(self, principal: Principal, peer: str) -> Sequence[Granted]:
        """The models that this caller may run now from this address, in the order of the configuration."""
        now = self._now()
        principal = now.identities.narrowed(principal)
        holding = now.policy.holding(time.time(), peer)

        def uses(name: str) -> bool:
            return any(now.policy.may(principal, ModelRef(name, operation), holding) for operation in _USES)

        models = [
            Granted(model.name, model.aliases, pool.settings.protocols, pool.settings.prefix)
            for pool in now.pools
            for model in pool.settings.models
            if uses(model.name)
        ]
        return [*models, *_shared(now, uses)]

    @property
    def _own(self) -> OwnTokens:
        own = self._now().identities.own
        if own is None:  # a reload took the key away while a page was being made
            raise NotMinted("The gateway issues no tokens any more.")
        return own


def _shared(now: Generation, uses: Callable[[str], bool]) -> Iterator[Granted]:
    """The names that models share, where somebody may use one of those."""
    for face in now.catalogue.faces:
        protocols: dict[str, list[str]] = {}
        for protocol, named in face.shared.items():
            for shared in named.values():
                if any(uses(model.name) for model, _ in shared.models):
                    protocols.setdefault(shared.name, []).append(protocol)
        yield from (Granted(name, (), tuple(spoken), face.prefix) for name, spoken in protocols.items())

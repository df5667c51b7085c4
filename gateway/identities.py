"""Everybody who can say who calls, built from the settings.

Knows: the order in which identities are asked. Must not know: how each is built, policies, pools, doors, the pages.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from gateway import providers, tls
from gateway.address import own_urls, public_url
from gateway.identity.apikeys.apikey import PROVIDER as API_KEYS
from gateway.identity.apikeys.apikey import ApiKeys
from gateway.identity.contracts import BrowserLogin, Provider, Standing
from gateway.identity.first import FirstOf
from gateway.identity.groupsource import GroupSource
from gateway.identity.mtls import PROVIDER as MTLS
from gateway.identity.narrowed import GroupsAllowed, Narrowing
from gateway.identity.passwords.login import BasicIdentity
from gateway.identity.provider.introspection import Introspector
from gateway.identity.provider.keys import KeySet
from gateway.identity.refused import BASIC_CHALLENGE, CHALLENGE
from gateway.identity.tokens.active import ActiveBearer
from gateway.identity.tokens.dpop import Proofs, Seen
from gateway.identity.tokens.identity import BearerIdentity
from gateway.identity.tokens.oidc import OidcBearer
from gateway.identity.tokens.own import OwnTokens, logins
from gateway.identity.tokens.possession import Possession
from gateway.identity.tokens.supplied import GroupsSupplied, OpaqueGroupsSupplied
from gateway.identity.tokens.vouching import Opaque, Voucher
from gateway.listed import Listed
from gateway.providers import Around, Directories
from gateway.seams import Identity
from gateway.settings import OidcIssuer, Settings


@dataclass(frozen=True, slots=True)
class Identities:
    """`key_sets` by issuer; those whose settings did not change are carried over with their keys, and so are the proofs
    that were `seen`. `own`: the gateway's tokens, where it has a key for them. `narrowed`: who logged in earlier, with
    the groups that count today. `providers`: whom the gateway depends on to know callers; `asks_nobody`: some need
    none. `public_url`: where callers reach the gateway, if anybody can log in there."""

    first_of: FirstOf
    bearer: BearerIdentity
    key_sets: Mapping[OidcIssuer, KeySet]
    directories: Directories
    introspectors: Mapping[OidcIssuer, Introspector]
    providers: tuple[Provider, ...]
    seen: Seen
    own: OwnTokens | None
    narrowed: Narrowing
    browser_logins: tuple[BrowserLogin, ...]
    public_url: str
    asks_nobody: bool

    @property
    def background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """What has to run beside the calls, by name; the same name is the same part, across reloads."""
        return {
            **{f"keys {keys.name} {id(keys)}": keys.run for keys in self.key_sets.values()},
            **{f"introspection {one.name} {id(one)}": one.run for one in self.introspectors.values()},
            **{f"directory {one.name} {id(one)}": one.run for one in self.directories.values()},
        }

    def standings(self) -> tuple[Standing, ...]:
        """How each of the providers does."""
        return tuple(provider.standing() for provider in self.providers)

    def ready(self) -> bool:
        """True while somebody could be identified; keys and certificates ask nobody."""
        return self.asks_nobody or any(standing.ready for standing in self.standings())

    def cache_entries(self) -> dict[str, int]:
        """How much is remembered of what callers showed."""
        return {
            "tokens": self.bearer.entries,
            "proofs": len(self.seen),
            "logins": sum(directory.entries for directory in self.directories.values()),
        }

    def close(self, after: Identities | None = None) -> None:
        """Hang up on directories, but for those that serve on in `after`."""
        kept = set(map(id, after.directories.values())) if after else set()
        for directory in self.directories.values():
            if id(directory) not in kept:
                directory.close()


def names(settings: Settings) -> set[str]:
    """What providers are called in policies."""
    configured = {issuer.name for issuer in settings.oidc} | {directory.name for directory in settings.ldap}
    more = ((API_KEYS, settings.api_keys), (MTLS, settings.mtls))
    return configured | {name for name, part in more if part is not None}


def build(settings: Settings, listed: Listed, around: Around, previous: Identities | None) -> Identities:
    """The identities of the next generation. Leaves `previous` alone. Raises `ValueError`, `TlsError` or `OSError`."""
    key_sets = providers.key_sets(settings, around, previous.key_sets if previous else {})
    introspectors = providers.introspectors(settings, around)
    directories = providers.directories(settings, around, previous.directories if previous else {})
    hosts = tls.host_names(settings.listen.tls.certificate)
    url = public_url(settings.listen, hosts) if logins(settings) else ""
    narrowed = GroupsAllowed(settings)
    own = providers.own_tokens(settings, url, narrowed)
    seen = previous.seen if previous else Seen()
    vouchers = _vouchers(settings, key_sets, introspectors)
    by_name = {directory.name: directory for directory in directories.values()}
    bearer = BearerIdentity(
        [*(_supplied(issuer, one, by_name) for issuer, one in vouchers.items()), *([] if own is None else [own])],
        time.time,
        around.count,
        possession=Possession(Proofs(seen, time.time, own_urls(settings.listen, hosts))),
        opaque=_opaque(vouchers, by_name),
    )
    asked: list[Identity] = [
        bearer,
        BasicIdentity(list(directories.values()), time.monotonic, around.count),
        *providers.certificates(settings, around, by_name),
    ]
    if settings.api_keys is not None:
        asked.insert(0, ApiKeys(listed.keys, time.time, around.count, around.key_used))
    challenges = [CHALLENGE, *([BASIC_CHALLENGE] if settings.ldap else [])]
    return Identities(
        first_of=FirstOf(asked, challenges, listed.revoked, around.count, _needed(settings)),
        bearer=bearer,
        key_sets=key_sets,
        directories=directories,
        introspectors=introspectors,
        providers=(*vouchers.values(), *directories.values()),
        seen=seen,
        own=own,
        narrowed=narrowed,
        browser_logins=tuple(providers.browser_logins(key_sets, around, by_name)),
        public_url=url,
        asks_nobody=settings.api_keys is not None or settings.mtls is not None,
    )


def _needed(settings: Settings) -> str:
    """What a caller without a credential may send, in words."""
    ways = ["'Authorization: Bearer <token>'"] if settings.oidc or settings.tokens else []
    ways += ["'x-api-key: <key>'"] if settings.api_keys else []
    ways += ["a name and password (HTTP Basic)"] if settings.ldap else []
    ways += ["a client certificate"] if settings.mtls else []
    return f"A credential is needed: send {' or '.join(ways)}."


_Vouchers = dict[OidcIssuer, OidcBearer | ActiveBearer]


def _vouchers(
    settings: Settings, key_sets: Mapping[OidcIssuer, KeySet], introspectors: Mapping[OidcIssuer, Introspector]
) -> _Vouchers:
    made: _Vouchers = {}
    for issuer in settings.oidc:
        signed = None if issuer.verify == "introspect" else OidcBearer(issuer, key_sets[issuer], time.time)
        asked = introspectors.get(issuer)
        if asked is not None:
            made[issuer] = ActiveBearer(issuer, asked, time.time, time.monotonic, signed=signed)
        elif signed is not None:
            made[issuer] = signed
    return made


def _supplied(issuer: OidcIssuer, voucher: Voucher, directories: Mapping[str, GroupSource]) -> Voucher:
    """With the groups of a directory, where the issuer's settings say so."""
    return GroupsSupplied(voucher, directories[issuer.groups_from], time.time) if issuer.groups_from else voucher


def _opaque(vouchers: _Vouchers, directories: Mapping[str, GroupSource]) -> Opaque | None:
    """The one provider that is asked about tokens that say nothing of themselves."""
    for issuer, one in vouchers.items():
        if issuer.verify == "introspect" and isinstance(one, ActiveBearer):
            source = issuer.groups_from
            return OpaqueGroupsSupplied(one, directories[source], time.time) if source else one
    return None

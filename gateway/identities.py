"""Everybody who can say who calls, built from the settings.

Knows: constructors, and the order in which identities are asked. Must not know: policies, pools, doors, the pages.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from gateway import tls
from gateway.fetch import Fetch
from gateway.identity import FirstOf, signing
from gateway.identity.active import ActiveBearer
from gateway.identity.dpop import Proofs, Seen
from gateway.identity.introspection import Introspector
from gateway.identity.keys import KeySet
from gateway.identity.ldap.directory import LdapDirectory
from gateway.identity.login import BasicIdentity
from gateway.identity.oidc import OidcBearer
from gateway.identity.own import OwnTokens, logins
from gateway.identity.possession import Possession
from gateway.identity.providers import Provider, Standing
from gateway.identity.refused import BASIC_CHALLENGE, CHALLENGE
from gateway.identity.throttle import Throttle
from gateway.identity.tokens import BearerIdentity
from gateway.portal.address import public_url
from gateway.seams import Identity
from gateway.settings import ClientTls, Ldap, OidcIssuer, Settings

#: Names of providers that no entry of the configuration gives; policies may speak of those that are configured.
API_KEYS, MTLS = "api_keys", "mtls"


@dataclass(frozen=True, slots=True)
class Around:
    """What identities need of the running gateway. `count` gets a provider's name and a `Result` for each credential
    that was looked at; `spawn` runs a task."""

    fetch: Fetch
    count: Callable[[str, str], None]
    throttle: Throttle
    spawn: Callable[[Coroutine[Any, Any, None]], object]


#: A directory lives as long as its settings, and what its file of authorities holds, stay equal.
_Directories = Mapping[tuple[Ldap, bytes], LdapDirectory]


@dataclass(frozen=True, slots=True)
class Identities:
    """`key_sets` by issuer; those whose settings did not change are carried over with their keys, and so are the proofs
    that were `seen`. `own`: the gateway's tokens, where it has a key for them. `providers`: whom the gateway depends on
    to know callers."""

    first_of: FirstOf
    bearer: BearerIdentity
    key_sets: Mapping[OidcIssuer, KeySet]
    directories: _Directories
    introspectors: Mapping[OidcIssuer, Introspector]
    providers: tuple[Provider, ...]
    seen: Seen
    own: OwnTokens | None = None

    @property
    def background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """What has to run beside the calls, by name; the same name is the same part, across reloads."""
        return {
            **{f"keys {keys.name} {id(keys)}": keys.run for keys in self.key_sets.values()},
            **{f"directory {one.name} {id(one)}": one.run for one in self.directories.values()},
        }

    def standings(self) -> tuple[Standing, ...]:
        """How each of the providers does."""
        return tuple(provider.standing() for provider in self.providers)

    def ready(self) -> bool:
        """True while somebody could be identified; keys and certificates ask nobody."""
        standings = self.standings()
        return not standings or any(standing.ready for standing in standings)

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


def build(settings: Settings, around: Around, previous: Identities | None) -> Identities:
    """The identities of the next generation. Leaves `previous` alone. Raises `ValueError`, `TlsError` or `OSError`."""
    key_sets = _key_sets(settings, around.fetch, previous)
    signed = {issuer: OidcBearer(issuer, keys, time.time) for issuer, keys in key_sets.items()}
    introspectors = {issuer: _introspector(issuer, around) for issuer in settings.oidc if issuer.verify != "jwt"}
    active = {
        issuer: ActiveBearer(issuer, introspector, time.time, time.monotonic, signed=signed.get(issuer))
        for issuer, introspector in introspectors.items()
    }
    own = _own_tokens(settings)
    seen = previous.seen if previous else Seen()
    vouchers: dict[OidcIssuer, OidcBearer | ActiveBearer] = {**signed, **active}
    bearer = BearerIdentity(
        [*vouchers.values(), *([] if own is None else [own])],
        time.time,
        around.count,
        possession=Possession(Proofs(seen, time.time, settings.listen.public_url)),
        opaque=next((one for issuer, one in active.items() if issuer.verify == "introspect"), None),
    )
    directories = _directories(settings, around, previous)
    basic = BasicIdentity(list(directories.values()), time.monotonic, around.count)
    asked: list[Identity] = [bearer, basic]
    challenges = [CHALLENGE, *([BASIC_CHALLENGE] if settings.ldap else [])]
    providers = (*vouchers.values(), *directories.values())
    return Identities(FirstOf(asked, challenges), bearer, key_sets, directories, introspectors, providers, seen, own)


def _introspector(issuer: OidcIssuer, around: Around) -> Introspector:
    file = issuer.introspection.private_key if issuer.introspection else None
    key = None if file is None else file.read_bytes()
    return Introspector(issuer, key, around.fetch, around.spawn, time.monotonic, tls=_trust(issuer))


def _trust(issuer: OidcIssuer) -> ssl.SSLContext | None:
    return tls.client_context(ClientTls(ca=issuer.ca)) if issuer.ca else None


def _own_tokens(settings: Settings) -> OwnTokens | None:
    """Raises `ValueError` or `TlsError`."""
    tokens, listen = settings.tokens, settings.listen
    if tokens is None:
        return None
    url = public_url(listen, tls.host_names(listen.tls.certificate))
    return OwnTokens(signing.read(tokens.key), url, tokens.lifetime, logins(settings), time.time)


def _directories(settings: Settings, around: Around, previous: Identities | None) -> _Directories:
    before = previous.directories if previous else {}
    directories: dict[tuple[Ldap, bytes], LdapDirectory] = {}
    for one in settings.ldap:
        key = (one, one.ca.read_bytes() if one.ca else b"")
        if (directory := before.get(key)) is None:
            context = tls.client_context(ClientTls(ca=one.ca), protocols=())
            directory = LdapDirectory(one, context, around.count, around.throttle.logins(one.name))
        directories[key] = directory
    return directories


def _key_sets(settings: Settings, fetch: Fetch, previous: Identities | None) -> dict[OidcIssuer, KeySet]:
    """A key set whose issuer's settings changed starts from the keys of the one before, where those still hold."""
    before = dict(previous.key_sets) if previous else {}
    by_name = {issuer.name: keys for issuer, keys in before.items()}
    key_sets: dict[OidcIssuer, KeySet] = {}
    for issuer in (issuer for issuer in settings.oidc if issuer.verify != "introspect"):
        keys = before.get(issuer)
        if keys is None:
            keys = KeySet(issuer, fetch, time.monotonic, tls=_trust(issuer))
            if issuer.name in by_name:
                keys.adopt(by_name[issuer.name])
        key_sets[issuer] = keys
    return key_sets

"""Each kind of provider of identities, built from its settings; what did not change is carried over with what it knows.

Knows: constructors. Must not know: in which order identities are asked, policies, pools, doors, pages.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway import tls
from gateway.fetch import Fetch
from gateway.identity.browser.codeflow import Around as AroundLogin
from gateway.identity.browser.codeflow import CodeFlow
from gateway.identity.contracts import BrowserLogin
from gateway.identity.groupsource import GroupSource
from gateway.identity.ldap.directory import LdapDirectory
from gateway.identity.mtls import CertificateIdentity
from gateway.identity.narrowed import Narrowing
from gateway.identity.passwords.throttle import Throttle
from gateway.identity.provider.introspection import Introspector
from gateway.identity.provider.keys import KeySet
from gateway.identity.provider.oauth import Client
from gateway.identity.signatures import signing
from gateway.identity.tokens.own import OwnTokens, logins
from gateway.settings import ClientTls, Ldap, OidcIssuer, Settings


@dataclass(frozen=True, slots=True)
class Around:
    """What identities need of the running gateway. `count` gets a provider's name and a `Result` for each credential
    that was looked at, `key_used` the id of an API key that held, and when (UNIX seconds); `spawn` starts a task that
    has a parent."""

    fetch: Fetch
    count: Callable[[str, str], None]
    key_used: Callable[[str, float], None]
    throttle: Throttle
    spawn: Callable[[Coroutine[Any, Any, None]], object]


#: A directory lives as long as its settings, and what its file of authorities holds, stay equal.
Directories = Mapping[tuple[Ldap, bytes], LdapDirectory]


def key_sets(settings: Settings, around: Around, before: Mapping[OidcIssuer, KeySet]) -> dict[OidcIssuer, KeySet]:
    """Of the issuers whose tokens are checked by their signature, or in whose name people log in.

    One whose issuer's settings changed starts from the keys of the one before, where those still hold.
    """
    by_name = {issuer.name: keys for issuer, keys in before.items()}
    made: dict[OidcIssuer, KeySet] = {}
    for issuer in settings.oidc:
        if issuer.verify == "introspect" and issuer.login is None:
            continue
        keys = before.get(issuer)
        if keys is None:
            keys = KeySet(issuer, around.fetch, time.monotonic, tls=_trust(issuer))
            if issuer.name in by_name:
                keys.adopt(by_name[issuer.name])
        made[issuer] = keys
    return made


def introspectors(settings: Settings, around: Around) -> dict[OidcIssuer, Introspector]:
    """Of the issuers that are asked about tokens. Raises `OSError` or `ValueError`."""
    return {issuer: _introspector(issuer, around) for issuer in settings.oidc if issuer.verify != "jwt"}


def _introspector(issuer: OidcIssuer, around: Around) -> Introspector:
    file = issuer.introspection.private_key if issuer.introspection else None
    key = None if file is None else file.read_bytes()
    return Introspector(issuer, key, around.fetch, around.spawn, time.monotonic, tls=_trust(issuer))


def directories(settings: Settings, around: Around, before: Directories) -> Directories:
    """In the order of the configuration. Raises `TlsError` or `OSError`."""
    made: dict[tuple[Ldap, bytes], LdapDirectory] = {}
    for one in settings.ldap:
        key = (one, one.ca.read_bytes() if one.ca else b"")
        if (directory := before.get(key)) is None:
            context = tls.client_context(ClientTls(ca=one.ca), protocols=())
            directory = LdapDirectory(one, context, around.count, around.throttle.logins(one.name))
        made[key] = directory
    return made


def certificates(settings: Settings, around: Around, known: Mapping[str, GroupSource]) -> Iterator[CertificateIdentity]:
    """Callers known by their certificate, if anybody is. Raises `ValueError`."""
    mtls = settings.mtls
    if mtls is not None:
        if mtls.groups_from is not None and mtls.groups_from not in known:
            raise ValueError(f"identity.mtls: groups_from: no directory is called '{mtls.groups_from}'")
        groups = known[mtls.groups_from] if mtls.groups_from else None
        yield CertificateIdentity(mtls, groups, time.time, time.monotonic, around.count)


def own_tokens(settings: Settings, url: str, narrowed: Narrowing) -> OwnTokens | None:
    """The tokens that the gateway at this URL issues, if it has a key for them. Raises `ValueError`."""
    tokens = settings.tokens
    if tokens is None:
        return None
    return OwnTokens(signing.read(tokens.key), url, tokens.lifetime, logins(settings), time.time, narrowed)


def browser_logins(
    keys_of: Mapping[OidcIssuer, KeySet], around: Around, known: Mapping[str, GroupSource]
) -> Iterator[BrowserLogin]:
    """Of the issuers that have one. Raises `ValueError`, `TlsError` or `OSError`."""
    for issuer, keys in keys_of.items():
        login = issuer.login
        if login is not None:
            client = Client(login, login.private_key.read_bytes() if login.private_key else None)
            needs = AroundLogin(around.fetch, around.count, _trust(issuer), _groups(issuer, known))
            yield CodeFlow(issuer, login, client, keys, needs)


def _groups(issuer: OidcIssuer, known: Mapping[str, GroupSource]) -> GroupSource | None:
    """Who knows the groups of this provider's people, if not its tokens. Raises `ValueError`."""
    if issuer.groups_from is None:
        return None
    if issuer.groups_from not in known:
        raise ValueError(f"provider {issuer.name}: groups_from: no directory is called '{issuer.groups_from}'")
    return known[issuer.groups_from]


def _trust(issuer: OidcIssuer) -> ssl.SSLContext | None:
    return tls.client_context(ClientTls(ca=issuer.ca)) if issuer.ca else None

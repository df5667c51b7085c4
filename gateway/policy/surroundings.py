"""From the settings to what rules have to fit.

Knows: settings, which groups each kind of provider can give. Must not know: rules, findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.globs import compile_glob
from gateway.identity.apikeys.apikey import PROVIDER as API_KEYS
from gateway.identity.mtls import PROVIDER as MTLS
from gateway.policy.fitting import Configured, Giver, Surroundings
from gateway.settings import Ldap, OidcIssuer, Settings


def surroundings(settings: Settings, key_groups: Iterable[str] | None, file: str = "") -> Surroundings:
    """What is configured in `file`. `key_groups`: those of all API keys; None: nobody knows which keys there are."""
    givers: dict[str, Giver | None] = {directory.name: _directory(directory) for directory in settings.ldap}
    for issuer in settings.oidc:
        givers[issuer.name] = givers.get(issuer.groups_from) if issuer.groups_from else _named(issuer)
    if settings.api_keys is not None:
        givers[API_KEYS] = None if key_groups is None else Giver(frozenset(key_groups))
    if settings.mtls is not None:
        source = settings.mtls.groups_from
        givers[MTLS] = givers.get(source) if source else Giver()
    shared = {alias.name: tuple(target.model for target in alias.targets) for alias in settings.aliases}
    return Surroundings(file, tuple(_models(settings)), givers, shared)


def _models(settings: Settings) -> Iterator[Configured]:
    for pool in settings.pools:
        for model in pool.models:
            yield Configured(model.name, model.aliases, pool.name, pool.protocols)


def _directory(directory: Ldap) -> Giver:
    return Giver() if directory.groups is None else _named(directory)


def _named(provider: OidcIssuer | Ldap) -> Giver:
    """As `identity.names.GroupNames` names them: prefix, renaming, then what is allowed."""
    allowed = [compile_glob(pattern) for pattern in provider.groups_allowed]
    renamed = dict(provider.group_map)
    given = {name for old, name in renamed.items() if old.startswith(provider.group_prefix)}
    return Giver(
        groups=frozenset(name for name in given if any(matches(name) for matches in allowed)),
        prefix=provider.group_prefix,
        allowed=provider.groups_allowed,
        renamed=frozenset(renamed),
    )

"""The configuration file as it is written: the settings, plus where they stand and what is known but not built yet.

Knows: which settings the file groups in another way than `settings.py`. Must not know: YAML, files on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway import settings
from gateway.config.values import NotBuilt, Workers


@dataclass(frozen=True, slots=True)
class Identity:
    oidc: tuple[settings.OidcIssuer, ...] = ()
    ldap: tuple[settings.Ldap, ...] = ()
    api_keys: settings.ApiKeys | None = None
    tokens: settings.Tokens | None = None
    mtls: settings.Mtls | None = None
    revoked: settings.Revoked | None = None


@dataclass(frozen=True, slots=True)
class Backend(settings.BackendAddress):
    grpc: NotBuilt = None


@dataclass(frozen=True, slots=True)
class Pool(settings.Pool):
    backends: tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class File:
    """The whole file."""

    listen: settings.Listen
    identity: Identity
    policies: settings.Policies
    pools: tuple[Pool, ...]
    management: settings.Management = field(default_factory=settings.Management)
    aliases: tuple[settings.Alias, ...] = ()
    workers: Workers = "auto"
    hide_models: bool = False
    limits: settings.Limits = field(default_factory=settings.Limits)
    audit: settings.Audit = field(default_factory=settings.Audit)

"""What the configuration says, as frozen values; sizes in bytes, times in seconds. `config/` reads files into these.

Knows: names, units, defaults. Must not know: YAML, files on disk, how anything is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from gateway.config.values import (
    SIGNATURES,
    Affix,
    Algorithm,
    Balance,
    Bytes,
    ClaimPath,
    FilePath,
    HeaderName,
    HeaderValue,
    Host,
    ModelName,
    Name,
    Net,
    OpenPath,
    Places,
    Port,
    Prefix,
    Protocol,
    Renames,
    Seconds,
    Strikes,
    Text,
    Url,
    UrlPath,
    Wait,
    Weight,
)

Network = IPv4Network | IPv6Network

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ServerTls:
    certificate: FilePath
    key: FilePath


@dataclass(frozen=True, slots=True)
class Listen:
    tls: ServerTls
    address: Host = "0.0.0.0"  # noqa: S104  an edge service listens everywhere unless told otherwise
    port: Port = 8443
    trusted_proxies: tuple[Net, ...] = ()
    max_body: Bytes = 64 * MIB


@dataclass(frozen=True, slots=True)
class Management:
    address: Host = "127.0.0.1"
    port: Port = 9090


@dataclass(frozen=True, slots=True)
class Claims:
    """Where a token carries what: a dotted path, already split."""

    subject: ClaimPath = ("sub",)
    groups: ClaimPath = ("groups",)
    scopes: ClaimPath = ("scope",)


ALGORITHMS = SIGNATURES


@dataclass(frozen=True, slots=True)
class OidcIssuer:
    """One OpenID provider whose access tokens are believed. `stale` bounds how long keys serve without a refresh.

    `jwks_uri` None: found by discovery, and `issuer` is a URL then.
    """

    name: Name
    issuer: Text
    audience: tuple[Text, ...]
    jwks_uri: Url | None = None
    algorithms: tuple[Algorithm, ...] = ALGORITHMS
    claims: Claims = Claims()
    require: Renames = ()
    leeway: Seconds = 60.0
    group_prefix: Affix = ""
    group_map: Renames = ()
    groups_allowed: tuple[Text, ...] = ("**",)
    allow_insecure: bool = False
    ca: FilePath | None = None
    refresh: Wait = 600.0
    cooldown: Wait = 30.0
    stale: Wait = 86400.0


@dataclass(frozen=True, slots=True)
class Model:
    """`backend_name` is what the backend calls it, where that differs from `name`."""

    name: ModelName
    aliases: tuple[ModelName, ...] = ()
    backend_name: ModelName = ""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How a backend's certificate is checked; `ca` None: the system's authorities."""

    ca: FilePath | None = None
    server_name: Host | None = None


@dataclass(frozen=True, slots=True)
class BackendAddress:
    url: Url
    weight: Weight = 1
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    """A header added for calls, probes and scrapes alike; the secret is read when the configuration is."""

    header: HeaderName
    value: HeaderValue = field(repr=False)


@dataclass(frozen=True, slots=True)
class HealthCheck:
    path: UrlPath = ""
    interval: Wait = 5.0
    timeout: Wait = 2.0
    fall: Strikes = 3
    rise: Strikes = 2


@dataclass(frozen=True, slots=True)
class Pool:
    name: Name
    protocols: tuple[Protocol, ...]
    models: tuple[Model, ...]
    backends: tuple[BackendAddress, ...]
    balance: Balance = "round_robin"
    credential: Credential | None = None
    health: HealthCheck = HealthCheck()
    max_body: Bytes | None = None
    prefix: Prefix = ""
    open: tuple[OpenPath, ...] = ()
    identity_headers: bool = False
    first_byte: Wait | None = None
    idle: Wait | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    header: Wait = 10.0
    connect: Wait = 2.0
    first_byte: Wait = 120.0
    idle: Wait = 60.0
    write: Wait = 60.0
    keep_alive: Wait = 75.0
    pre_stop: Seconds = 5.0
    drain: Seconds = 300.0


@dataclass(frozen=True, slots=True)
class Limits:
    header: Bytes = 32 * KIB
    connections: Places = 10_000
    bodies: Bytes = 1024 * MIB
    timeouts: Timeouts = Timeouts()


@dataclass(frozen=True, slots=True)
class Audit:
    """`-` is standard output."""

    file: Text = "-"


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration file."""

    listen: Listen
    oidc: tuple[OidcIssuer, ...]
    policies: FilePath
    pools: tuple[Pool, ...]
    management: Management = Management()
    hide_models: bool = False
    limits: Limits = Limits()
    audit: Audit = Audit()

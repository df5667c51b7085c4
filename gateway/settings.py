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
    CacheSalt,
    ClaimPath,
    FilePath,
    HeaderName,
    HeaderValue,
    Host,
    Kept,
    LdapAttribute,
    LdapFilter,
    LdapUrl,
    ModelName,
    Name,
    Net,
    OnFull,
    OpenPath,
    Origin,
    Places,
    Port,
    Prefix,
    Protocol,
    Renames,
    Seconds,
    Secret,
    Share,
    Strikes,
    Text,
    Threads,
    Url,
    UrlPath,
    Verify,
    Wait,
    Weight,
    WhenAsked,
    WhenSynced,
    WhichName,
)

Network = IPv4Network | IPv6Network

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ServerTls:
    """`client_ca`: who vouches for clients' certificates; None asks for none. `client_certificate`: may or must be."""

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None
    client_certificate: WhenAsked = "optional"


@dataclass(frozen=True, slots=True)
class Listen:
    tls: ServerTls
    address: Host = "0.0.0.0"  # noqa: S104  an edge service listens everywhere unless told otherwise
    port: Port = 8443
    trusted_proxies: tuple[Net, ...] = ()
    max_body: Bytes = 64 * MIB
    public_url: Origin | None = None


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
class OAuthClient:
    """How the gateway proves who it is to a provider: by a secret (RFC 6749 section 2.3.1), or by a key (RFC 7523)."""

    client_id: Text
    client_secret: Secret | None = field(default=None, repr=False)
    private_key: FilePath | None = None


@dataclass(frozen=True, slots=True)
class Introspection(OAuthClient):
    """Asking the provider about a token (RFC 7662). `endpoint` None: found by discovery."""

    endpoint: Url | None = None
    positive: Wait = 60.0
    negative: Wait = 10.0


@dataclass(frozen=True, slots=True)
class Login(OAuthClient):
    """Logging people in with a browser (OpenID Connect, authorization code with PKCE)."""

    scopes: tuple[Text, ...] = ("openid",)


@dataclass(frozen=True, slots=True)
class OidcIssuer:
    """One OpenID provider whose access tokens are believed. `stale` bounds how long keys serve without a refresh.

    `jwks_uri` None: found by discovery, and `issuer` is a URL then. `discovery_token`: sent with each fetch, for a
    Kubernetes API server. `groups_from`: the directory that knows the groups, by subject; else the token does.
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
    verify: Verify = "jwt"
    introspection: Introspection | None = None
    groups_from: Name | None = None
    login: Login | None = None
    discovery_token: Secret | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class LdapBind:
    """The gateway's own account in a directory."""

    dn: Text
    password: Secret = field(repr=False)


@dataclass(frozen=True, slots=True)
class LdapUsers:
    """How people are found: searched under `base` with `filter`, or bound at once by `dn_template` (a distinguished
    name, or `{username}@domain`). `{username}` is what was typed, escaped. `subject`: the attribute that names them."""

    base: Affix = ""
    filter: LdapFilter = "(uid={username})"
    subject: LdapAttribute = "uid"
    dn_template: Affix = ""


@dataclass(frozen=True, slots=True)
class LdapGroups:
    """How groups are found: searched with `filter` (`{dn}`: the member), or read from `attribute` of the person.

    `name`: the attribute that names a group. `nested`: groups of groups count too.
    """

    base: Affix = ""
    filter: LdapFilter = "(member={dn})"
    name: LdapAttribute = "cn"
    nested: bool = False
    attribute: LdapAttribute | None = None


@dataclass(frozen=True, slots=True)
class LdapCache:
    """How long a pair of name and password that held, or did not, is remembered."""

    positive: Seconds = 300.0
    negative: Seconds = 10.0


@dataclass(frozen=True, slots=True)
class Ldap:
    """One directory, reached by any of `servers` (the first that answers). `timeout` bounds a whole login.

    `connections`: logins under way at once, each in a thread, and as many look-ups.
    """

    name: Name
    servers: tuple[LdapUrl, ...]
    users: LdapUsers
    bind: LdapBind | None = None
    groups: LdapGroups | None = None
    start_tls: bool = False
    ca: FilePath | None = None
    allow_insecure: bool = False
    timeout: Wait = 5.0
    cache: LdapCache = LdapCache()
    connections: Threads = 16
    group_prefix: Affix = ""
    group_map: Renames = ()
    groups_allowed: tuple[Text, ...] = ("**",)


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """`file` holds digests of keys, never keys."""

    file: FilePath


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that the gateway issues itself. `key`: PEM; the first private key signs, all verify."""

    key: FilePath
    lifetime: Wait = 3600.0


@dataclass(frozen=True, slots=True)
class Mtls:
    """Callers known by their certificate. `subject`: which name of it is theirs."""

    subject: WhichName = "san_uri"
    groups_from: Name | None = None


@dataclass(frozen=True, slots=True)
class Revoked:
    """`file` lists tokens, subjects and keys that hold no more."""

    file: FilePath


@dataclass(frozen=True, slots=True)
class Model:
    """`backend_name` is what the backend calls it, where that differs from `name`.

    `fallback`: models that may serve its calls where it cannot, best first.
    """

    name: ModelName
    aliases: tuple[ModelName, ...] = ()
    backend_name: ModelName = ""
    fallback: tuple[ModelName, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A model behind a shared name, and its share of the callers: `weight` in the sum of them; 0 gets none."""

    model: ModelName
    weight: Share


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that several models share."""

    name: ModelName
    targets: tuple[Target, ...]


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
    """`cache_salt`: whose calls may find each other's prefixes in the caches of an engine; None: everybody's."""

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
    cache_salt: CacheSalt | None = None


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
    """`file`: `-` is standard output. `on_full`: what happens where there is no room for a line."""

    file: Text = "-"
    fsync: WhenSynced = "interval"
    on_full: OnFull = "drop"
    chain: bool = True


@dataclass(frozen=True, slots=True)
class Policies:
    """`enforce` decides. `shadow` is only tried on what comes. `history`: where the last `keep` policies are kept."""

    enforce: FilePath
    shadow: FilePath | None = None
    history: FilePath | None = None
    keep: Kept = 100


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration file."""

    listen: Listen
    policies: Policies
    pools: tuple[Pool, ...]
    oidc: tuple[OidcIssuer, ...] = ()
    ldap: tuple[Ldap, ...] = ()
    api_keys: ApiKeys | None = None
    tokens: Tokens | None = None
    mtls: Mtls | None = None
    revoked: Revoked | None = None
    management: Management = Management()
    aliases: tuple[Alias, ...] = ()
    hide_models: bool = False
    limits: Limits = Limits()
    audit: Audit = Audit()

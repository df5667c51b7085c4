"""What must hold between settings: names that stand twice, parts that do not go together.

Knows: which settings depend on each other. Must not know: files on disk, how anything is built.
A check looks only at what is well formed in itself; the types say the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gateway.config.askingchecks import discovery_tokens, introspection
from gateway.config.groupchecks import groups_from
from gateway.config.ldapchecks import directories
from gateway.config.part import Finding, Part
from gateway.config.routechecks import routes
from gateway.config.units import SIZES, duration, is_loopback, same_place, size, url
from gateway.config.values import BY_POOL
from gateway.globs import compile_glob
from gateway.resolve.likeness import Names, likenesses

# Where an empty list would leave nothing to do, and what one needs there.
NEEDED: Final[dict[tuple[str, ...], str]] = {
    ("pools",): "at least one pool is needed",
    ("pools", "*", "protocols"): "a pool speaks at least one protocol",
    ("pools", "*", "models"): "a pool serves at least one model",
    ("pools", "*", "backends"): "a pool has at least one backend",
    ("identity", "ldap", "*", "servers"): "a directory has at least one server",
    ("identity", "oidc", "*", "audience"): "at least one audience is needed: tokens for others would be taken",
    ("identity", "oidc", "*", "algorithms"): "at least one algorithm is needed; leave the setting out for the default",
}

# Lists in which no two items may be the same in one setting: where, which one, what it is.
UNIQUE: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (("pools", "*"), "name", "a pool"),
    (("identity", "oidc", "*"), "issuer", "a provider"),
)

# Seconds. Shorter ones have expired before they are pasted; longer ones outlast what a directory says meanwhile.
SHORTEST_TOKEN: Final = 1.0
LONGEST_TOKEN: Final = 86400.0

# What can tell who calls.
PROVIDERS: Final = ("oidc", "ldap", "api_keys", "mtls")

# Providers that no entry names, and what is counted where none is known (docs/identity.md).
RESERVED: Final = frozenset({"api_keys", "mtls", "tokens", "unknown"})

WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  nothing listens here, it is only compared


def findings(file: Part) -> Iterator[Finding]:
    """Everything that does not fit together in the file."""
    for check in CHECKS:
        yield from check(file)


def _empty(file: Part) -> Iterator[Finding]:
    for way, message in NEEDED.items():
        for part in file.at(*way):
            if part.value == []:
                yield Finding(part.path, message)


def _no_provider(file: Part) -> Iterator[Finding]:
    identity = file["identity"]
    if isinstance(identity.value, dict) and not any(identity[kind].value for kind in PROVIDERS):
        yield Finding(identity.path, f"at least one way to know callers is needed: {', '.join(PROVIDERS)}")


def _reserved(file: Part) -> Iterator[Finding]:
    """Names and issuers by which policies, lists of what was revoked, metrics and tokens know something else."""
    for provider in (*file["identity"]["oidc"], *file["identity"]["ldap"]):
        if provider["name"].text in RESERVED:
            yield Finding(
                provider["name"].path, "this name means something else to policies and metrics; choose another"
            )
    yield from _repeats(
        [provider["name"] for provider in (*file["identity"]["oidc"], *file["identity"]["ldap"])],
        "a provider with this name stands above already",
    )
    for provider in file["identity"]["oidc"]:
        issuer = provider["issuer"]
        if issuer.text in RESERVED or issuer.text.startswith("ldap:"):
            yield Finding(issuer.path, "this issuer means another kind of caller; no provider may call itself so")


def _twice(file: Part) -> Iterator[Finding]:
    for way, name, what in UNIQUE:
        seen: set[str] = set()
        for part in (item[name] for item in file.at(*way)):
            if part.text and part.text in seen:
                yield Finding(part.path, f"{what} with this {name} stands above already")
            seen.add(part.text)


def _listed_twice(file: Part) -> Iterator[Finding]:
    """A protocol or backend twice in one pool."""
    for pool in file["pools"]:
        yield from _repeats(pool["protocols"].texts(), "this protocol stands in the list already")
        urls = [backend["url"] for backend in pool["backends"]]
        yield from _repeats(urls, "this backend stands in the pool already; give it a weight instead", same_place)


def _repeats(parts: list[Part], message: str, key_of: Callable[[str], str] = str) -> Iterator[Finding]:
    seen: set[str] = set()
    for part in parts:
        key = key_of(part.text)
        if key and key in seen:
            yield Finding(part.path, message)
        seen.add(key)


def _models(file: Part) -> Iterator[Finding]:
    """A model name or alias twice for one protocol: a call could mean either."""
    owners: dict[tuple[str, str], str] = {}
    for number, pool in enumerate(file["pools"], 1):
        protocols = dict.fromkeys(part.text for part in pool["protocols"].texts())
        here = f"pool '{pool['name'].text}'" if pool["name"].text else f"pool number {number}"
        for name in _names(pool):
            clash = next((protocol for protocol in protocols if (protocol, name.text) in owners), None)
            if clash is not None:
                owner = owners[clash, name.text]
                yield Finding(name.path, f"'{name.text}' is a model or alias of {owner} already, for protocol {clash}")
            owners.update({(protocol, name.text): here for protocol in protocols})


def _names(pool: Part) -> Iterator[Part]:
    for model in pool["models"]:
        yield from (part for part in (model["name"], *model["aliases"].texts()) if part.text)


def _unlike(file: Part) -> Iterator[Finding]:
    """A model that another one's name leads to once a role or a speaker is put behind it."""
    for pool in file["pools"]:
        models = [model for model in pool["models"] if model["name"].text]
        names = [
            Names(model["name"].text, [alias.text for alias in model["aliases"].texts()], _sent(model).text)
            for model in models
        ]
        for found in likenesses([part.text for part in pool["protocols"].texts()], names):
            model, other = models[found.model], names[found.other].name
            at = model["name"] if model["name"].text == found.reached else _sent(model)
            rest = found.reached.removeprefix(found.stem)
            yield Finding(
                at.path,
                f"'{found.reached}' is also '{found.stem}' with '{rest}' behind it, which the grant "
                f"for model '{other}' covers; one of the two needs another name",
            )


def _sent(model: Part) -> Part:
    return model["backend_name"] if model["backend_name"].text else model["name"]


def _prefixes(file: Part) -> Iterator[Finding]:
    """Paths that name no model lead to the only pool of their protocol, or to that of their prefix."""
    pools = list(file["pools"])
    for protocol in sorted(BY_POOL):
        speakers = [pool for pool in pools if any(part.text == protocol for part in pool["protocols"].texts())]
        for pool in speakers if len(speakers) > 1 else ():
            if pool["prefix"].value is None or pool["prefix"].value == "":
                yield Finding(
                    (*pool.path, "protocols"),
                    f"several pools speak {protocol}, whose paths name no model: each needs a prefix, such as /name",
                )
    yield from _repeats([pool["prefix"] for pool in pools], "another pool stands under this prefix already")


def _sources_of_keys(file: Part) -> Iterator[Finding]:
    """Where keys come from by a URL: the issuer's own, unless another is given; then the issuer is only compared."""
    for provider in file["identity"]["oidc"]:
        issuer, given = provider["issuer"], provider["jwks_uri"]
        if provider["verify"].text == "introspect" and provider["introspection"]["endpoint"].text:
            continue  # nothing is looked up, neither keys nor whom to ask
        source, what = (given, "jwks_uri") if given.text else (issuer, "an issuer")
        if source is issuer and issuer.text:
            try:
                url(issuer.text)
            except ValueError as error:
                yield Finding(issuer.path, f"{error}; an issuer that is no URL needs a jwks_uri")
        plain = source.text.startswith("http://") and not is_loopback(source.text)
        if plain and provider["allow_insecure"].value is not True:
            yield Finding(
                source.path,
                f"{what} must be https://: whoever is in between could make tokens; "
                "http:// is taken on a loopback address, elsewhere only with allow_insecure: true",
            )


def _logins(file: Part) -> Iterator[Finding]:
    """Logging in with a browser: the provider has to be found, asked for an ID token, and know the gateway one way."""
    for provider in file["identity"]["oidc"]:
        login, issuer = provider["login"], provider["issuer"]
        if not isinstance(login.value, dict):
            continue
        safe = issuer.text.startswith("https://") or is_loopback(issuer.text)
        if issuer.text and not (safe or provider["allow_insecure"].value is True):
            yield Finding(
                login.path, "a login is found under the issuer, which must be https://; this one's is only a name"
            )
        if isinstance(login["scopes"].value, list) and "openid" not in [part.text for part in login["scopes"].texts()]:
            yield Finding(login["scopes"].path, "openid must be among the scopes: without it nobody is told who it is")
        if login["client_secret"].value is not None and login["private_key"].value is not None:
            yield Finding(login["private_key"].path, "give client_secret or private_key, not both")


def _group_patterns(file: Part) -> Iterator[Finding]:
    for provider in (*file["identity"]["oidc"], *file["identity"]["ldap"]):
        for pattern in provider["groups_allowed"].texts():
            try:
                compile_glob(pattern.text)
            except ValueError as error:
                yield Finding(pattern.path, str(error))


def _backend_tls(file: Part) -> Iterator[Finding]:
    for backend in file.at("pools", "*", "backends", "*"):
        if backend["tls"].value is not None and backend["url"].text.startswith("http://"):
            yield Finding(backend["tls"].path, "tls is for a https:// backend; this one is http://")


def _times(file: Part) -> Iterator[Finding]:
    for provider in file["identity"]["oidc"]:
        if provider["stale"].read(duration, 86400.0) < provider["refresh"].read(duration, 600.0):
            yield Finding(provider["stale"].path, "stale must not be shorter than refresh: keys would lapse in between")


def _tokens(file: Part) -> Iterator[Finding]:
    """The gateway's own tokens: for whom they would be, and how long they hold."""
    identity, tokens = file["identity"], file["identity"]["tokens"]
    lifetime = tokens["lifetime"]
    if not SHORTEST_TOKEN <= lifetime.read(duration, 3600.0) <= LONGEST_TOKEN:
        yield Finding(
            lifetime.path, "the lifetime of a token is from 1s to 24h: nothing but a revocation ends it before"
        )
    log_in = identity["ldap"].value or any(provider["login"].value for provider in identity["oidc"])
    if isinstance(tokens.value, dict) and not log_in:
        yield Finding(
            tokens.path, "tokens are for people who log in: an ldap directory or the login of an oidc is needed"
        )


def _client_certificates(file: Part) -> Iterator[Finding]:
    tls = file["listen"]["tls"]
    if tls["client_certificate"].value == "required" and tls["client_ca"].value is None:
        yield Finding(
            tls["client_certificate"].path,
            "required needs client_ca, which says who vouches for clients; without it none is asked for one",
        )


def _bodies(file: Part) -> Iterator[Finding]:
    bodies = file["limits"]["bodies"]
    if bodies.read(size, SIZES["GiB"]) < file["listen"]["max_body"].read(size, 64 * SIZES["MiB"]):
        yield Finding(bodies.path, "bodies must not be less than listen.max_body: the largest could never be read")


def _one_port(file: Part) -> Iterator[Finding]:
    listen, management = file["listen"], file["management"]
    ports = (listen["port"].value or 8443, management["port"].value or 9090)
    addresses = {listen["address"].text or "0.0.0.0", management["address"].text or "127.0.0.1"}  # noqa: S104
    if ports[0] == ports[1] and (len(addresses) == 1 or addresses & WILDCARDS):
        yield Finding((*management.path, "port"), "management cannot have the port of the clients")


CHECKS: Final[tuple[Callable[[Part], Iterator[Finding]], ...]] = (
    _empty,
    _no_provider,
    _reserved,
    _twice,
    _listed_twice,
    _models,
    _unlike,
    routes,
    _prefixes,
    _sources_of_keys,
    directories,
    groups_from,
    introspection,
    discovery_tokens,
    _logins,
    _group_patterns,
    _backend_tls,
    _times,
    _tokens,
    _client_certificates,
    _bodies,
    _one_port,
)

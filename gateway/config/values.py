"""The types of single settings: what may stand in the file for each, and what it becomes.

Knows: names of protocols, balancers, algorithms, models, headers. Must not know: any library, where a setting stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from gateway.config.units import (
    SIZE,
    TIME,
    Network,
    Reader,
    Written,
    duration,
    host,
    instant,
    matching,
    network,
    path,
    size,
    text_like,
    url,
    wait,
    whole,
)
from gateway.identity.names import NAME_LIMIT, plain

#: The rule sets of the route tables; `BY_POOL` are those with paths that name no model, so the pool must be plain.
PROTOCOLS: Final = (
    "openai",
    "anthropic",
    "nim-mgmt",
    "retriever",
    "speech-http",
    "generic-infer",
    "bio",
    "hosted",
    "kserve",
)
BY_POOL: Final = frozenset({"generic-infer", "speech-http", "bio"})
#: Those whose calls name their model in a JSON body, so that another one can be written in.
IN_BODY: Final = ("openai", "anthropic", "retriever")
BALANCES: Final = ("round_robin", "least_connections")
SIGNATURES: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")

CLAIM_STEPS: Final = 8  # a claim lies one or two levels deep
NOT_BUILT: Final = "not built yet; take this setting out"
OWN_HEADERS: Final = frozenset(  # RFC 9110 §7.6.1 and framing: the connection to the backend decides on these
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
HEADER_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}"
PREFIX: Final = re.compile(r"/[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
TAKEN_PREFIXES: Final = frozenset({"/v1", "/v2", "/auth", "/biology", "/health", "/metrics", "/ui"})


def one_of(what: str, words: Sequence[str]) -> Reader[str]:
    """A reader of one of `words`; `what` says what they are."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"unknown {what}; expected one of: {', '.join(words)}")
        return value

    return Reader(read, {"type": "string", "enum": list(words)})


def algorithm(value: Any) -> str:
    """An asymmetric signature algorithm (RFC 7518 §3.1, RFC 8037)."""
    word = value.upper() if isinstance(value, str) else ""
    if word.startswith("HS"):
        raise ValueError("HS algorithms are never taken: whoever can check such a token can also make one")
    if word == "NONE":
        raise ValueError("'none' is never taken: such a token is not signed")
    return one_of("algorithm", SIGNATURES)(value)


def claim(value: Any) -> tuple[str, ...]:
    """Where a claim lies: a dotted path, or a list of its steps where a name has a dot in it."""
    steps = value.split(".") if isinstance(value, str) else value
    if not isinstance(steps, list) or not 0 < len(steps) <= CLAIM_STEPS:
        raise ValueError("expected a dotted path such as realm_access.roles, or the list of its steps")
    if not all(isinstance(step, str) and step for step in steps):
        raise ValueError("each step of the path to a claim must be text and not empty")
    return tuple(steps)


def renames(value: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of old and new name, from a mapping."""
    if not isinstance(value, dict) or not all(isinstance(new, str) and new and old for old, new in value.items()):
        raise ValueError("expected a mapping from names to names, none of them empty")
    return tuple(value.items())


def header(value: Any) -> str:
    """The name of a header field (RFC 9110 §5.1) that may be added to a call."""
    name = matching(HEADER_NAME, "the name of a header field")(value)
    if name.lower() in OWN_HEADERS:
        raise ValueError("this header belongs to the connection and cannot carry a credential")
    return name


def prefix(value: Any) -> str:
    """One path segment under which the paths of a pool stand."""
    if not isinstance(value, str) or PREFIX.fullmatch(value) is None:
        raise ValueError("expected one path segment of letters, digits, '_' and '-', such as /studio-voice")
    if value in TAKEN_PREFIXES:
        raise ValueError("this prefix is the beginning of other paths; choose another")
    return value


def origin(value: Any) -> str:
    """The https:// URL of a host, at most with a port; a '/' may end it."""
    try:
        found = url(value)
    except ValueError:
        found = ""
    if re.fullmatch(r"https://[^/]*/?", found) is None:
        raise ValueError("expected https:// and a host, at most with a port, such as https://gw.example.com")
    return found


def not_built(value: Any) -> None:
    """Nothing: a part that does not exist yet must not seem to work."""
    if value is not None:
        raise ValueError(NOT_BUILT)


def ldap_filter(value: Any) -> str:
    """A search filter (RFC 4515) with `{username}` or `{dn}` in it; what is put there is escaped."""
    if not isinstance(value, str) or len(value) > 1024 or not value.startswith("(") or not value.endswith(")"):
        raise ValueError("expected a search filter in parentheses, such as (uid={username})")
    if value.count("(") != value.count(")"):
        raise ValueError("the parentheses of this filter do not match")
    return value


def label(value: Any) -> str:
    """A name that is compared with what callers show: exactly, so that a space too many must not be overlooked."""
    if not isinstance(value, str) or not plain(value):
        quote = "; put it in quotes" if isinstance(value, int | float) else ""
        raise ValueError(f"expected a name: text in one line, of 1 to {NAME_LIMIT} characters{quote}")
    if value != value.strip():
        raise ValueError("begins or ends with a space, and names are compared exactly")
    return value


def workers(value: Any) -> int | str:
    """How many processes serve."""
    if value == "auto":
        return "auto"
    if whole_or_none(value) is None:
        raise ValueError("expected auto or a whole number of workers")
    if value > 1:
        raise ValueError("more than one worker is not built yet; write auto or 1")
    return 1


def whole_or_none(value: Any) -> int | None:
    """A whole number above 0, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


# What editors show of values whose readers do more than match a pattern; docs/configuration.md says the rest.
SIZE_FORM: Final = text_like(SIZE.pattern, "a size: a whole number with KiB, MiB or GiB, such as 64MiB")
TIME_FORM: Final = text_like(TIME.pattern, "a time: a number with ms, s, m or h, such as 30s")
HOST_FORM: Final = text_like(r"[A-Za-z0-9_.:-]+(?:%.+)?", "an address or host name, without port")
PATH_FORM: Final = {"type": "string", "minLength": 1}
NETWORK_FORM: Final = text_like(r"[0-9A-Fa-f:.]+(?:%[^/]*)?(?:/[0-9.]+)?", "a network such as 10.20.0.0/16")
URL_FORM: Final = text_like(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?", "http:// or https:// with a host")
CLAIM_FORM: Final = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": CLAIM_STEPS},
    ]
}
RENAMES_FORM: Final = {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}

Bytes = Annotated[int, Written(size, SIZE_FORM)]
Seconds = Annotated[float, Written(duration, TIME_FORM)]
Wait = Annotated[float, Written(wait, TIME_FORM)]
Instant = Annotated[float, Written(instant)]
Port = Annotated[int, Written(whole(1, 65535))]
Places = Annotated[int, Written(whole(1, 1_000_000))]
Threads = Annotated[int, Written(whole(1, 256))]
Kept = Annotated[int, Written(whole(1, 10_000))]
Strikes = Annotated[int, Written(whole(1, 100))]
Weight = Annotated[int, Written(whole(1, 1000))]
Share = Annotated[int, Written(whole(0, 1000))]
Host = Annotated[str, Written(host, HOST_FORM)]
FilePath = Annotated[Path, Written(path, PATH_FORM)]
Net = Annotated[Network, Written(network, NETWORK_FORM)]
Url = Annotated[str, Written(url, URL_FORM)]
Origin = Annotated[str, Written(origin, text_like(r"https://[^\s/?#@]+/?"))]
Text = Annotated[str, Written(matching(r"[^\x00-\x1f\x7f]{1,1024}", "text that is not empty, in one line"))]
Label = Annotated[str, Written(label, {"type": "string", "minLength": 1})]
Affix = Annotated[str, Written(matching(r"[^\x00-\x1f\x7f]{0,1024}", "text in one line"))]
Name = Annotated[str, Written(matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "a name: up to 64 letters, digits and ._-"))]
ModelName = Annotated[
    str,
    Written(
        matching(
            r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,255}",
            "a model name: up to 256 letters, digits and ._/:@+- that begin with a letter or digit",
        )
    ),
]
UrlPath = Annotated[
    str, Written(matching(r'/[!-"$-~]{0,1023}', "a path that begins with '/' and holds no space and no '#'"))
]
OpenPath = Annotated[
    str, Written(matching(r'/[!-"$->@-~]{0,1023}', "a path that begins with '/' and holds no space, '?' or '#'"))
]
Protocol = Annotated[str, Written(one_of("protocol", PROTOCOLS))]
Balance = Annotated[str, Written(one_of("way to balance", BALANCES))]
CacheSalt = Literal["subject", "client", "provider", "group"]
Algorithm = Annotated[str, Written(algorithm, one_of("algorithm", SIGNATURES).form)]
ClaimPath = Annotated[tuple[str, ...], Written(claim, CLAIM_FORM)]
Renames = Annotated[tuple[tuple[str, str], ...], Written(renames, RENAMES_FORM)]
HeaderName = Annotated[str, Written(header, text_like(HEADER_NAME, "the name of a header field"))]
HeaderValue = Annotated[
    str, Written(matching(r"[!-~](?:[ -~]{0,8190}[!-~])?", "a secret of one line of printable ASCII characters"))
]
Prefix = Annotated[str, Written(prefix, text_like(PREFIX.pattern))]
NotBuilt = Annotated[None, Written(not_built, {"type": "null"})]
Verify = Annotated[str, Written(one_of("way to verify", ("jwt", "introspect", "both")))]
WhenAsked = Annotated[str, Written(one_of("rule for client certificates", ("optional", "required")))]
WhenSynced = Annotated[str, Written(one_of("rule for telling the disk", ("never", "interval", "always")))]
OnFull = Annotated[str, Written(one_of("rule for lines that find no room", ("drop", "block")))]
WhichName = Annotated[str, Written(one_of("name of a certificate", ("san_uri", "san_dns", "san_email", "cn")))]
Secret = Annotated[str, Written(matching(r"[^\x00-\x1f\x7f]{1,8192}", "a secret of one line"))]
LDAP_URL: Final = r"ldaps?://[A-Za-z0-9._:\[\]-]{1,253}/?"
LdapUrl = Annotated[str, Written(matching(LDAP_URL, "a server as ldaps://host or ldaps://host:port"))]
LdapAttribute = Annotated[
    str, Written(matching(r"[A-Za-z][A-Za-z0-9;-]{0,63}|[0-9]+(\.[0-9]+)+", "the name of an attribute"))
]
LdapFilter = Annotated[str, Written(ldap_filter, text_like(r"\([\s\S]*\)"))]
Workers = Annotated[int | str, Written(workers, {"enum": ["auto", 1]})]

"""The values that travel along the path of a call, one new frozen value per step.

Knows: their fields and their own checks.
Must not know: sockets, HTTP/1.1, configuration, any library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from gateway.errors import Refusal

#: Header fields as (lower-case name, value) pairs, in the order they came; names repeat as they came.
Fields = tuple[tuple[bytes, bytes], ...]


class Channel(Enum):
    """How the caller speaks; each has its own wire."""

    HTTP = "http"
    GRPC = "grpc"
    WEBSOCKET = "websocket"


class Operation(str, Enum):
    """What a call does with a model: the operation classes that policies speak of (contract: `operations`)."""

    INFER = "infer"
    STREAM = "stream"
    LIST = "list"
    METADATA = "metadata"
    HEALTH = "health"
    METRICS = "metrics"
    ADMIN = "admin"


class Dialect(Enum):
    """Whose error bodies the caller understands."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    KSERVE = "kserve"


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it came, before anything is known about it.

    `path` is the raw path of the target, percent-encoding untouched and without the query; `query` is what follows `?`,
    without it, or None. `fields` never holds trailers. `peer` is the client's address, after trusted proxies.
    `started` is `time.monotonic()` at the first byte of the request.
    """

    id: str
    channel: Channel
    method: str
    path: str
    query: str | None
    fields: Fields = field(repr=False)
    peer: str
    started: float

    def values(self, name: bytes) -> list[bytes]:
        """All values of the field `name` (lower case), in order."""
        return [value for key, value in self.fields if key == name]

    def value(self, name: bytes) -> bytes | None:
        """The first value of the field `name` (lower case), or None."""
        for key, value in self.fields:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose credential held.

    `client` is the OAuth client the credential was issued to, if any. `expires` is UNIX time in seconds (inf: never).
    `groups_known` is False when the credential says it leaves groups out: rules that need a group then do not match,
    rules that deny a group do.
    """

    subject: str
    issuer: str
    provider: str
    groups: frozenset[str] = frozenset()
    client: str | None = None
    scopes: frozenset[str] = frozenset()
    expires: float = float("inf")
    groups_known: bool = True


@dataclass(frozen=True, slots=True)
class ModelRef:
    """What is asked for, in the words of the policy: the configured model name (aliases resolved), version, operation.

    `explicit` is True where a rule has to list the operation by name (rule-table class `ops`, admin routes).
    """

    name: str
    operation: Operation
    version: str | None = None
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """A decision that allows: who, what, and by which rule. Without one, nothing goes to a backend."""

    principal: Principal
    model: ModelRef
    rule: str
    place: str
    groups_used: tuple[str, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What became of one call; the only value that grows while the call runs. Times are `time.monotonic()` seconds."""

    call: Call
    principal: Principal | None = None
    pool: str = ""
    model: ModelRef | None = None
    grant: Grant | None = None
    backend: str = ""
    attempts: int = 0
    status: int = 0
    received: int = 0
    sent: int = 0
    first_byte: float = 0.0
    counts_tokens: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None
    refusal: Refusal | None = None

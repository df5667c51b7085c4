"""The values that travel along the path of a call, one new frozen value per step.

Knows: their fields and their own checks.
Must not know: sockets, HTTP/1.1, configuration, any library.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from hashlib import sha256
from typing import Any, Final

from gateway.accounting.tallies import CallSeries
from gateway.errors import Refusal
from gateway.terms import Terms

#: Header fields as (lower-case name, value) pairs, in the order they came; names repeat as they came.
Fields = tuple[tuple[bytes, bytes], ...]


# Notes on one head: a few steps, and those of the generation before.
_NOTES_KEPT = 16


class Channel(Enum):
    """How the caller speaks; each has its own wire."""

    __hash__ = object.__hash__  # members are single, and each call looks one up

    HTTP = "http"
    GRPC = "grpc"
    WEBSOCKET = "websocket"


class Operation(StrEnum):
    """What a call does with a model: the operation classes that policies speak of (docs/policies.md)."""

    __hash__ = str.__hash__  # equal to its word, so it counts as its word too

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


class FieldBlock:
    """Fields that several messages may share. `rendered` is where a wire or door keeps how it writes them."""

    __slots__ = ("fields", "rendered")

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.rendered: bytes | None = None


class Noted:
    """Something whose bytes come again and again: a step may `note` on it what follows from it alone.

    It finds that again in `derived`, under itself.
    """

    __slots__ = ()
    derived: dict[object, Any]

    def note(self, step: object, value: object) -> None:
        """Keep `value`, which must follow from this alone."""
        if len(self.derived) >= _NOTES_KEPT:  # reloads leave notes of steps behind that are gone
            self.derived.clear()
        self.derived[step] = value


@dataclass(frozen=True, slots=True)
class AnswerHead(Noted):
    """The head of an answer; `length` in bytes, None where it is not announced. `derived`: see `Noted`."""

    status: int
    fields: Fields
    length: int | None
    derived: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def value(self, name: bytes) -> bytes:
        """The first value of the field `name` (lower case), or nothing."""
        for key, value in self.fields:
            if key == name:
                return value
        return b""


class ClientCertificate:
    """The certificate that a connection was opened with, verified against `listen.tls.client_ca`.

    `thumbprint`: SHA-256 of its DER form in base64url, as tokens name it (RFC 8705 section 3.1).
    """

    __slots__ = ("der", "thumbprint")

    def __init__(self, der: bytes) -> None:
        self.der: Final = der
        self.thumbprint: Final = urlsafe_b64encode(sha256(der).digest()).rstrip(b"=").decode()


class Call(Noted):
    """One request as it came, before anything is known about it.

    `path` is the raw path of the target, percent-encoding untouched and without the query; `query` is what follows `?`,
    without it, or None. `fields` never holds trailers. `peer` is the client's address, after trusted proxies.
    `started` is `time.monotonic()` at the first byte of the request. `certificate`: the client's, if it showed one.

    `derived` is shared by calls on one connection whose method, target, fields (but for Content-Length) and peer are
    the same to the byte: a step may keep there what follows from those alone (`Noted`).
    """

    __slots__ = ("certificate", "channel", "derived", "fields", "id", "method", "path", "peer", "query", "started")

    def __init__(  # noqa: PLR0913, PLR0917  a value with this many fields
        self,
        id: str,  # noqa: A002  its name on every page
        channel: Channel,
        method: str,
        path: str,
        query: str | None,
        fields: Fields,
        peer: str,
        started: float,
        certificate: ClientCertificate | None = None,
        derived: dict[object, Any] | None = None,
    ) -> None:
        self.id: Final = id
        self.channel: Final = channel
        self.method: Final = method
        self.path: Final = path
        self.query: Final = query
        self.fields: Final = fields
        self.peer: Final = peer
        self.started: Final = started
        self.certificate: Final = certificate
        self.derived = {} if derived is None else derived

    def again(self, id: str, started: float) -> Call:  # noqa: A002  its name on every page
        """The same request once more, under a name of its own; what was derived from this one holds for both."""
        return Call(
            id,
            self.channel,
            self.method,
            self.path,
            self.query,
            self.fields,
            self.peer,
            started,
            self.certificate,
            self.derived,
        )

    def __repr__(self) -> str:  # fields hold credentials
        return f"<Call {self.id} {self.method} {self.path}>"

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
    rules that deny a group do. `credential` names the very credential, where it has a name: the `jti` of a token, the
    id of a key.
    """

    subject: str
    issuer: str
    provider: str
    groups: frozenset[str] = frozenset()
    client: str | None = None
    scopes: frozenset[str] = frozenset()
    expires: float = float("inf")
    groups_known: bool = True
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class ModelRef:
    """What is asked for, in the words of the policy: the configured model name (aliases resolved), version, operation.

    `explicit` is True where a rule has to list the operation by name (rule-table class `ops`, admin routes). `asked`:
    what the caller asked for, where this model serves the call in its place, or is one of several behind that name.
    """

    name: str
    operation: Operation
    version: str | None = None
    explicit: bool = False
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """A decision that allows: who, what, and by which rule. Without one, nothing goes to a backend.

    `terms`: those of the rules that let the call in, each with the id of the first that has them, in the order of the
    rules; the call has to meet one. Empty: no rule asks anything (`NO_TERMS`).
    """

    principal: Principal
    model: ModelRef
    rule: str
    place: str
    groups_used: tuple[str, ...] = ()
    terms: tuple[tuple[str, Terms], ...] = ()


@dataclass(frozen=True, slots=True)
class Rulebook:
    """Which policy decides, as far as a decision's record has to say it, so that it can be made again.

    `digest` names the text of its rules, `groups` and `scopes` are those that the rules speak of. `hide_models`: see
    `Policy`. `generation` counts readings of the files.
    """

    generation: int = 0
    digest: str = ""
    groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    hide_models: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What a policy that is only tried says otherwise (`would_allow`, `would_deny`, `other_terms`; `same`: nothing),
    and the rule of it that decides; no rule: an empty text."""

    result: str
    rule: str


class Outcome:
    """What became of one call; the only value that grows while the call runs. Times are `time.monotonic()` seconds.

    `series`: where the call is counted, once its model is known. `mark`: see `exchange.Reply`. `decided_at`: UNIX
    seconds for which the rules of `rulebook` were asked, 0 where they were not. `terms_rule`: the rule under whose
    terms the call passed or was refused, if any. `changed`: what of its body was lowered, filled in or left out.
    `drawn`: the model that was drawn, where several share the name that was asked for. Most calls set few of these, so
    the defaults stand on the class and making one costs nothing.
    """

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
    terms_rule: str | None = None
    changed: tuple[str, ...] = ()
    drawn: str = ""
    series: CallSeries | None = None
    rulebook: Rulebook | None = None
    mark: bytes = b""
    decided_at: int = 0
    shadow: Difference | None = None

    def __init__(self, call: Call) -> None:
        self.call = call

    @property
    def decision_id(self) -> bytes:
        """The name of the decision; empty: none was made."""
        return self.mark + self.call.id.encode() if self.mark else b""

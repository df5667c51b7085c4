"""Everything that can be replaced, on one page. A new one is a file that fits a Protocol here and a row in its table.

| seam | table | implementations now | next |
|---|---|---|---|
| `Identity` | the list in `identities.py` | API keys, bearer and DPoP tokens, Basic logins, client certificates | |
| `Voucher` (`identity/tokens/vouching.py`) | the same list | signed tokens, introspected tokens, the gateway's own | |
| `Authorize` | `generation.py` | the policy | |
| `Meet` | `generation.py` | the terms of grants (`caps/`) | |
| `Choice`, `Way` | `resolve/jsonsource.py` | shared names, models that stand in for another | |
| `Ledger` | `app.py` | the audit file | |
| `Pages` | `app.py` | the application in `portal/` | |
| `Tried` | `generation.py` | the shadow policy | |
| `Balancer` | `pools.balance.BALANCERS` | round robin, least connections | token load, sticky prefixes |
| `Wire` | `wires.WIRES` | HTTP/1.1 | HTTP/2 (gRPC), WebSocket |
| `Resolver` | built from `tables/http.rules` | the HTTP rule tables | the gRPC rule table |
| door | `app.py` | `doors/http.py` (TLS, HTTP/1.1) | `doors/http2.py` by ALPN on the same port |

Must not know: any implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from gateway.call import (
    AnswerHead,
    Call,
    Dialect,
    Difference,
    FieldBlock,
    Fields,
    Grant,
    ModelRef,
    Outcome,
    Principal,
)
from gateway.errors import Refusal, Unidentified
from gateway.exchange import Body, Exchange, Flow
from gateway.pools.backends import Backend, Pool
from gateway.pools.balance import Balancer as Balancer  # noqa: PLC0414  it belongs on this page


class Identity(Protocol):
    """Says who calls. Three answers that must not blur: a `Principal`; None = not my kind of credential, ask the next;
    `Unidentified` raised = mine, and bad, stop. A provider that cannot be asked raises `IdentityUnavailable`."""

    def recall(self, call: Call) -> Principal | None:
        """A caller who was identified a moment ago and still holds, without waiting; None says nothing."""
        ...

    async def identify(self, call: Call) -> Principal | None: ...

    def revoked(self, call: Call, why: str, /) -> Unidentified:
        """How to refuse a credential of this call that holds but was revoked: as one that does not hold. `why` is for
        operators."""
        ...


class Way(Protocol):
    """One model that could serve a call; each of `needs` must be granted."""

    @property
    def needs(self) -> tuple[ModelRef, ...]: ...

    def resolved(self) -> Resolved:
        """The call as it goes to this model; `Resolved.unfit` where it cannot."""
        ...


class Choice:
    """Models of which one serves a call: those behind a name that is shared out, or those that stand in for another.

    `ranked`: best first for this caller, at least one.
    """

    __slots__ = ("ranked",)

    def __init__(self, ranked: Callable[[Principal], Sequence[Way]]) -> None:
        self.ranked: Final = ranked


class UsageKind(Enum):
    """Where an answer carries its token counts."""

    __hash__ = object.__hash__  # members are single, and each answer looks one up

    NONE = "none"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Interface(Enum):
    """Whose words a body is written in, by the word of the rule table.

    `GENERATE`: Triton's text in JSON. `FORM`, `PICTURE_FORM`: fields of a form. `PLAIN`: JSON that asks for no tokens.
    `UNKNOWN`: nobody here can tell what such a body asks for.
    """

    __hash__ = object.__hash__  # members are single

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"
    FORM = "form"
    PICTURE_FORM = "picture-form"
    PLAIN = "plain"
    UNKNOWN = "-"


class Resolved:
    """What a call asks for and exactly what would be sent on.

    `needs`: each of these must be granted; the first is the one that is accounted. `target` is path and query as they
    go to the backend. `payload` is the whole body to send, or None to stream the caller's body as it arrives, up to
    `limit` bytes. `fields`: the top level of a body that is a JSON object and was read, else None; they may take ten
    times the memory of the body and count nowhere, so they go once the call was held against its terms. `interface`:
    whose words the body is written in. `others`: models that may serve the call where this one cannot; None for most.
    `ordinary`: the members of the body are all among those that need no closer look where nobody set terms. `wrong`:
    why the call cannot be for this model, said to those only who may use it: it tells of the model's limits and names.
    """

    __slots__ = (
        "fields", "interface", "limit", "needs", "ordinary", "others", "payload", "pool", "target", "usage", "wrong"
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917  a value with this many fields
        self,
        needs: tuple[ModelRef, ...],
        pool: Pool,
        target: bytes,
        payload: bytes | None,
        limit: int,
        usage: UsageKind,
        fields: dict[str, object] | None = None,
        interface: Interface = Interface.UNKNOWN,
        others: Choice | None = None,
        ordinary: bool = False,
        wrong: Refusal | None = None,
    ) -> None:
        self.fields: Final = fields
        self.interface: Final = interface
        self.others: Final = others
        self.ordinary: Final = ordinary
        self.wrong: Final = wrong
        self.needs: Final = needs
        self.pool: Final = pool
        self.target: Final = target
        self.payload: Final = payload
        self.limit: Final = limit
        self.usage: Final = usage

    @classmethod
    def unfit(cls, needs: tuple[ModelRef, ...], pool: Pool, wrong: Refusal) -> Resolved:
        """A call that cannot be for its model; of it nothing could be sent."""
        wrong.__traceback__ = wrong.__context__ = None  # they hold the frames that would hold them
        return cls(needs, pool, b"", b"", 0, UsageKind.NONE, wrong=wrong)

    def to_send(self) -> Resolved:
        """The same, as far as it is sent: without `fields` and `others`."""
        return Resolved(self.needs, self.pool, self.target, self.payload, self.limit, self.usage, None, self.interface)


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """An answer that the gateway gives itself. `body` is JSON (or empty)."""

    status: int
    body: bytes = b""
    fields: Fields = ()


class OwnPage(Protocol):
    """A page of the gateway for a known caller, for example the list of models, filtered by what is granted.

    `holding`: see `Authorize`.
    """

    def answer(self, principal: Principal, holding: int) -> OwnAnswer: ...


class Resolver(Protocol):
    """From a request to what it asks for. The only place that reads paths and bodies."""

    def dialect(self, path: str) -> Dialect:
        """Whose error bodies a caller of this path understands; never raises."""
        ...

    def open(self, call: Call) -> OwnAnswer | None:
        """What anybody gets at this exact path and method (health), else None."""
        ...

    def resolve(self, call: Call, body: Body) -> Coroutine[Any, Any, Resolved | Choice | OwnPage]:
        """What the request asks for, the choice there is for a name of several models, or a page of ours.

        What is wrong with it for the very model that it asks for is in what it gives. Raises, at once or when awaited,
        for what is wrong whichever model there is, `BadRequest`, `AmbiguousModel`, `UnknownModel`, `NotFound`,
        `TooLarge`, `UnsupportedMedia`.
        """
        ...


class Pages(Protocol):
    """Pages of the gateway that prove callers themselves: logging in, the keys of its tokens."""

    def at(self, call: Call) -> bool:
        """Whether the call is for one of them."""
        ...

    def relay(self, exchange: Exchange, outcome: Outcome) -> Coroutine[Any, Any, None]:
        """Answer it. Raises a `Refusal` where that cannot be."""
        ...


class Ledger(Protocol):
    """Where decisions are written down. While it `holds_calls`, no call may go on before it has come through `room`."""

    @property
    def holds_calls(self) -> bool: ...

    def room(self) -> Coroutine[Any, Any, None]:
        """Wait for it. Raises `Overloaded` where that takes too long."""
        ...


class Authorize(Protocol):
    """Pure: no clock, no I/O. Raises `Forbidden`, `RouteForbidden` or `GroupsUnknown`."""

    def holding(self, at: float, peer: str | None) -> int:
        """Under what a call `at` this UNIX time from `peer` is decided: the rules whose conditions hold, a bit each."""
        ...

    def authorize(self, principal: Principal, model: ModelRef, holding: int) -> Grant: ...


class Met:
    """A call that meets its terms, as it may be sent on; without one, nothing goes to a backend.

    `grant`: for what it is accounted. `rule`: the rule under whose terms it passes, if any. `changed`: what of its body
    was lowered, filled in or left out.
    """

    __slots__ = ("changed", "grant", "resolved", "rule")

    def __init__(
        self, grant: Grant, resolved: Resolved, rule: str | None = None, changed: tuple[str, ...] = ()
    ) -> None:
        self.grant: Final = grant
        self.resolved: Final = resolved
        self.rule: Final = rule
        self.changed: Final = changed


class Meet(Protocol):
    """Holds a call against the terms under which it was granted: it has to meet those of each of its grants.

    What refuses a call for the terms of a grant says under which `rule`.
    """

    def plain(self, asked: Resolved, grants: tuple[Grant, ...]) -> bool:
        """Whether the call goes on as it is: nobody set terms, and nothing in it needs a closer look even then."""
        ...

    def opened(self, asked: Resolved, grants: tuple[Grant, ...], exchange: Exchange) -> Coroutine[Any, Any, Resolved]:
        """A call whose body would go by unread: with the body, where only that tells whether it meets the terms.

        Raises `CapExceeded` where nothing would tell, and what reading a body raises.
        """
        ...

    def held(self, asked: Resolved, grants: tuple[Grant, ...], exchange: Exchange) -> Met:
        """What may be sent on of a call that needs no opening. Raises `CapExceeded` or `TooLarge`."""
        ...


class Tried(Protocol):
    """Another policy that is tried on each decision and decides nothing. Never raises."""

    def compare(
        self, call: Call, principal: Principal, needs: tuple[ModelRef, ...], at: float, grants: tuple[Grant, ...]
    ) -> Difference | None:
        """What it says otherwise than `grants`, one for each of `needs` (none: denied), if that is to be written down.

        `at`: UNIX seconds."""
        ...


class Answer(Protocol):
    """What a wire gives its answer to, as it comes: head, data and flush any number of times, end."""

    def head(self, head: AnswerHead) -> None:
        """Raises `UpstreamBusy` instead of beginning, when another backend is to be tried."""
        ...

    def whole(self, head: AnswerHead, content: bytes) -> None:
        """A whole answer at once: like head, data and end."""
        ...

    def piece(self, piece: bytes) -> None:
        """One piece, to be passed on at once: like data and flush."""
        ...

    def data(self, piece: bytes) -> None: ...
    def flush(self) -> None: ...
    def end(self, *, delimited: bool) -> None:
        """`delimited` False: only the end of the connection says that this was all.

        Raises `Truncated` if it was not.
        """
        ...

    def feeds_from(self, flow: Flow | None) -> None:
        """Whom to pause while the caller reads slowly."""
        ...


class Outbound:
    """A request as it goes to a backend. `payload` None: stream `body`, at most `limit` bytes.

    `shared` are fields that come again with the caller's next request, `fields` those of this one.
    `first_byte` and `idle` are seconds: how long the backend may be silent before its answer begins, and within it.
    """

    __slots__ = ("body", "fields", "first_byte", "idle", "limit", "method", "payload", "shared", "target")

    def __init__(  # noqa: PLR0913, PLR0917  a value with this many fields
        self,
        method: str,
        target: bytes,
        shared: FieldBlock,
        fields: Fields,
        payload: bytes | None,
        body: Body,
        limit: int,
        first_byte: float,
        idle: float,
    ) -> None:
        self.method: Final = method
        self.target: Final = target
        self.shared: Final = shared
        self.fields: Final = fields
        self.payload: Final = payload
        self.body: Final = body
        self.limit: Final = limit
        self.first_byte: Final = first_byte
        self.idle: Final = idle


class Wire(Protocol):
    """Carries one request to one backend and its answer back. Returns when the answer is complete.

    Raises `ConnectFailed`, `Overloaded` (no descriptor left), `UpstreamBroke`, `UpstreamTimeout`, `Stalled`,
    `Truncated`, and what the caller's body fails with. When cancelled it closes the connection.
    """

    async def relay(self, backend: Backend, outbound: Outbound, answer: Answer) -> None: ...

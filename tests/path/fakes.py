"""Stand-ins for the two ends of the path, so that its story can be told without a socket.

Fakes of the seams, no mocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway import settings
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.call import (
    AnswerHead,
    Call,
    Channel,
    Dialect,
    FieldBlock,
    Fields,
    Grant,
    ModelRef,
    Operation,
    Outcome,
    Principal,
    Rulebook,
)
from gateway.caps.meeting import Meeting
from gateway.drive import Drive, Moment
from gateway.errors import Forbidden, Refusal, Unidentified
from gateway.exchange import Exchange, Flow, Sink
from gateway.pipeline import Pipeline
from gateway.policy.engine import Policy
from gateway.policy.shadow import Shadow
from gateway.pools.backends import Backend, Pool, build_pools
from gateway.seams import Answer, Outbound, OwnAnswer, OwnPage, Resolved, UsageKind
from gateway.settings import Timeouts

CALL = Call(
    "0" * 32, Channel.HTTP, "POST", "/v1/chat/completions", None, ((b"authorization", b"Bearer good"),), "10.0.0.9", 0.0
)
_MEMBERS = ("id", "channel", "method", "path", "query", "fields", "peer", "started", "derived")


def but(call: Call, **changes: object) -> Call:
    """`call` with other values; what was noted on it comes along, as on one connection."""
    members: dict[str, Any] = {name: getattr(call, name) for name in _MEMBERS}
    return Call(**(members | changes))


ALICE = Principal("alice", "https://idp.test", "corp")
MODEL = ModelRef("small", Operation.INFER)


@dataclass
class FakeBody:
    replayable: bool = True
    length: int | None = 2
    received: int = 2
    now: bytes | None = None

    async def whole(self, limit: int) -> bytes:
        return b"{}"

    def stream(self, sink: Sink, limit: int) -> Flow:
        raise AssertionError("no story streams its body")


@dataclass
class Recorder:
    """A reply that keeps the story of what the caller saw."""

    story: list[str] = field(default_factory=list)
    started: bool = False
    mark: bytes = b""
    told: Fields = ()

    def tell(self, fields: Fields) -> None:
        assert not self.started
        self.told = fields

    @property
    def seen(self) -> str:
        return "".join(f" {name.decode()}: {value.decode()}" for name, value in self.told)

    def start(self, status: int, fields: FieldBlock, length: int | None) -> None:
        self.started = True
        self.story.append(f"start {status}{self.seen}")

    def send(self, piece: bytes) -> None:
        self.story.append(f"send {piece.decode()}")

    def flush(self) -> None:
        pass

    def piece(self, piece: bytes) -> None:
        self.send(piece)

    def whole(self, status: int, fields: FieldBlock, content: bytes) -> None:
        self.start(status, fields, len(content))
        self.send(content)
        self.end()

    def end(self) -> None:
        self.story.append("end")

    def fail(self, refusal: Refusal, dialect: Dialect) -> None:
        self.story.append(f"{'cut' if self.started else 'refuse'} {refusal.code}")

    def last_words(self, piece: bytes) -> None:
        self.story.append("last words")

    def feeds_from(self, flow: Flow | None) -> None:
        pass


Act = Callable[[Answer], Refusal | Moment | None]


def answers(
    status: int = 200,
    content_type: bytes = b"application/json",
    then: Refusal | Moment | None = None,
    more: Fields = (),
) -> Act:
    """A backend that answers `hi` under these fields, then is done, breaks, or waits."""

    def act(answer: Answer) -> Refusal | Moment | None:
        answer.head(AnswerHead(status, ((b"content-type", content_type), *more), None))
        answer.data(b"hi")
        answer.flush()
        if then is None:
            answer.end(delimited=True)
        return then

    return act


def refuses(refusal: Refusal) -> Act:
    """A backend that fails before its answer begins."""
    return lambda _: refusal


@dataclass
class FakeWire:
    """Plays an act for each backend, by its port."""

    acts: dict[int, Act]
    went_to: list[int] = field(default_factory=list)

    async def relay(self, backend: Backend, outbound: Outbound, answer: Answer) -> None:
        self.went_to.append(backend.port)
        then = self.acts[backend.port](answer)
        if isinstance(then, Refusal):
            raise then
        if isinstance(then, Moment):
            await then


@dataclass
class FakeResolver:
    pool: Pool
    payload: bytes | None = b"{}"
    refusal: Refusal | None = None
    needs: tuple[ModelRef, ...] = (MODEL,)

    def dialect(self, path: str) -> Dialect:
        return Dialect.OPENAI

    def open(self, call: Call) -> OwnAnswer | None:
        return OwnAnswer(200) if call.path == "/v1/health/live" else None

    async def resolve(self, call: Call, body: object) -> Resolved | OwnPage:
        if self.refusal is not None:
            raise self.refusal
        return Resolved(self.needs, self.pool, b"/v1/chat/completions", self.payload, 1000, UsageKind.OPENAI)


@dataclass
class FakePolicy:
    allow: bool = True
    denied: frozenset[str] = frozenset()

    def holding(self, at: float, peer: str | None) -> int:
        return 1

    def authorize(self, principal: Principal, model: ModelRef, holding: int) -> Grant:
        if not self.allow or model.name in self.denied:
            raise Forbidden
        return Grant(principal, model, "rule-1", "policy.yaml:3")


class FakeIdentity:
    def recall(self, call: Call) -> Principal | None:
        return None

    async def identify(self, call: Call) -> Principal:
        if call.value(b"authorization") != b"Bearer good":
            raise Unidentified
        return ALICE


@dataclass
class Stage:
    """A pipeline with one pool of backends on ports 1, 2, …, all up."""

    acts: dict[int, Act]
    allow: bool = True
    payload: bytes | None = b"{}"
    refusal: Refusal | None = None
    needs: tuple[ModelRef, ...] = (MODEL,)
    denied: frozenset[str] = frozenset()
    tries: Policy | None = None  # as a shadow
    done: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = settings.Pool(
            "p",
            ("openai",),
            (settings.Model("small"),),
            tuple(settings.BackendAddress(f"http://10.0.0.1:{port}") for port in self.acts),
        )
        (self.pool,) = build_pools((wanted,), None, lambda _: AssertionError)  # type: ignore[arg-type, return-value]  # no TLS here
        for backend in self.pool.backends:
            backend.vitals.probed(True, 3, 2)
        self.wire = FakeWire(self.acts)
        self.admission = Admission()
        self.tallies = Tallies()
        self.pipeline = Pipeline(
            resolver=FakeResolver(self.pool, self.payload, self.refusal, self.needs),
            identity=FakeIdentity(),
            policy=FakePolicy(self.allow, self.denied),
            terms=Meeting(),
            admission=self.admission,
            wires={Channel.HTTP: self.wire},
            account=self.done.append,
            tallies=self.tallies,
            timeouts=Timeouts(),
            pages=None,
            rulebook=Rulebook(1, "0123456789abcdef" * 2),
            shadow=None if self.tries is None else Shadow(self.tries, self.tallies),
            ledger=None,
        )

    def begin(self, call: Call = CALL, body: FakeBody | None = None) -> tuple[Drive, Recorder]:
        reply = Recorder()
        drive = Drive(self.pipeline.serve(Exchange(call, body or FakeBody(), reply)))
        drive.step()
        return drive, reply

    def play(self, call: Call = CALL, body: FakeBody | None = None) -> list[str]:
        """The story of one call that does not wait."""
        drive, reply = self.begin(call, body)
        assert drive.done
        self.check_level()
        return reply.story

    def check_level(self) -> None:
        """Everything that was taken is given back, and the call is accounted once."""
        assert [backend.in_flight for backend in self.pool.backends] == [0] * len(self.pool.backends)
        assert sum(self.admission.in_flight.values()) == 0
        assert self.pool.budget.taken == 0
        assert len(self.done) == 1

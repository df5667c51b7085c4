"""A stage with several models, each in a pool of its own, that stand in for each other or share a name.

Knows: the fakes of the path. Must not know: what a story is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway import settings
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.call import Call, Channel, Dialect, Grant, ModelRef, Operation, Outcome, Principal, Rulebook
from gateway.drive import Drive
from gateway.errors import Forbidden, Refusal, TooLarge
from gateway.exchange import Exchange
from gateway.pipeline import Pipeline
from gateway.pools.backends import Pool, build_pools
from gateway.seams import Choice, Interface, Met, OwnAnswer, OwnPage, Resolved, UsageKind
from gateway.settings import Timeouts
from tests.path.fakes import CALL, Act, FakeBody, FakeIdentity, FakeWire, Recorder


@dataclass(frozen=True)
class FakeWay:
    needs: tuple[ModelRef, ...]
    pool: Pool
    fits: bool
    others: Choice | None = None

    def resolved(self) -> Resolved:
        if not self.fits:
            raise TooLarge
        payload = self.needs[0].name.encode()
        target = b"/v1/chat/completions"
        return Resolved(self.needs, self.pool, target, payload, 1000, UsageKind.OPENAI, {}, Interface.CHAT, self.others)


@dataclass
class FakeResolver:
    answer: Resolved | Choice

    def dialect(self, path: str) -> Dialect:
        return Dialect.OPENAI

    def open(self, call: Call) -> OwnAnswer | None:
        return None

    async def resolve(self, call: Call, body: object) -> Resolved | Choice | OwnPage:
        return self.answer


@dataclass
class Granting:
    """A policy that grants these models; it keeps what it was asked."""

    granted: set[str]
    asked: list[str] = field(default_factory=list)

    def holding(self, at: float, peer: str | None) -> int:
        return 1

    def authorize(self, principal: Principal, model: ModelRef, holding: int) -> Grant:
        self.asked.append(model.name)
        if model.name not in self.granted:
            raise Forbidden
        return Grant(principal, model, f"rule-{model.name}", "policy.yaml:3")


@dataclass
class FakeTerms:
    """They refuse the call for some models, and change it for others."""

    refusing: Sequence[str]
    telling: Sequence[str]

    def plain(self, asked: Resolved, grants: tuple[Grant, ...]) -> bool:
        return False

    async def opened(self, asked: Resolved, grants: tuple[Grant, ...], exchange: Exchange) -> Resolved:
        raise AssertionError("every story has its body")

    def held(self, asked: Resolved, grants: tuple[Grant, ...], exchange: Exchange) -> Met:
        name = grants[0].model.name
        if name in self.refusing:
            raise Forbidden
        return Met(grants[0], asked.to_send(), None, (name,) if name in self.telling else ())


@dataclass
class Standing:
    """Models by name, each with the acts of its backends by port; the first is asked for, the others stand in.

    `shared`: all of them share the name `all`, and this is their order for the caller; the first may be stood in for
    by the last.
    """

    models: Mapping[str, Mapping[int, Act]]
    granted: Sequence[str] | None = None
    large: Sequence[str] = ()
    down: Sequence[str] = ()
    refusing: Sequence[str] = ()
    telling: Sequence[str] = ()
    shared: bool = False
    done: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = tuple(
            settings.Pool(
                f"pool-{name}",
                ("openai",),
                (settings.Model(name),),
                tuple(settings.BackendAddress(f"http://10.0.0.1:{port}") for port in acts),
            )
            for name, acts in self.models.items()
        )
        self.pools = build_pools(wanted, None, lambda _: AssertionError)  # type: ignore[arg-type, return-value]  # no TLS here
        for name, pool in zip(self.models, self.pools, strict=True):
            for backend in pool.backends:
                backend.vitals.probed(name not in self.down, 3, 2)
        self.wire = FakeWire({port: act for acts in self.models.values() for port, act in acts.items()})
        self.admission = Admission()
        self.tallies = Tallies()
        self.policy = Granting(set(self.models if self.granted is None else self.granted))
        self.pipeline = Pipeline(
            resolver=FakeResolver(self._shared() if self.shared else self._way(0, "", self._others(0)).resolved()),
            identity=FakeIdentity(),
            policy=self.policy,
            terms=FakeTerms(self.refusing, self.telling),
            admission=self.admission,
            wires={Channel.HTTP: self.wire},
            account=self.done.append,
            tallies=self.tallies,
            timeouts=Timeouts(),
            pages=None,
            rulebook=Rulebook(),
            shadow=None,
            ledger=None,
        )

    def _way(self, place: int, asked: str, others: Choice | None = None) -> FakeWay:
        name = list(self.models)[place]
        need = ModelRef(name, Operation.INFER, asked=asked)
        return FakeWay((need,), self.pools[place], name not in self.large, others)

    def _others(self, place: int) -> Choice:
        asked = list(self.models)[place]
        ways = [self._way(other, asked) for other in range(len(self.models)) if other != place]
        return Choice(lambda _: ways)

    def _shared(self) -> Choice:
        last = Choice(lambda _: [self._way(len(self.models) - 1, "all")])
        ways = [self._way(place, "all", last if place == 0 else None) for place in range(len(self.models))]
        return Choice(lambda _: ways)

    def begin(self) -> tuple[Drive, Recorder]:
        """The call, as far as it comes without waiting."""
        reply = Recorder()
        drive = Drive(self.pipeline.serve(Exchange(CALL, FakeBody(), reply)))
        drive.step()
        return drive, reply

    def play(self) -> list[str]:
        """The story of one call that does not wait."""
        drive, reply = self.begin()
        assert drive.done
        self.check_level()
        return reply.story

    def check_level(self) -> None:
        """Everything that was taken is given back, and the call is accounted once."""
        for pool in self.pools:
            assert [backend.in_flight for backend in pool.backends] == [0] * len(pool.backends)
            assert pool.budget.taken == 0
        assert sum(self.admission.in_flight.values()) == 0
        assert len(self.done) == 1

    @property
    def served(self) -> tuple[str, str, str]:
        """What the call was accounted for: model, what was asked for, pool."""
        model = self.done[0].model
        assert model is not None
        return model.name, model.asked, self.done[0].pool


def refused(refusal: Refusal) -> str:
    """How a story ends with this refusal."""
    return f"refuse {refusal.code}"

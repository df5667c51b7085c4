"""The path of one call, in one place.

Knows: the order of the steps, the retry rule, that every call is accounted once.
Must not know: sockets, HTTP/1.1, any provider, any file format, any balancing rule.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.accounting.tallies import CallSeries, Tallies
from gateway.admission import Admission
from gateway.attempts import Attempts, blame
from gateway.call import Call, Channel, FieldBlock, Grant, ModelRef, Outcome, Principal, Rulebook
from gateway.errors import ClientGone, NoBackend, Overloaded, Refusal, Side, TooLarge
from gateway.exchange import Exchange, Reply
from gateway.fallback import Fallback, Turn, drawn
from gateway.headers import AnswerCrossing, RequestCrossing, beside
from gateway.pools.backends import Pool
from gateway.pools.ejection import FAILING_STATUS, FailureReason
from gateway.relay import Relay
from gateway.seams import (
    Authorize,
    Choice,
    Ledger,
    Meet,
    Met,
    Outbound,
    OwnAnswer,
    Pages,
    Resolved,
    Resolver,
    Tried,
    Wire,
)
from gateway.settings import Timeouts

log = logging.getLogger(__name__)

# Digits of a policy's digest in the name of a decision: enough to tell the policies of a site apart.
_MARK = 12

# Nothing was executed, and no backend of this pool can help; another model may.
_NOBODY = (NoBackend, Overloaded)

_Granted = tuple[Principal, tuple[ModelRef, ...], int, tuple[Grant, ...], CallSeries]


class Identify(Protocol):
    """The step: like `seams.Identity`, but for everybody. `identify` raises `Unidentified`."""

    def recall(self, call: Call) -> Principal | None: ...
    async def identify(self, call: Call) -> Principal: ...


class Pipeline:
    """One generation of the path: built once from a configuration, used by every call that begins under it."""

    def __init__(  # noqa: PLR0913  one composition root passes them by name
        self,
        *,
        resolver: Resolver,
        identity: Identify,
        policy: Authorize,
        terms: Meet,
        admission: Admission,
        wires: Mapping[Channel, Wire],
        account: Callable[[Outcome], None],
        tallies: Tallies,
        timeouts: Timeouts,
        pages: Pages | None,
        rulebook: Rulebook,
        shadow: Tried | None,
        ledger: Ledger | None,
    ) -> None:
        self._resolver = resolver
        self._identity = identity
        self._policy = policy
        self._terms = terms
        self._admission = admission
        self._wires = wires
        self._account = account
        self._tallies = tallies
        self._timeouts = timeouts
        self._pages = pages
        self._rulebook = rulebook
        self._mark = f"{rulebook.digest[:_MARK]}.".encode()
        self._shadow = shadow
        self._ledger = ledger
        self._for_backends: dict[Pool, RequestCrossing] = {}
        self._for_callers = AnswerCrossing()

    async def serve(self, exchange: Exchange) -> None:
        """Take a call to its end.

        Never raises: what goes wrong becomes the answer, and the outcome is accounted once.
        """
        outcome = Outcome(exchange.call)
        try:
            await self._path(exchange, outcome)
        except Refusal as refusal:
            self._refuse(exchange, outcome, refusal)
        except Exception:  # a fault of ours ends one call, not the gateway, and opens nothing
            log.exception("call.failed request_id=%s", exchange.call.id)
            self._refuse(exchange, outcome, Refusal())
        finally:
            outcome.received = exchange.body.received
            self._account(outcome)

    async def _path(self, exchange: Exchange, outcome: Outcome) -> None:
        call = exchange.call
        if (open_answer := self._resolver.open(call)) is not None:
            _give(exchange.reply, open_answer, outcome)
            return
        if self._ledger is not None and self._ledger.holds_calls:
            await self._ledger.room()
        if self._pages is not None and self._pages.at(call):
            await self._pages.relay(exchange, outcome)
            return
        outcome.principal = principal = self._identity.recall(call) or await self._identity.identify(call)
        # Also where the rules will not be asked: whether there is a model that the caller may not know of stays unsaid.
        outcome.rulebook = self._rulebook
        outcome.mark = exchange.reply.mark = self._mark
        asked = await self._resolver.resolve(call, exchange.body)
        outcome.decided_at = at = int(time.time())  # whole, so that its record is no other time than it was
        holding = self._policy.holding(float(at), call.peer)
        if not isinstance(asked, Resolved):
            if not isinstance(asked, Choice):
                _give(exchange.reply, asked.answer(principal, holding), outcome)
                return
            asked = drawn(asked, principal, holding, self._policy)
            outcome.drawn = asked.needs[0].name
        grants, others = self._decide(call, principal, asked, holding, outcome), asked.others
        if asked.wrong is not None:
            raise asked.wrong
        if asked.needs[0].asked:
            exchange.reply.tell(beside(asked.needs[0], ()))
        if self._terms.plain(asked, grants):
            met = Met(grants[0], asked.to_send())
        else:
            met = await self._meet(asked, grants, exchange, outcome)
        asked = met.resolved
        attempts = Attempts(asked.pool, met.grant.model.name, asked.payload, exchange.body)
        if others is None:
            with self._admission.admit(asked.pool.name):
                await self._relay(exchange, met, outcome, attempts, attempts.another)
            return
        fallback = Fallback(others, principal, holding, self._policy, self._terms, exchange, attempts)
        await self._relay_somewhere(exchange, Turn(met, attempts), outcome, fallback)

    async def _meet(self, asked: Resolved, grants: tuple[Grant, ...], exchange: Exchange, outcome: Outcome) -> Met:
        """A call that is held against the terms of its grants, which may need its body."""
        try:
            if asked.payload is None:
                asked = await self._terms.opened(asked, grants, exchange)
            met = self._terms.held(asked, grants, exchange)
        except Refusal as refusal:
            outcome.terms_rule = refusal.rule or None
            raise
        outcome.terms_rule, outcome.changed = met.rule, met.changed
        if met.changed:
            exchange.reply.tell(beside(grants[0].model, met.changed))
        return met

    def _decide(
        self, call: Call, principal: Principal, asked: Resolved, holding: int, outcome: Outcome
    ) -> tuple[Grant, ...]:
        outcome.pool = asked.pool.name
        grants: tuple[Grant, ...] = ()
        try:
            grants = self._authorize(call, principal, asked, holding, outcome)
        finally:
            if self._shadow is not None:
                at = float(outcome.decided_at)
                found = self._shadow.compare(call, principal, asked.needs, at, grants)
                outcome.shadow = found or outcome.shadow  # a call that another model takes over is asked for both
        outcome.grant = grants[0]
        return grants

    def _authorize(
        self, call: Call, principal: Principal, asked: Resolved, holding: int, outcome: Outcome
    ) -> tuple[Grant, ...]:
        """Everything the call needs must be granted; it is accounted for the first, or for the one that is not granted.

        The same caller asking for the same things with the same head gets the same grant, for as long as these rules
        hold.
        """
        needs = asked.needs
        noted: _Granted | None = call.derived.get(self)
        if noted is not None and noted[0] is principal and noted[1] is needs and noted[2] == holding:
            outcome.model, outcome.series = needs[0], noted[4]
            return noted[3]
        grants = tuple([self._need(principal, need, holding, asked.pool, outcome) for need in needs])
        self._account_for(needs[0], asked.pool, outcome)
        call.note(self, (principal, needs, holding, grants, outcome.series))
        return grants

    def _need(self, principal: Principal, need: ModelRef, holding: int, pool: Pool, outcome: Outcome) -> Grant:
        self._account_for(need, pool, outcome)
        return self._policy.authorize(principal, need, holding)

    def _account_for(self, need: ModelRef, pool: Pool, outcome: Outcome) -> None:
        outcome.model = need
        outcome.series = self._tallies.series(pool.name, need.name, need.operation)

    async def _relay_somewhere(self, exchange: Exchange, turn: Turn, outcome: Outcome, fallback: Fallback) -> None:
        """Relay; as long as nothing was executed and nothing answered, turn to the next model that takes the call."""
        first = turn.met.grant.model.name
        try:
            while True:
                try:
                    with self._admission.admit(turn.met.resolved.pool.name):
                        await self._relay(exchange, turn.met, outcome, turn.attempts, fallback.another)
                    return
                except Refusal as refusal:
                    untouched = refusal.retry or isinstance(refusal, _NOBODY)
                    if exchange.reply.started or not untouched or not fallback.ready():
                        raise
                turn = fallback.take()
                self._turn_to(turn.met, exchange, fallback.holding, outcome)
                self._tallies.fallbacks[(first, turn.met.grant.model.name)] += 1
        finally:
            fallback.close()

    def _turn_to(self, met: Met, exchange: Exchange, holding: int, outcome: Outcome) -> None:
        """From here on the call is this model's: in what the caller is told, in the audit line, in the numbers."""
        self._decide(exchange.call, met.grant.principal, met.resolved, holding, outcome)
        outcome.terms_rule, outcome.changed = met.rule, met.changed
        exchange.reply.tell(beside(met.grant.model, met.changed))

    async def _relay(
        self,
        exchange: Exchange,
        met: Met,
        outcome: Outcome,
        attempts: Attempts,
        another: Callable[[], bool],
    ) -> None:
        """Relay to one backend after the other. `another`: whether a 502, 503 or 504 is to be replaced."""
        call, reply, asked = exchange.call, exchange.reply, met.resolved
        pool = asked.pool
        outbound = self._prepare(exchange, asked, met.grant)
        relay = Relay(reply, outcome, asked.usage, self._for_callers, another)
        wire = self._wires[call.channel]
        try:
            while (backend := attempts.next()) is not None:
                outcome.backend, outcome.attempts = backend.name, outcome.attempts + 1
                relay.attempt(backend)
                try:
                    with backend.hold():
                        await wire.relay(backend, outbound, relay)
                except Refusal as refusal:
                    if (reason := blame(refusal)) is not None:
                        pool.failed(backend, reason, time.monotonic())
                    if reply.started or not (refusal.retry and attempts.another()):
                        raise
                    self._tallies.retries[(pool.name, refusal.code if reason is None else reason.value)] += 1
                    continue
                if outcome.status in FAILING_STATUS:
                    pool.failed(backend, FailureReason.STATUS, time.monotonic())
                else:
                    pool.succeeded(backend, outcome.first_byte)
                return
            raise NoBackend(retry_after=pool.retry_after(time.monotonic()))
        except Refusal as refusal:
            if reply.started and refusal.side is Side.UPSTREAM:
                relay.cut(refusal, self._resolver.dialect(call.path))
            raise
        finally:
            if attempts.retries:
                attempts.close()
            if relay.usage is not None:
                relay.settle()

    def _prepare(self, exchange: Exchange, asked: Resolved, grant: Grant) -> Outbound:
        """What a backend is sent. Raises `TooLarge` where that is known before a backend has heard of the call."""
        body = exchange.body
        if asked.payload is None and max(body.length or 0, body.received) > asked.limit:
            raise TooLarge.beyond(asked.limit)
        call, settings, timeouts = exchange.call, asked.pool.settings, self._timeouts
        crossing = self._for_backends.get(asked.pool) or self._crossing(asked.pool)
        shared, fields = crossing.outbound(call, grant.principal, name_caller=settings.identity_headers)
        first_byte, idle = settings.first_byte or timeouts.first_byte, settings.idle or timeouts.idle
        return Outbound(call.method, asked.target, shared, fields, asked.payload, body, asked.limit, first_byte, idle)

    def _crossing(self, pool: Pool) -> RequestCrossing:
        credential = pool.settings.credential
        crossing = self._for_backends[pool] = RequestCrossing(credential.header.encode() if credential else None)
        return crossing

    def _refuse(self, exchange: Exchange, outcome: Outcome, refusal: Refusal) -> None:
        # Its traceback holds the frames of this call, and they hold the outcome: all would wait for the collector.
        refusal.__traceback__ = refusal.__context__ = None
        outcome.refusal = refusal
        if not exchange.reply.started:
            outcome.status = refusal.status
        if isinstance(refusal, ClientGone):
            outcome.status = refusal.status
            return
        exchange.reply.fail(refusal, self._resolver.dialect(exchange.call.path))


def _give(reply: Reply, answer: OwnAnswer, outcome: Outcome) -> None:
    outcome.status = answer.status
    fields = ((b"content-type", b"application/json"), *answer.fields) if answer.body else answer.fields
    outcome.first_byte = time.monotonic()
    outcome.sent = len(answer.body)
    reply.start(answer.status, FieldBlock(fields), len(answer.body))
    reply.send(answer.body)
    reply.end()

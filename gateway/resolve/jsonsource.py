"""Calls whose model is a member of a JSON body: what goes to the backend, and to which others it may go instead.

Knows: JSON bodies, plans. Must not know: how a row was found, who asks, what the gateway answers itself.
"""

from __future__ import annotations

from typing import Final

from gateway.call import ModelRef, Operation, Principal
from gateway.errors import Refusal, TooLarge
from gateway.exchange import Body
from gateway.resolve import jsonbody
from gateway.resolve.models import Served
from gateway.resolve.plans import Plan, Split
from gateway.resolve.rules import Default
from gateway.resolve.sources import (
    Ask,
    limit,
    needs_of,
    operation_of,
    refuse_for_all,
    require_one_name,
    served_by,
)
from gateway.seams import Choice, Resolved

#: Members that most bodies are made of. In these very letters they name no model, nothing that is kept for somebody and
#: nothing that reaches into an engine, so a body of nothing else needs no closer look: one pass in place of three.
ORDINARY: Final = frozenset(
    (
        "encoding_format", "frequency_penalty", "input", "instructions", "logit_bias", "logprobs",
        "max_completion_tokens", "max_output_tokens", "max_tokens", "messages", "model", "n", "parallel_tool_calls",
        "presence_penalty", "prompt", "reasoning_effort", "response_format", "seed", "stop", "stop_sequences",
        "stream", "stream_options", "system", "temperature", "text", "tool_choice", "tools", "top_k", "top_logprobs",
        "top_p", "user",
    )
)  # fmt: skip


async def from_json(ask: Ask, body: Body) -> Resolved | Choice:
    """The model is a member of a JSON body; absent, it is the only one there is, and is written in."""
    content = body.now
    if content is None or len(content) > ask.most:
        content = await body.whole(ask.most)
    peeked = jsonbody.peek(content)
    ordinary = ORDINARY.issuperset(peeked.fields)
    if not ordinary:
        refuse_for_all(peeked.fields)
    plan = ask.plans.get((peeked.model, peeked.stream))
    if plan is None:
        plan = ask.plans[(peeked.model, peeked.stream)] = _plan(ask, peeked)
    if isinstance(plan, Split):
        return Choice(_Shared(plan, _Read(ask, content, peeked)).ranked)  # drawn at once
    return _resolved(ask, content, peeked, plan, ordinary)


def _resolved(
    ask: Ask, content: bytes, peeked: jsonbody.Peeked, plan: Plan, ordinary: bool, shared: str | None = None
) -> Resolved:
    """`shared`: the name that was asked for, where it is no model's own."""
    sent = plan.sent
    try:
        if not ordinary or ask.query is not None:
            require_one_name(ask, peeked.fields, sent)
            if shared is not None:
                require_one_name(ask, peeked.fields, shared)
        payload = content if peeked.model == sent else jsonbody.rewrite(content, sent)
        if len(payload) > plan.limit:
            raise TooLarge
    except Refusal as wrong:
        return Resolved.unfit(plan.needs, plan.pool, wrong)
    # They wait as long as the call lasts, and what was read of a body may be ten times as large as it.
    others = Choice(_StandIns(plan, _Read(ask, content)).ranked) if plan.others else None
    return Resolved(
        plan.needs,
        plan.pool,
        ask.target,
        payload,
        plan.limit,
        ask.usage,
        peeked.fields,
        ask.row.interface,
        others,
        ordinary,
    )


class _Read:
    """A request whose body was read. `peeked`: what it says, where that is not to be read once more."""

    __slots__ = ("_peeked", "ask", "content")

    def __init__(self, ask: Ask, content: bytes, peeked: jsonbody.Peeked | None = None) -> None:
        self.ask: Final = ask
        self.content: Final = content
        self._peeked = peeked

    @property
    def peeked(self) -> jsonbody.Peeked:
        """What the body says."""
        return self._peeked or jsonbody.peek(self.content)


class _Way:
    """Implements `seams.Way`: a request that was read, as a call for one model."""

    __slots__ = ("_plan", "_read", "_shared", "needs")

    def __init__(self, plan: Plan, read: _Read, shared: str | None = None) -> None:
        self._plan = plan
        self._read = read
        self._shared = shared
        self.needs: Final = plan.needs

    def resolved(self) -> Resolved:
        """The call; unfit where the request names another model as well, or is too large."""
        read = self._read
        return _resolved(read.ask, read.content, read.peeked, self._plan, False, self._shared)


class _StandIns:
    """The models that may serve the call of a plan in place of its own."""

    __slots__ = ("_plan", "_read")

    def __init__(self, plan: Plan, read: _Read) -> None:
        self._plan = plan
        self._read = read

    def ranked(self, _principal: Principal) -> list[_Way]:
        """As they are configured."""
        return [_Way(plan, self._read) for plan in self._plan.others]


class _Shared:
    """The models that share a name."""

    __slots__ = ("_read", "_split")

    def __init__(self, split: Split, read: _Read) -> None:
        self._split = split
        self._read = read

    def ranked(self, principal: Principal) -> list[_Way]:
        """As this caller takes them."""
        return [_Way(plan, self._read, self._split.name) for plan in self._split.ranked(principal)]


def _plan(ask: Ask, peeked: jsonbody.Peeked) -> Plan | Split:
    operation = Operation.STREAM if ask.row.starred and peeked.stream else operation_of(ask.row)
    name, open_to_all = peeked.model, ask.row.default is Default.GRANT
    shared = ask.face.shared[ask.row.set].get(name) if name is not None and open_to_all else None
    if shared is not None:
        plans = [
            (_instead(ask, model, operation, shared.name, _others(ask, model, operation, shared.name)), weight)
            for model, weight in shared.models
        ]
        return Split(shared.name, tuple(plans))
    served = served_by(ask, name)
    others = _others(ask, served, operation, served.name) if open_to_all else ()
    needs = needs_of(ask.row, served, operation)
    return Plan(served.sent, needs, served.pool, limit(served.pool, ask.largest), others)


def _others(ask: Ask, served: Served, operation: Operation, asked: str) -> tuple[Plan, ...]:
    """Only the model's own list: what stands in for one that stands in is not asked."""
    names = ask.face.names[ask.row.set]
    models = [names[name] for name in served.fallback if name in names and names[name].name == name]
    return tuple(_instead(ask, model, operation, asked, ()) for model in models)


def _instead(ask: Ask, model: Served, operation: Operation, asked: str, others: tuple[Plan, ...]) -> Plan:
    """A model that was not asked for by its own name."""
    needs = (ModelRef(model.name, operation, asked=asked),)
    return Plan(model.sent, needs, model.pool, limit(model.pool, ask.largest), others)

"""A call is held against the terms of its grant, and what goes on is changed where the terms say so.

A grant can have several terms: a call passes under the first that take it as it is, else under the first that take it
with a budget filled in, else under the first that may lower what is too much; else the first of them refuse it.
Knows: how each kind of body is read and changed. Must not know: which rules there are, what a limit means, sockets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gateway.call import Grant, Outcome
from gateway.caps.excess import Change, Excess
from gateway.caps.numbers import NUMBERS
from gateway.caps.salt import salt
from gateway.caps.terms import UNREADABLE, excesses, fill, speak_of_fields
from gateway.caps.wanted import HOLDERS, Wanted
from gateway.errors import CapExceeded, Refusal, TooLarge
from gateway.exchange import Exchange
from gateway.resolve import formbody, jsonbody, jsonedit
from gateway.resolve.media import require_form, require_uncoded
from gateway.seams import Interface, Resolved
from gateway.terms import ENGINE_FIELDS, NO_TERMS, Terms

_Listed = tuple[tuple[str, Terms], ...]

_LOOKED_AT: Final = ENGINE_FIELDS | frozenset(HOLDERS)

# Engines whose words these are know a salt (vLLM, SGLang); Anthropic's have none, and other servers may refuse it.
_SALTED: Final = frozenset((Interface.CHAT, Interface.COMPLETIONS, Interface.RESPONSES))

# Bodies that rows leave unread, and that are understood where terms ask for it.
_UNDERSTOOD: Final = frozenset((Interface.GENERATE, Interface.PLAIN))

_IN_FORMS: Final = frozenset(
    (*NUMBERS, *ENGINE_FIELDS, "url", "image_url", "video_url", "audio_url", "file_url", "file_id")
)
_WHOLE: Final = re.compile(r"[0-9]{1,15}")

#: The field of the answer that names what was lowered, filled in or left out.
CLAMPED: Final = b"x-gateway-clamped"


class Meeting:
    """Implements `seams.Meet`."""

    def plain(self, asked: Resolved) -> bool:
        """Whether a call under no terms goes on as it is."""
        fields = asked.fields
        return fields is None or (asked.pool.settings.cache_salt is None and _LOOKED_AT.isdisjoint(fields))

    async def meet(self, asked: Resolved, grant: Grant, exchange: Exchange, outcome: Outcome) -> Resolved:
        """What may be sent on. Raises `CapExceeded`, `TooLarge`, and what reading a body raises."""
        terms = grant.terms or ((grant.rule, NO_TERMS),)
        if grant.terms:
            outcome.terms_rule = terms[0][0]
        if asked.payload == b"":
            return asked
        fields, payload, limit = asked.fields, asked.payload, asked.limit
        if fields is None:
            if (free := _unread(terms, asked, exchange)) is not None:
                rule, most = free
                outcome.terms_rule = rule
                return _with(asked, payload, min(limit, most), None)
            if payload is None:
                payload, fields = await _read(terms, asked, exchange)
        size = exchange.body.received
        if fields is None:
            _chosen(terms, _form(asked, exchange, size), outcome)
            return asked
        by = asked.pool.settings.cache_salt
        wanted = Wanted(fields, asked.interface, size, payload or b"", salted=by is not None)
        changes = _chosen(terms, wanted, outcome)
        _announce(changes, exchange, outcome)
        edits = {change.name: change.text for change in changes}
        if by is not None and asked.interface in _SALTED:
            edits["cache_salt"] = salt(by, grant)
        if edits:
            payload = jsonedit.edit(payload or b"", edits)
            fields = jsonbody.peek(payload).fields
            if len(payload) > limit:
                raise TooLarge.beyond(limit)
        return _with(asked, payload, limit, fields)


def _with(asked: Resolved, payload: bytes | None, limit: int, fields: dict[str, object] | None) -> Resolved:
    return Resolved(asked.needs, asked.pool, asked.target, payload, limit, asked.usage, fields, asked.interface)


def _unread(terms: _Listed, asked: Resolved, exchange: Exchange) -> tuple[str, int] | None:
    """The rule whose terms take a body that nobody understands, and how many bytes of it; None where none do.

    Raises `CapExceeded` where none could, because this body cannot be understood.
    """
    size = exchange.body.length
    free = [(each.input, rule) for rule, each in terms if not speak_of_fields(each)]
    if asked.payload is not None:
        free = [(most, rule) for most, rule in free if most is None or most >= exchange.body.received]
    if not free:
        if asked.payload is None and asked.interface not in _UNDERSTOOD:
            raise CapExceeded(UNREADABLE)
        return None
    fitting = [(most, rule) for most, rule in free if most is None or (size is not None and size <= most)]
    most, rule = fitting[0] if fitting else max(free, key=_most)
    return rule, asked.limit if most is None else most


def _most(free: tuple[int | None, str]) -> int:
    return free[0] or 0


async def _read(terms: _Listed, asked: Resolved, exchange: Exchange) -> tuple[bytes, dict[str, object]]:
    """The body of a route that usually passes it on unread. Raises what `Body.whole` and `jsonbody.peek` do."""
    require_uncoded(exchange.call.fields)
    most = [asked.limit if each.input is None else each.input for _, each in terms]
    content = await exchange.body.whole(min(asked.limit, max(most)))
    return content, jsonbody.peek(content).fields


def _form(asked: Resolved, exchange: Exchange, size: int) -> Wanted:
    form = formbody.read(require_form(exchange.call.fields), asked.payload or b"", _IN_FORMS)
    fields: dict[str, object] = {
        name: int(value) if name in NUMBERS and _WHOLE.fullmatch(value) else value
        for name, value in form.values.items()
    }
    return Wanted(fields, asked.interface, size)


def _chosen(terms: _Listed, wanted: Wanted, outcome: Outcome) -> tuple[Change, ...]:
    """What those terms change under which the call passes. Raises `CapExceeded` or `TooLarge`."""
    found = [(rule, each, [*excesses(each, wanted)], fill(each, wanted)) for rule, each in terms]
    passing: list[tuple[int, str, tuple[Change, ...]]] = []
    for rule, each, beyond, filled in found:
        more = () if filled is None else (filled,)
        lowered = tuple(one.lowered for one in beyond if one.lowered is not None)
        if not beyond:
            passing.append((len(more), rule, more))
        elif each.clamp and wanted.text and len(lowered) == len(beyond):
            passing.append((2, rule, (*lowered, *more)))
    if not passing:
        raise _refusal(found[0][2], clamps=found[0][1].clamp)
    _, rule, changes = min(passing, key=_rank)
    if outcome.terms_rule is not None:
        outcome.terms_rule = rule
    return changes


def _rank(passing: tuple[int, str, tuple[Change, ...]]) -> int:
    return passing[0]


def _refusal(beyond: list[Excess], *, clamps: bool) -> Refusal:
    """In the words of the first excess; where some would be lowered, of the first that cannot be."""
    first = next((one for one in beyond if clamps and one.lowered is None), beyond[0])
    return TooLarge(first.message) if first.bulky else CapExceeded(first.message, param=first.name or None)


def _announce(changes: Iterable[Change], exchange: Exchange, outcome: Outcome) -> None:
    """Say to the caller and in the log what was changed."""
    words = tuple(change.words for change in changes)
    if words:
        outcome.changed += words
        exchange.reply.tell(CLAMPED, ", ".join(words).encode())

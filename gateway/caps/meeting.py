"""A call is held against the terms of its grant, and what goes on is changed where the terms say so.

A grant can have several terms: a call passes under the first that take it as it is, else under the first that take it
with a budget filled in, else under the first that may lower what is too much; else the first of them refuse it.
Knows: how each kind of body is read and changed. Must not know: which rules there are, what a limit means, sockets.
"""

from __future__ import annotations

from typing import Final

from gateway.call import Grant
from gateway.caps import forms, members
from gateway.caps.excess import Change, Excess
from gateway.caps.salt import salt
from gateway.caps.terms import UNREADABLE, excesses, fill
from gateway.caps.wanted import Wanted
from gateway.errors import CapExceeded, Refusal, TooLarge, UnsupportedMedia
from gateway.exchange import Exchange
from gateway.resolve import jsonbody, jsonedit
from gateway.resolve.media import require_form, require_uncoded
from gateway.seams import Interface, Met, Resolved
from gateway.terms import ENGINE_FIELDS, NO_TERMS, Terms

_Listed = tuple[tuple[str, Terms], ...]

# Engines whose words these are know a salt (vLLM, SGLang); Anthropic's have none, and other servers may refuse it.
_SALTED: Final = frozenset((Interface.CHAT, Interface.COMPLETIONS, Interface.RESPONSES))

# Bodies that rows leave unread, and that are understood where terms ask for it.
_UNDERSTOOD: Final = frozenset((Interface.GENERATE, Interface.PLAIN))


class Meeting:
    """Implements `seams.Meet`."""

    def plain(self, asked: Resolved, grants: tuple[Grant, ...]) -> bool:
        """Whether the call goes on as it is."""
        for grant in grants:
            if grant.terms:
                return False
        fields = asked.fields
        if fields is None:
            return True
        unsteered = asked.ordinary or (ENGINE_FIELDS.isdisjoint(fields) and not members.steers(fields))
        return unsteered and asked.pool.settings.cache_salt is None

    async def opened(self, asked: Resolved, grants: tuple[Grant, ...], exchange: Exchange) -> Resolved:
        """The call with its body, where that has to be understood. Raises what `seams.Meet` says."""
        for grant in grants:
            try:
                asked = await _opened(_terms(grant), asked, exchange)
            except CapExceeded as refusal:
                _blame(refusal, grant)
                raise
            except TooLarge as refusal:
                if _largest(_terms(grant), asked) < asked.limit:
                    _blame(refusal, grant)
                raise
        return asked

    def held(self, asked: Resolved, grants: tuple[Grant, ...], exchange: Exchange) -> Met:
        """What may be sent on. Raises `CapExceeded`, `TooLarge`, and what reading a form raises."""
        if self.plain(asked, grants):
            return Met(grants[0], asked.to_send())
        rule: str | None = None
        changed: tuple[str, ...] = ()
        for grant in grants:
            try:
                met = _held(asked, grant, exchange)
            except CapExceeded as refusal:
                _blame(refusal, grant)
                raise
            asked, changed = met.resolved, changed + met.changed
            rule = met.rule if grant.terms else rule
        return Met(grants[0], asked.to_send(), rule, changed)


def _terms(grant: Grant) -> _Listed:
    return grant.terms or ((grant.rule, NO_TERMS),)


def _blame(refusal: Refusal, grant: Grant) -> None:
    """Name the rule, of what its terms refuse; an upload that breaks off is no rule's refusal."""
    if grant.terms:
        refusal.rule = grant.terms[0][0]


def _held(asked: Resolved, grant: Grant, exchange: Exchange) -> Met:
    """The same for one grant, with `fields` for the next."""
    terms = _terms(grant)
    if asked.payload == b"":
        return Met(grant, asked, terms[0][0])
    fields, payload, limit = asked.fields, asked.payload, asked.limit
    if fields is None:
        if (free := _unread(terms, asked, payload, exchange)) is not None:
            rule, most = free
            return Met(grant, _with(asked, payload, min(limit, most), None), rule)
        if payload is None:
            raise Refusal(detail="a call was to be held against terms that need its body, and nobody had read it")
    size = exchange.body.received
    if fields is None:
        return Met(grant, asked, _passing(grant, _form(asked, exchange, size))[0])
    by = asked.pool.settings.cache_salt
    wanted = Wanted(fields, asked.interface, size, payload or b"", salted=by is not None)
    rule, changes = _passing(grant, wanted)
    edits = {change.name: change.text for change in changes}
    if by is not None and asked.interface in _SALTED:
        edits["cache_salt"] = salt(by, grant)
    if edits:
        payload = jsonedit.edit(payload or b"", edits)
        fields = jsonbody.peek(payload).fields
        if len(payload) > limit:
            raise TooLarge.beyond(limit)
    return Met(grant, _with(asked, payload, limit, fields), rule, tuple(change.words for change in changes))


def _with(asked: Resolved, payload: bytes | None, limit: int, fields: dict[str, object] | None) -> Resolved:
    return Resolved(asked.needs, asked.pool, asked.target, payload, limit, asked.usage, fields, asked.interface)


def _unread(terms: _Listed, asked: Resolved, payload: bytes | None, exchange: Exchange) -> tuple[str, int] | None:
    """The rule whose terms take a body that nobody understands, and how many bytes of it.

    None where none do, or where it takes reading the body to tell whether one does or another rule.
    Raises `CapExceeded` where none could, because this body cannot be understood.
    """
    size = exchange.body.length if payload is None else exchange.body.received
    free = [(each.input, rule) for rule, each in terms if not each.needs_fields]
    fitting = [(most, rule) for most, rule in free if most is None or (size is not None and size <= most)]
    if not fitting:
        if payload is not None:
            return None
        largest = max(free, key=_most, default=None)
        readable = asked.interface in _UNDERSTOOD
        if largest is None and not readable:
            raise CapExceeded(UNREADABLE, detail=UNREADABLE)
        if largest is None or (readable and _reaches(terms, largest[0] or 0) and not _coded(exchange)):
            return None
        fitting = [largest]
    most, rule = fitting[0]
    return rule, asked.limit if most is None else most


def _most(free: tuple[int | None, str]) -> int:
    return free[0] or 0


def _reaches(terms: _Listed, most: int) -> bool:
    """Whether a rule that limits fields takes a body of more bytes than these."""
    return any(each.needs_fields and (each.input is None or each.input > most) for _, each in terms)


def _coded(exchange: Exchange) -> bool:
    try:
        require_uncoded(exchange.call.fields)
    except UnsupportedMedia:
        return True
    return False


async def _opened(terms: _Listed, asked: Resolved, exchange: Exchange) -> Resolved:
    """With the body of a route that usually passes it on unread, unless a rule takes it whatever it says.

    Raises what `Body.whole` and `jsonbody.peek` do, and `UnsupportedMedia`.
    """
    content = asked.payload
    known = content is not None and asked.interface not in _UNDERSTOOD
    if known or content == b"" or asked.fields is not None or _unread(terms, asked, content, exchange) is not None:
        return asked
    if content is None:
        require_uncoded(exchange.call.fields)
        content = await exchange.body.whole(_largest(terms, asked))
        if _unread(terms, asked, content, exchange) is not None:
            return _with(asked, content, asked.limit, None)
    return _with(asked, content, asked.limit, jsonbody.peek(content).fields)


def _largest(terms: _Listed, asked: Resolved) -> int:
    """How many bytes of a body some terms may take."""
    return min(asked.limit, max(asked.limit if each.input is None else each.input for _, each in terms))


def _form(asked: Resolved, exchange: Exchange, size: int) -> Wanted:
    fields = forms.fields(require_form(exchange.call.fields), asked.payload or b"")
    return Wanted(fields, asked.interface, size)


def _passing(grant: Grant, wanted: Wanted) -> tuple[str, tuple[Change, ...]]:
    """What `_chosen` says, where a body that is too large for the terms is refused in the name of their rule."""
    try:
        return _chosen(_terms(grant), wanted)
    except TooLarge as refusal:
        _blame(refusal, grant)
        raise


def _chosen(terms: _Listed, wanted: Wanted) -> tuple[str, tuple[Change, ...]]:
    """The rule under whose terms the call passes, and what they change. Raises `CapExceeded` or `TooLarge`."""
    found = [(rule, each, _beyond(each, wanted), fill(each, wanted)) for rule, each in terms]
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
    return rule, changes


def _beyond(terms: Terms, wanted: Wanted) -> list[Excess]:
    """What is too much, up to the first that decides: that it is, or where terms lower it, that it cannot be."""
    found: list[Excess] = []
    for one in excesses(terms, wanted):
        found.append(one)
        if not terms.clamp or one.lowered is None:
            break
    return found


def _rank(passing: tuple[int, str, tuple[Change, ...]]) -> int:
    return passing[0]


def _refusal(beyond: list[Excess], *, clamps: bool) -> Refusal:
    """In the words of the first excess; where some would be lowered, of the first that cannot be."""
    first = next((one for one in beyond if clamps and one.lowered is None), beyond[0])
    detail = first.facts or first.message  # names of members and numbers, nothing else of a body
    if first.bulky:
        return TooLarge(first.message, detail=detail)
    return CapExceeded(first.message, param=first.name or None, detail=detail)

"""Where the model of a matched request stands: a reader for each model source of the rule table but JSON bodies.

Each gives exactly what may go to a backend, built from what it checked.
Knows: form bodies, names in paths, a pool's only model, which other places could name a model.
Must not know: how a row was found, who asks, what the gateway answers itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.call import Call, ModelRef, Operation
from gateway.errors import AmbiguousModel, BadRequest, NotFound, Refusal, TooLarge, UnknownModel
from gateway.exchange import Body
from gateway.pools.backends import Pool
from gateway.resolve import formbody, jsonbody, paths
from gateway.resolve.media import Media, require_form, require_json, require_once
from gateway.resolve.models import Face, Served
from gateway.resolve.plans import Plan, Split
from gateway.resolve.rules import Default, Found, Row, Source
from gateway.seams import Interface, Resolved, UsageKind
from gateway.terms import ENGINE_FIELDS

#: What a name in a path may look like; the length also bounds it in logs.
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,255}")

_EMBEDDINGS = "/v1/embeddings"

# Ids of things that a backend keeps; whose they are is not known here, so nobody gets at them.
_KEPT = ("previous_response_id", "conversation")

#: Members that name a model, or what is kept for somebody.
WATCHED = frozenset((*_KEPT, *paths.NAMING))

#: Members that decide what runs. Servers exist (those in Go) that know them in any case of letters.
DECIDING = frozenset((*WATCHED, jsonbody.MODEL, jsonbody.STREAM, *ENGINE_FIELDS))

# What servers take for a boolean in a form, in any case; they disagree about everything else.
_SAID = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}

_USAGE: Mapping[tuple[str, Source], UsageKind] = {
    ("openai", Source.JSON): UsageKind.OPENAI,
    ("openai", Source.FORM): UsageKind.OPENAI,
    ("retriever", Source.JSON): UsageKind.OPENAI,
}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request with the row that fits it. `path` stands behind the prefix; `pools` are those that may be meant.

    `largest` is the body size in bytes that any pool takes which sets no `max_body` of its own; `most` what
    some of the pools takes. All of it follows from the head of the request, `media` too: what a form said of itself.
    `bodiless`: whatever body came stays here.
    """

    face: Face
    path: str
    query: str | None
    found: Found
    row: Row
    pools: tuple[Pool, ...]
    largest: int
    most: int
    target: bytes
    usage: UsageKind
    media: Media | None
    bodiless: bool
    plans: dict[tuple[str | None, bool], Plan | Split] = field(default_factory=dict)


def asked(call: Call, face: Face, path: str, found: Found, pools: tuple[Pool, ...], largest: int) -> Ask:
    """What the head of a request asks. Raises `BadRequest` or `UnsupportedMedia` for a body that could not be read."""
    row, media = found.row, None
    if row.source is Source.JSON:
        require_json(call.fields)
    elif row.source is Source.FORM:
        media = require_form(call.fields)
    else:
        require_once(call.fields)
    most = max((limit(pool, largest) for pool in pools), default=0)
    # RFC 9110 §9.3.1: a body of GET means nothing, and a server that does not read it takes it for the next request.
    bodiless = call.method in {"GET", "HEAD"}
    target, usage = _target(path, call.query), _usage(row)
    return Ask(face, path, call.query, found, row, pools, largest, most, target, usage, media, bodiless)


def limit(pool: Pool, largest: int) -> int:
    """Bytes of a body that this pool takes."""
    return largest if pool.settings.max_body is None else pool.settings.max_body


async def from_form(ask: Ask, body: Body) -> Resolved:
    """The model is a field of a form, or what stands before the first dot of a voice."""
    if ask.media is None:
        raise NotFound(detail="the rule reads a form where none was announced")
    content = await body.whole(ask.most)
    name = ask.row.field
    form = formbody.read(ask.media, content, frozenset({name, "stream", *WATCHED}))
    given = form.values.get(name)
    voiced = name == "voice"
    asked, dot, rest = given.partition(".") if given is not None and voiced else (given, "", "")
    if asked == "":
        raise BadRequest(f"'{name}' names no model.", param=name)
    streamed = _streamed(form.values) and ask.row.starred
    refuse_for_all(form.values)
    served, payload = served_by(ask, asked), content
    needs, most = (
        needs_of(ask.row, served, Operation.STREAM if streamed else operation_of(ask.row)),
        limit(served.pool, ask.largest),
    )
    try:
        require_one_name(ask, form.values, served.sent)
        if asked != served.sent and not (voiced and asked is None):  # a voice cannot be made up; its server has one
            payload = form.rewritten(name, served.sent + dot + rest)
        if len(payload) > most:
            raise TooLarge
    except Refusal as wrong:
        return Resolved.unfit(needs, served.pool, wrong)
    return Resolved(needs, served.pool, ask.target, payload, most, ask.usage, None, ask.row.interface)


def _streamed(values: Mapping[str, str]) -> bool:
    said = _SAID.get(values.get("stream", "false").lower())
    if said is None:
        raise BadRequest("'stream' must be true or false.", param="stream")
    return said


async def from_path(ask: Ask, body: Body) -> Resolved:
    """The model, and perhaps its version, is part of the path; the body goes by unread."""
    match, row = ask.found.match, ask.row
    if match is None:
        raise NotFound(detail="the rule names a group of a path that has none")
    name, version = match.group(row.group), match.group(row.version) if row.version else None
    if MODEL_NAME.fullmatch(name) is None:
        raise UnknownModel(param="model")
    served = _named(ask, name)
    needs = needs_of(ask.row, served, operation_of(row), version)
    try:
        require_one_name(ask, {}, served.sent)
        path = ask.path if name == served.sent else _renamed(ask, match, served)
    except Refusal as wrong:
        return Resolved.unfit(needs, served.pool, wrong)
    return _unread(ask, served.pool, needs, path, body)


async def from_pool(ask: Ask, body: Body) -> Resolved:
    """Nothing names a model: whatever the only pool serves is meant, and all of it has to be granted."""
    if len(ask.pools) != 1:
        if ask.row.default is Default.GRANT:
            raise BadRequest("Several services answer at this path; use the path prefix of the one you mean.")
        raise NotFound(detail="several pools are meant by a path that stands for one")
    pool = ask.pools[0]
    if not pool.settings.models:
        raise NotFound(detail=f"pool {pool.name} has no models")
    operation, explicit = operation_of(ask.row), _explicit(ask.row)
    models = pool.settings.models
    sent = frozenset(model.backend_name or model.name for model in models)
    needs = tuple(ModelRef(model.name, operation, explicit=explicit) for model in models)
    try:
        paths.agree(ask.query, sent if len(sent) == 1 else frozenset())
    except Refusal as wrong:
        return Resolved.unfit(needs, pool, wrong)
    return _unread(ask, pool, needs, ask.path, body)


def _renamed(ask: Ask, match: re.Match[str], served: Served) -> str:
    """The path with the name that the backend knows; it has to be a path of the same row, with that very name in it."""
    group, pattern = ask.row.group, ask.row.pattern
    start, end = match.span(group)
    path = ask.path[:start] + served.sent + ask.path[end:]
    again = pattern.fullmatch(path)
    if again is None or again.group(group) != served.sent or not paths.plain(path):
        raise NotFound(detail=f"model {served.name}: its backend_name does not fit into this path")
    return path


def served_by(ask: Ask, name: str | None) -> Served:
    """The model that a body asks for. Raises the same for one that is unknown and one that this path is closed for."""
    if name is None:
        return ask.face.default(ask.pools)
    find = ask.face.in_role if ask.path == _EMBEDDINGS else ask.face.named
    return _one_of(ask, find(ask.row.set, name))


def require_one_name(ask: Ask, given: Mapping[str, object], sent: str) -> None:
    """Refuse what names a model besides the one that is sent, unless it is the same. Raises `AmbiguousModel`."""
    if ask.query is not None:
        paths.agree(ask.query, frozenset({sent}))
    if not WATCHED.isdisjoint(given):
        for name in paths.NAMING:
            if given.get(name) is not None and given[name] != sent:
                raise AmbiguousModel(f"'{name}' names another model than 'model'; leave it out.", param=name)


def _named(ask: Ask, name: str) -> Served:
    """The model that a path asks for; on a route closed to most, an unknown name answers as that route does."""
    try:
        return _one_of(ask, ask.face.named(_protocol(ask, name), name))
    except UnknownModel:
        if _explicit(ask.row):
            raise NotFound(detail="no such model") from None
        raise


def _one_of(ask: Ask, served: Served) -> Served:
    """A closed path is open only on the pools that open it. Raises what is raised for a name that means nothing."""
    if served.pool not in ask.pools:
        raise UnknownModel(param="model", detail=f"pool {served.pool.name} does not open this path")
    return served


def _protocol(ask: Ask, name: str) -> str:
    """Rows for every protocol (set `any`): the protocol of a pool that opened the path and has the model."""
    if ask.row.set in ask.face.names:
        return ask.row.set
    spoken = [each for pool in ask.pools for each in pool.settings.protocols if name in ask.face.names[each]]
    return spoken[0] if spoken else ask.row.set


def operation_of(row: Row) -> Operation:
    # What no rule describes may do anything, so it needs the strongest grant there is.
    return row.operation or Operation.ADMIN


def _explicit(row: Row) -> bool:
    return row.default is Default.OPS or operation_of(row) is Operation.ADMIN


def needs_of(row: Row, served: Served, operation: Operation, version: str | None = None) -> tuple[ModelRef, ...]:
    explicit = _explicit(row)
    if version is None and not explicit:
        return served.needs[operation]
    return (ModelRef(served.name, operation, version, explicit),)


def refuse_for_all(given: Mapping[str, object]) -> None:
    """Refuse, whatever the model: a member of `DECIDING` in other letters, an id of what is kept for somebody."""
    for name in given:
        if not (name.islower() and name.isascii()) and (plain := name.casefold()) in DECIDING:
            raise BadRequest(f"Write '{plain}' in lower case.", param=plain)
    for name in _KEPT:
        if given.get(name) is not None:
            raise NotFound(
                f"'{name}' is not available here: send the whole conversation with each request.", param=name
            )


def _unread(ask: Ask, pool: Pool, needs: tuple[ModelRef, ...], path: str, body: Body) -> Resolved:
    payload = b"" if ask.bodiless or body.length == 0 else None
    target, most = _target(path, ask.query), limit(pool, ask.largest)
    return Resolved(needs, pool, target, payload, most, UsageKind.NONE, None, ask.row.interface)


def _target(path: str, query: str | None) -> bytes:
    return (path if query is None else f"{path}?{query}").encode("ascii")


def _usage(row: Row) -> UsageKind:
    if row.default is not Default.GRANT:
        return UsageKind.NONE
    if row.interface is Interface.MESSAGES:  # a row beside it counts the tokens of a question, and uses none
        return UsageKind.ANTHROPIC
    return _USAGE.get((row.set, row.source), UsageKind.NONE)

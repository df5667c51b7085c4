"""From a request to what it asks for: an interpreter of the rule table, over the pools.

Knows: prefixes, which rows are open, the gateway's own pages.
Must not know: how a body or a name is read (`sources`), what rules of the policy look like, sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NoReturn

from gateway import dialects
from gateway.call import Call, Channel, Dialect, ModelRef, Operation, Principal
from gateway.errors import NotFound, UnknownModel
from gateway.exchange import Body
from gateway.pools.backends import Pool
from gateway.resolve import pages, paths
from gateway.resolve.jsonsource import from_json
from gateway.resolve.models import Catalogue, Face
from gateway.resolve.rules import ANY, Default, Found, Row, Source, Table, first, shipped
from gateway.resolve.sources import Ask, asked, from_form, from_path, from_pool
from gateway.seams import Choice, OwnAnswer, OwnPage, Resolved
from gateway.settings import Alias

May = Callable[[Principal, ModelRef, int], bool]

_MODELS = "/v1/models"
_MODEL = "/v1/models/(.+)"
_SERVER = "/v2"
_INDEX = "/v2/repository(?:/[^/]+)?/index"
_HEALTH = ("/v1/health/live", "/v1/health/ready", "/v2/health/live", "/v2/health/ready")

# Rows that the gateway answers for itself, whatever the pools speak.
_ALWAYS = frozenset({_MODELS, _MODEL})

# JSON members by which a body names something else than a model; nothing reads those, so the rows stay closed.
_READABLE = frozenset({"", "model", "voice"})


_Reader = Callable[[Ask, Body], Coroutine[Any, Any, Resolved | Choice]]
_Reading = tuple[Ask, _Reader]

# How to read each source; those that are not here (`ledger`, `frame`) are closed.
_READERS: Mapping[Source, _Reader] = {
    Source.JSON: from_json,
    Source.FORM: from_form,
    Source.PATH: from_path,
    Source.POOL: from_pool,
    Source.NONE: from_pool,
}


@dataclass(frozen=True, slots=True)
class OwnPageHere:
    """The route leads to a page of the gateway."""

    page: OwnPage

    async def given(self) -> OwnPage:
        """The page, without waiting."""
        return self.page


# What is answered here rather than by a backend, by the row that finds it.
_PAGES = frozenset({_MODELS, _MODEL, _SERVER, _INDEX})


class HttpResolver:
    """Implements `seams.Resolver` for one generation of the configuration.

    `may`: whether a caller is granted this under the rules that hold. `max_body`: bytes, for pools that set none.
    `ready`: is the gateway? `rows`: the rule table, None for the shipped one. `aliases`: names that models share.
    Raises `ValueError` for pools that give one name to two models, and for a table that leaves out a page of the
    gateway.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        may: May,
        max_body: int,
        ready: Callable[[], bool],
        rows: Sequence[Row] | None = None,
        aliases: Sequence[Alias] = (),
    ) -> None:
        #: The names that are served, for whoever else shows them.
        self.catalogue: Final = Catalogue(pools, aliases)
        self._may = may
        self._max_body = max_body
        self._ready = ready
        rows = shipped() if rows is None else rows
        self._tables = {face.prefix: Table(_rows(rows, face)) for face in self.catalogue.faces}
        self._open = dict(chain.from_iterable(map(self._probes, self.catalogue.faces)))
        _find_all(_PAGES | _ALWAYS, rows)

    def dialect(self, path: str) -> Dialect:
        """Whose error bodies a caller of this path understands."""
        return dialects.dialect_of(path.removeprefix(self.catalogue.face(path).prefix))

    def open(self, call: Call) -> OwnAnswer | None:
        """Health of the gateway, at exactly these paths; else None."""
        probe = self._open.get((call.method, call.path))
        return probe() if probe is not None else None

    def resolve(self, call: Call, body: Body) -> Coroutine[Any, Any, Resolved | Choice | OwnPage]:
        """What is asked for. Raises what `seams.Resolver` lists; a body is read only where the path is open."""
        reading: _Reading | OwnPageHere | None = call.derived.get(self)
        if reading is None:
            reading = self._reading(call)
            call.note(self, reading)
        if isinstance(reading, OwnPageHere):
            return reading.given()
        ask, reader = reading
        return reader(ask, body)

    def _reading(self, call: Call) -> _Reading | OwnPageHere:
        """What the head says: what is asked and how to read the rest, or a page of ours."""
        face = self.catalogue.face(call.path)
        path = call.path.removeprefix(face.prefix)
        found = self._find(call, face, path)
        row = found.row
        if row.pattern.pattern in _PAGES:
            return OwnPageHere(self._page(row.pattern.pattern, face, path))
        reader = _READERS.get(row.source)
        if reader is None or row.field not in _READABLE or row.default is Default.PROBE:
            _closed("nothing reads where this route names its model")
        pools = self._candidates(face, row, path)
        return asked(call, face, path, found, pools, self._max_body), reader

    def _find(self, call: Call, face: Face, path: str) -> Found:
        table = self._tables[face.prefix]
        found = table.literal(call.method, path)
        if found is None or call.query is not None:
            paths.check(path, call.query)
            found = found or table.find(call.method, path)
        if found is None or call.channel is not Channel.HTTP:
            _closed("no rule")
        return found

    def _candidates(self, face: Face, row: Row, path: str) -> tuple[Pool, ...]:
        """The pools that a row can mean. Raises `NotFound` where none has opened a closed path."""
        pools = face.pools if row.set == ANY else face.speakers.get(row.set, ())
        if row.default is Default.DENY:
            pools = tuple(pool for pool in pools if path in pool.settings.open)
        return pools or _closed("no pool has it open")

    def _probes(self, face: Face) -> list[tuple[tuple[str, str], Callable[[], OwnAnswer]]]:
        probes = []
        for path in _HEALTH:
            for method in ("GET", "HEAD"):
                found = self._tables[face.prefix].find(method, path)
                if found is not None and found.row.default is Default.PROBE:
                    probes.append(((method, face.prefix + path), self._probe(path)))
        return probes

    def _probe(self, path: str) -> Callable[[], OwnAnswer]:
        dialect = dialects.dialect_of(path)
        if path.endswith("live"):
            return lambda: pages.health(dialect, "live", good=True)
        ready = self._ready
        return lambda: pages.health(dialect, "ready", good=ready())

    def _granted(self, face: Face, principal: Principal, holding: int, operation: Operation) -> dict[str, None]:
        """Names and aliases to be seen by a caller, each once, as configured; a shared one for any of its models."""
        names: dict[str, None] = {
            name: None
            for _, model in self.catalogue.models(face)
            if self._may(principal, ModelRef(model.name, operation), holding)
            for name in (model.name, *model.aliases)
        }
        for shared in self.catalogue.shared(face):
            if any(self._may(principal, ModelRef(model.name, operation), holding) for model, _ in shared.models):
                names[shared.name] = None
        return names

    def _page(self, pattern: str, face: Face, path: str) -> OwnPage:
        """One of `_PAGES`. No table of methods: that and the resolver would hold each other after a reload."""
        if pattern == _MODELS:
            return self._list(face, path)
        if pattern == _MODEL:
            return self._one(face, path)
        if pattern == _INDEX:
            return self._index(face, path)
        return pages.Page(lambda _principal, _holding: pages.server())

    def _list(self, face: Face, _path: str) -> OwnPage:
        return pages.Page(
            lambda principal, holding: pages.models(self._granted(face, principal, holding, Operation.LIST))
        )

    def _one(self, face: Face, path: str) -> OwnPage:
        name = paths.model_id(path)

        def one(principal: Principal, holding: int) -> OwnAnswer:
            if name not in self._granted(face, principal, holding, Operation.METADATA):
                raise UnknownModel(param="model")
            return pages.model(name)

        return pages.Page(one)

    def _index(self, face: Face, _path: str) -> OwnPage:
        def index(principal: Principal, holding: int) -> OwnAnswer:
            names = [
                model.name
                for pool in face.speakers.get("kserve", ())
                for model in pool.settings.models
                if self._may(principal, ModelRef(model.name, Operation.LIST, explicit=True), holding)
            ]
            return pages.index(names) if names else _closed("no rule lists the repository index")

        return pages.Page(index)


def _find_all(own: Iterable[str], rows: Sequence[Row]) -> None:
    """Own pages are found by the text of their rows: one that is written in another way would be relayed."""
    missing = sorted(set(own) - {row.pattern.pattern for row in rows})
    missing += [path for path in _HEALTH if (found := first(rows, "GET", path)) is None or not _is_probe(found.row)]
    if missing:
        raise ValueError(f"the rule table has no row for a page of the gateway: {', '.join(missing)}")


def _is_probe(row: Row) -> bool:
    return row.default is Default.PROBE


def _rows(rows: Sequence[Row], face: Face) -> list[Row]:
    """The rows that hold under a prefix; without one also those that the gateway answers whatever its pools speak."""
    return [
        row
        for row in rows
        if row.set in face.speakers
        or row.set == ANY
        or (not face.prefix and (row.default is Default.PROBE or row.pattern.pattern in _ALWAYS))
    ]


def _closed(why: str) -> NoReturn:
    raise NotFound(detail=why)

"""Names and aliases of models, and the pools that serve them, under the path prefix where they stand.

Knows: which pool speaks which protocol, what a backend calls a model.
Must not know: paths behind the prefix, bodies, callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.call import ModelRef, Operation
from gateway.errors import BadRequest, UnknownModel
from gateway.pools.backends import Pool
from gateway.resolve.likeness import ROLES, Names, likenesses
from gateway.settings import Alias, Model


@dataclass(frozen=True, slots=True)
class Served:
    """A model of a pool. `sent` is its name as the backend knows it; `needs` asks for it, by operation.

    `fallback`: the names of those that may stand in for it, best first.
    """

    pool: Pool
    name: str
    sent: str
    needs: Mapping[Operation, tuple[ModelRef, ...]] = field(repr=False)
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """A name that several models share, each with its weight."""

    name: str
    models: tuple[tuple[Served, int], ...]


@dataclass(frozen=True, slots=True)
class Face:
    """The pools under one prefix ("" for none)."""

    prefix: str
    pools: tuple[Pool, ...]
    names: Mapping[str, Mapping[str, Served]] = field(repr=False)
    shared: Mapping[str, Mapping[str, Shared]] = field(repr=False)
    speakers: Mapping[str, tuple[Pool, ...]] = field(repr=False)

    def named(self, protocol: str, name: str) -> Served:
        """The model of this name or alias. Raises `UnknownModel`, in the same words for every name."""
        served = self.names[protocol].get(name) if protocol in self.names else None
        if served is None:
            raise UnknownModel(param="model")
        return served

    def in_role(self, protocol: str, name: str) -> Served:
        """Like `named`, for embeddings: a role behind the name is set aside and goes on to the backend."""
        if name not in self.names.get(protocol, {}):
            for role in ROLES:
                if name.endswith(role):
                    served = self.named(protocol, name.removesuffix(role))
                    return replace(served, sent=served.sent + role, fallback=())  # others may not know the role
        return self.named(protocol, name)

    def default(self, pools: Sequence[Pool]) -> Served:
        """What an absent name means: the only model of the only pool. Raises `BadRequest`."""
        if len(pools) != 1 or len(pools[0].settings.models) != 1:
            raise BadRequest("Name the model: 'model' is missing.", param="model")
        return _served(pools[0], pools[0].settings.models[0])


class Catalogue:
    """All that is served. Raises `ValueError` for a name that means two models of one protocol, or could be made to."""

    __slots__ = ("_aliases", "_pools", "faces")

    def __init__(self, pools: Iterable[Pool], aliases: Iterable[Alias] = ()) -> None:
        self._pools = tuple(pools)
        self._aliases = tuple(aliases)
        for pool in self._pools:
            _require_unlike(pool)
        prefixes = {"": None} | {pool.settings.prefix: None for pool in self._pools}
        #: Longest prefix first, "" last.
        self.faces = tuple(self._face(prefix) for prefix in sorted(prefixes, key=len, reverse=True))

    def face(self, path: str) -> Face:
        """Where a path leads: the face with the longest prefix in whole segments."""
        for face in self.faces:
            if path.startswith(face.prefix) and path[len(face.prefix) : len(face.prefix) + 1] == "/":
                return face
        return self.faces[-1]

    def models(self, face: Face) -> Iterator[tuple[Pool, Model]]:
        """The models to be seen at a face: those under its prefix, and all of them where there is none."""
        for pool in face.pools if face.prefix else self._pools:
            for model in pool.settings.models:
                yield pool, model

    def shared(self, face: Face) -> Iterator[Shared]:
        """The shared names to be seen at a face: those under its prefix, and all of them where there is none."""
        for each in (face,) if face.prefix else self.faces:
            for named in each.shared.values():
                yield from named.values()

    def _face(self, prefix: str) -> Face:
        pools = tuple(pool for pool in self._pools if pool.settings.prefix == prefix)
        names: dict[str, dict[str, Served]] = {}
        speakers: dict[str, tuple[Pool, ...]] = {}
        for pool in pools:
            for protocol in pool.settings.protocols:
                speakers[protocol] = (*speakers.get(protocol, ()), pool)
                _enter(names.setdefault(protocol, {}), pool, protocol)
        shared = {protocol: _share(named, self._aliases) for protocol, named in names.items()}
        return Face(prefix, pools, names, shared, speakers)


def _require_unlike(pool: Pool) -> None:
    models = pool.settings.models
    names = [Names(model.name, model.aliases, model.backend_name or model.name) for model in models]
    for found in likenesses(pool.settings.protocols, names):
        other = models[found.other].name
        raise ValueError(f"pool {pool.name}: {found.reached!r} could be reached under the grant for {other!r}")


def _enter(names: dict[str, Served], pool: Pool, protocol: str) -> None:
    for model in pool.settings.models:
        served = _served(pool, model)
        for name in (model.name, *model.aliases):
            if name in names:
                raise ValueError(f"pool {pool.name}: the name {name!r} already means a {protocol} model")
            names[name] = served


def _served(pool: Pool, model: Model) -> Served:
    needs = {operation: (ModelRef(model.name, operation),) for operation in Operation}
    return Served(pool, model.name, model.backend_name or model.name, needs, model.fallback)


def _share(names: Mapping[str, Served], aliases: Iterable[Alias]) -> dict[str, Shared]:
    """The aliases whose models are all among these."""
    found = {}
    for alias in aliases:
        models = [(names.get(target.model), target) for target in alias.targets]
        sharing = [(model, target.weight) for model, target in models if model is not None and target.weight]
        if sharing and all(model is not None and model.name == target.model for model, target in models):
            if alias.name in names:
                raise ValueError(f"alias {alias.name!r}: this name already means a model")
            found[alias.name] = Shared(alias.name, tuple(sharing))
    return found

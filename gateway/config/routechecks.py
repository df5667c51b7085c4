"""What must hold between models: those that stand in for each other, and those that share a name.

Knows: models, pools, protocols, prefixes. Must not know: files on disk, how anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.config.part import Finding, Part
from gateway.config.units import whole
from gateway.config.values import IN_BODY

#: Models that may stand in for one: a call that fails everywhere must still end soon.
MOST_FALLBACKS: Final = 4

#: Models that may share a name: all of them draw for each call.
MOST_TARGETS: Final = 16

_SPEAKERS: Final = ", ".join(IN_BODY)


@dataclass(frozen=True, slots=True)
class _Home:
    """Where a model is served: the place of its pool, the protocols that name a model in a body, the prefix."""

    pool: Part
    protocols: frozenset[str]
    prefix: str


def routes(file: Part) -> Iterator[Finding]:
    """Everything that is wrong with `fallback` and `aliases`."""
    homes: dict[str, list[_Home]] = {}
    for pool in file["pools"]:
        protocols = frozenset(part.text for part in pool["protocols"].texts()) & frozenset(IN_BODY)
        home = _Home(pool, protocols, pool["prefix"].text)
        for model in pool["models"]:
            if model["name"].text:
                homes.setdefault(model["name"].text, []).append(home)
    for pool in file["pools"]:
        for model in pool["models"]:
            yield from _fallback(model, pool, homes)
    yield from _aliases(file, homes)


def _fallback(model: Part, pool: Part, homes: dict[str, list[_Home]]) -> Iterator[Finding]:
    fallback, name = model["fallback"], model["name"].text
    if isinstance(fallback.value, list) and len(fallback.value) > MOST_FALLBACKS:
        yield Finding(fallback.path, f"at most {MOST_FALLBACKS} models can stand in for one")
    seen: set[str] = set()
    for target in fallback.texts():
        if target.text == name:
            yield Finding(target.path, "a model cannot stand in for itself")
        elif target.text in seen:
            yield Finding(target.path, "this model stands in the list already")
        elif target.text not in homes:
            yield Finding(target.path, f"'{target.text}' is no configured model; aliases are not taken here")
        elif not any(_beside(home, pool) for home in homes[target.text]):
            yield Finding(
                target.path,
                f"'{target.text}' cannot take these calls: its pool must speak a protocol of this one under the same "
                f"prefix, one of {_SPEAKERS}",
            )
        seen.add(target.text)


def _beside(home: _Home, pool: Part) -> bool:
    spoken = {part.text for part in pool["protocols"].texts()}
    return not home.protocols.isdisjoint(spoken) and home.prefix == pool["prefix"].text


def _aliases(file: Part, homes: dict[str, list[_Home]]) -> Iterator[Finding]:
    taken = _taken(file)
    seen: set[str] = set()
    for alias in file["aliases"]:
        name = alias["name"]
        if name.text and name.text in seen:
            yield Finding(name.path, "an alias with this name stands above already")
        seen.add(name.text)
        yield from _targets(alias["targets"], homes)
        spoken = _spoken(alias["targets"], homes)
        clash = next((protocol for protocol in sorted(spoken) if (protocol, name.text) in taken), None)
        if clash is not None:
            yield Finding(name.path, f"'{name.text}' is a model or alias of a pool already, for protocol {clash}")


def _targets(targets: Part, homes: dict[str, list[_Home]]) -> Iterator[Finding]:
    if not isinstance(targets.value, list):
        return
    if not 1 <= len(targets.value) <= MOST_TARGETS:
        yield Finding(targets.path, f"from 1 to {MOST_TARGETS} models share a name")
        return
    seen: set[str] = set()
    known = True
    for model in (target["model"] for target in targets):
        known = known and model.text in homes
        if model.text and model.text in seen:
            yield Finding(model.path, "this model stands in the list already")
        elif model.text and model.text not in homes:
            yield Finding(model.path, f"'{model.text}' is no configured model; aliases are not taken here")
        seen.add(model.text)
    if all(target["weight"].read(whole(0, 1000), 1) == 0 for target in targets):
        yield Finding(targets.path, "at least one weight must be above 0: the name would lead nowhere")
    if known and not _spoken(targets, homes):
        yield Finding(
            targets.path, f"these models have no protocol in common under one prefix that is one of {_SPEAKERS}"
        )


def _spoken(targets: Part, homes: dict[str, list[_Home]]) -> set[str]:
    """The protocols in which all these models are served under one prefix."""
    each = [
        {(protocol, home.prefix) for home in homes.get(target["model"].text, ()) for protocol in home.protocols}
        for target in targets
    ]
    return {protocol for protocol, _ in set.intersection(*each)} if each else set()


def _taken(file: Part) -> set[tuple[str, str]]:
    """Names of models and aliases, by protocol."""
    return {
        (protocol.text, name.text)
        for pool in file["pools"]
        for protocol in pool["protocols"].texts()
        for model in pool["models"]
        for name in (model["name"], *model["aliases"].texts())
        if name.text
    }

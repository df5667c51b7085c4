"""Models that cannot stand beside each other: what may be put behind the name of one makes the name of another.

A role behind an embedding model's name and a speaker behind a voice's go on to the backend, and the grant is for the
model in front. So what comes out of it must never be what the backend knows another model by.
Knows: what may stand behind a name, by protocol. Must not know: pools, paths, bodies, files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: What a retriever may put behind an embedding model's name; it goes on to the backend, and means the same model.
ROLES = ("-query", "-passage")


@dataclass(frozen=True, slots=True)
class Names:
    """All names of a model; `sent` is what the backend calls it."""

    name: str
    aliases: Sequence[str]
    sent: str


@dataclass(frozen=True, slots=True)
class Likeness:
    """`reached` is a name of model number `model`, and so is `stem` of model number `other`, which it begins with."""

    model: int
    reached: str
    other: int
    stem: str


def _without_role(name: str) -> list[str]:
    return [name.removesuffix(role) for role in ROLES if name.endswith(role)]


def _without_speaker(name: str) -> list[str]:
    return [name[:at] for at, letter in enumerate(name) if letter == "."]


_STEMS: Mapping[str, Callable[[str], list[str]]] = {"openai": _without_role, "speech-http": _without_speaker}


def likenesses(protocols: Sequence[str], models: Sequence[Names]) -> Iterator[Likeness]:
    """Each model of a pool that could be reached under the grant of another one of it."""
    owners: dict[str, list[int]] = {}
    for number, names in enumerate(models):
        for name in {names.name, *names.aliases, names.sent}:
            owners.setdefault(name, []).append(number)
    ways = [_STEMS[protocol] for protocol in protocols if protocol in _STEMS]
    for number, names in enumerate(models):
        for reached in dict.fromkeys((names.name, names.sent)):
            for stem in (stem for way in ways for stem in way(reached)):
                yield from (Likeness(number, reached, other, stem) for other in owners.get(stem, ()) if other != number)

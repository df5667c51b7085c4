"""Members that limits speak of or that reach into the engine, wherever in a body an engine may look for them.

Each object counts as if it stood at the top, however deep it lies: which of them a server unpacks (`nvext`,
`extra_body`, `parameters`, `guardrails.options.llm_params`) nobody can list. Only what a member of `SAID` holds is the
caller's own: conversations, schemas of tools and answers, notes.
The body is passed over once, whatever it holds, and names that no engine could know for their length are not folded.
Knows: how members lie within each other. Must not know: limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

#: Members whose objects are what a call is about, and steer nothing.
SAID: Final = frozenset(
    (
        "chunking_strategy", "content", "documents", "function_call", "functions", "guided_grammar", "guided_json",
        "input", "json_schema", "logit_bias", "mcp_servers", "messages", "metadata", "output_config", "passages",
        "prediction", "prompt", "query", "response_format", "schema", "stop", "stream_options", "structural_tag",
        "structured_outputs", "system", "text", "tool_choice", "tools", "web_search_options",
    )
)  # fmt: skip

#: Characters of a name beyond which it is none that an engine knows.
LONGEST: Final = 64

#: Members that are found in one body; SDKs write ten. Bounds what is done for each rule.
MOST: Final = 1000

_NAMES: Final = 3  # of a place that are told, beside the first


class Place:
    """An object below the top level."""

    __slots__ = ("_depth", "_name", "_top", "_within")

    def __init__(self, name: str, within: Place | None) -> None:
        self._name = name[:LONGEST]
        self._within = within
        self._top: str = self._name if within is None else within._top
        self._depth: int = 1 if within is None else within._depth + 1

    def path(self, name: str) -> str:
        """Where this member of the object stands; of many names the first and the last."""
        names = [name]
        place: Place | None = self
        while place is not None and len(names) <= _NAMES:
            names.append(place._name)
            place = place._within
        if place is not None:
            names.append(place._top if place._depth == 1 else f"{place._top}.…")
        return ".".join(reversed(names))


class Member:
    """`plain`: its name as engines write it. `place` is None at the top level."""

    __slots__ = ("name", "place", "plain", "value")

    def __init__(self, name: str, plain: str, value: object, place: Place | None) -> None:
        self.name: Final = name
        self.plain: Final = plain
        self.value: Final = value
        self.place: Final = place

    @property
    def path(self) -> str:
        """Its name with those of the members that hold it."""
        return self.plain if self.place is None else self.place.path(self.plain)


def plain(name: str) -> str:
    """A name as it would be written if nobody meant to hide it; empty where it is too long for one."""
    return name.casefold().removesuffix("[]") if len(name) <= LONGEST else ""


def steers(fields: Mapping[str, object]) -> bool:
    """Whether a top level holds objects that may steer anything."""
    return any(isinstance(value, dict | list) and name not in SAID for name, value in fields.items())


def find(fields: Mapping[str, object], known: Callable[[str], bool]) -> list[Member]:
    """The members whose plain names are known: of the top level first, in order; no more once there are `MOST`."""
    found: list[Member] = []
    waiting: list[tuple[object, str, Place | None]] = [(fields, "", None)]
    while waiting and len(found) <= MOST:
        value, within, place = waiting.pop()
        if isinstance(value, list):
            waiting.extend([(each, within, place) for each in value if isinstance(each, dict | list)])
        elif isinstance(value, dict):
            here = None if value is fields else Place(within, place)
            for name, each in value.items():
                as_written = plain(name)
                if as_written and known(as_written):
                    found.append(Member(name, as_written, each, here))
                if isinstance(each, dict | list) and name not in SAID:
                    waiting.append((each, name, here))
    return found

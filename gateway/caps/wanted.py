"""One call as its body has it, looked at as far as the limits need.

Knows: members that hold others, what counts as a prompt. Must not know: limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gateway.caps.media import Media
from gateway.resolve import jsonbody
from gateway.seams import Interface

#: Members whose own members some servers read as if they stood at the top: NIM, SDKs, Triton and TGI, SGLang.
HOLDERS: Final = ("nvext", "extra_body", "parameters", "sampling_params")


class Wanted:
    """What a call asks for. `text` is empty where the body is no JSON and cannot be changed. `size`: its bytes.

    `salted`: the gateway says whose caches it may use.
    """

    __slots__ = ("_media", "_unrepeated", "fields", "interface", "salted", "size", "text")

    def __init__(
        self, fields: dict[str, object], interface: Interface, size: int, text: bytes = b"", *, salted: bool = False
    ) -> None:
        self.fields: Final = fields
        self.interface: Final = interface
        self.size: Final = size
        self.text: Final = text
        self.salted: Final = salted
        self._media: Media | None = None
        self._unrepeated: bool | None = None

    @property
    def media(self) -> Media:
        """Its pictures, and what of it lies elsewhere."""
        if self._media is None:
            self._media = Media(self.fields)
        return self._media

    @property
    def unrepeated(self) -> bool:
        """Whether all parsers read the same in it, also below the top level."""
        if self._unrepeated is None:
            self._unrepeated = not self.text or jsonbody.unrepeated(self.text, self.fields)
        return self._unrepeated

    def nested(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Members that servers read as if they stood at the top, by the name of their holder."""
        for name in HOLDERS:
            inner = self.fields.get(name)
            if isinstance(inner, dict):
                yield name, inner

    def prompts(self) -> tuple[str, int]:
        """How many prompts it holds, and the member that holds the most."""
        names = ["prompt", "prompt_embeds", "messages"]
        if self.interface is not Interface.RESPONSES:  # there it is a conversation
            names.append("input")
        counted = [(_prompts(self.fields.get(name), conversation=name == "messages"), name) for name in names]
        count, name = max(counted)
        return name, count


def _prompts(value: object, *, conversation: bool) -> int:
    """Items of a list, but for one prompt in tokens, and one conversation in messages."""
    if value is None:
        return 0
    if not isinstance(value, list):
        return 1
    one = dict if conversation else int
    return 1 if all(type(each) is one for each in value) else len(value)

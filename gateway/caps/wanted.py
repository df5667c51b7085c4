"""One call as its body has it, looked at as far as the limits need.

Knows: what counts as a prompt. Must not know: limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.caps import members, tensors
from gateway.caps.media import Media
from gateway.caps.members import Member
from gateway.caps.names import PROMPTS, noted
from gateway.resolve import jsonbody
from gateway.seams import Interface


class Wanted:
    """What a call asks for. `text` is empty where the body is no JSON and cannot be changed. `size`: its bytes.

    `salted`: the gateway says whose caches it may use.
    """

    __slots__ = ("_media", "_members", "_unknown", "_unrepeated", "fields", "interface", "salted", "size", "text")

    def __init__(
        self, fields: dict[str, object], interface: Interface, size: int, text: bytes = b"", *, salted: bool = False
    ) -> None:
        self.fields: Final = fields
        self.interface: Final = interface
        self.size: Final = size
        self.text: Final = text
        self.salted: Final = salted
        self._media: Media | None = None
        self._members: list[Member] | None = None
        self._unknown: tuple[float, str] | None = None
        self._unrepeated: bool | None = None

    @property
    def media(self) -> Media:
        """Its pictures, and what of it lies elsewhere."""
        if self._media is None:
            self._media = Media(self.fields, chat=self.interface is Interface.CHAT)
        return self._media

    @property
    def members(self) -> Sequence[Member]:
        """All members that limits speak of or that reach into the engine, at whatever level."""
        if self._members is None:
            self._members = members.find(self.fields, noted)
        return self._members

    @property
    def unknown(self) -> tuple[float, str]:
        """Of tensors: the highest number whose meaning nobody knows, and the member that holds it."""
        if self._unknown is None:
            self._unknown = tensors.highest(self.fields)
        return self._unknown

    @property
    def holds_objects(self) -> bool:
        """Whether its top level holds objects that a server may unpack."""
        return members.steers(self.fields)

    @property
    def unrepeated(self) -> bool:
        """Whether all parsers read the same in it, also below the top level."""
        if self._unrepeated is None:
            self._unrepeated = not self.text or jsonbody.unrepeated(self.text, self.fields)
        return self._unrepeated

    def prompts(self) -> tuple[str, int]:
        """How many prompts it holds, and the member that holds the most."""
        # In Responses the input is a conversation.
        names = PROMPTS - {"input"} if self.interface is Interface.RESPONSES else PROMPTS
        counted = [(_prompts(each), each) for each in self.members if each.plain in names]
        largest = max(counted, key=_count, default=None)
        return "" if largest is None else largest[1].path, sum(map(_count, counted))


def _count(counted: tuple[int, Member]) -> int:
    return counted[0]


def _prompts(member: Member) -> int:
    """Items of a list, but for one prompt in tokens, and one conversation in messages."""
    value = member.value
    if value is None:
        return 0
    if not isinstance(value, list):
        return 1
    one = dict if member.plain == "messages" else int
    return 1 if all(type(each) is one for each in value) else len(value)

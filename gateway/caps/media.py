"""Pictures, videos and references to what lies elsewhere, wherever in a body an engine would look for them.

The whole body is looked through but for what describes tools and forms of answers, where a member `url` is a property
and nothing that anybody fetches. What a name means is told once for each member, however many items it has.
Knows: how the interfaces write media. Must not know: limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.caps.members import plain

_APART: Final = frozenset(
    (
        "chat_template_kwargs", "function_call", "functions", "guided_grammar", "guided_json", "logit_bias", "metadata",
        "model", "output_config", "response_format", "stop", "structured_outputs", "text", "tool_choice", "tools",
    )
)  # fmt: skip

# Of parts that the caller's tools were asked for, or that name where an answer was found.
_TOOL_USES: Final = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_CITATIONS: Final = frozenset(("url_citation", "web_search_result", "search_result", "open_page", "find_in_page"))

_PICTURES: Final = frozenset(
    (
        "image", "image_embeds", "image_file", "image_pil", "image_url", "input_image", "input_video", "video",
        "video_url",
    )
)  # fmt: skip
# The words of names by which engines take pictures, videos and sound, and those that may follow such a word.
_SHOWN: Final = frozenset(("image", "images", "video", "videos"))
_MEDIA: Final = _SHOWN | {"audio", "audios", "file", "files", "mask", "reference", "references", "source"}
_AFTER: Final = frozenset(("data", "embeds", "input", "reference", "references", "uri", "uris", "url", "urls"))
_CONTENT: Final = frozenset(("data", "file_data"))  # what is there is base64 to every engine, unless it has a scheme
_POINTING: Final = ("url", "uri", "file_id", "_path", "filepath")
_SAID: Final = frozenset(("text", "content"))  # a picture there is a text about one
_PICTURE_DATA: Final = ("data:image/", "data:video/")
_DATA: Final = "data:"
_SCHEME: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")
# An address, a path, or the name of a file. Pictures in base64 begin with a slash too: /9j/ is JPEG's.
_REFERENCE: Final = re.compile(
    r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*:|//|\\\\|/(?!9j/)|\.{1,2}/|~)|[^:\s]{1,1000}\.[A-Za-z][A-Za-z0-9]{1,4}\s*\Z"
)

# What a name may say of its value; nothing (0) for most.
_POINTS: Final = 1
_MEDIUM: Final = 2
_BASE64: Final = 4
_TEXT: Final = 8
_SHOWS: Final = 16
_REFERS: Final = _POINTS | _MEDIUM | _BASE64


class Media:
    """`pictures`: how many pictures and videos a body holds, `shown`: the member that holds the last of them.

    `remote`: the member that refers to what lies elsewhere.
    """

    __slots__ = ("_waiting", "pictures", "remote", "shown")

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.pictures = 0
        self.remote = ""
        self.shown = ""
        self._waiting: list[tuple[int, object]] = []
        for name, value in fields.items():
            if name in _APART:
                continue
            means, pictures = meaning(name), self.pictures
            self._waiting = [(means, value)]
            self.pictures += _many(means, value)
            if self._elsewhere():
                self.remote = self.remote or name
            self.shown = name if self.pictures > pictures else self.shown
        if _servers(fields.get("tools")):
            self.remote = self.remote or "tools"

    def _elsewhere(self) -> bool:
        """Count the pictures in what waits; whether anything in it lies elsewhere."""
        remote = False
        waiting = self._waiting
        while waiting:
            means, value = waiting.pop()
            if isinstance(value, dict):
                remote = self._part(value) or remote
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, str):
                        remote = self._text(means, each) or remote
                    elif isinstance(each, list | dict):
                        waiting.append((means, each))
            elif isinstance(value, str):
                remote = self._text(means, value) or remote
        return remote

    def _part(self, part: dict[str, object]) -> bool:
        """Whether the part itself is something that another caller may have sent: a medium by an id of the caller's."""
        kind = part.get("type")
        kind = kind if isinstance(kind, str) else ""
        found, media = 0, bool(meaning(kind) & _REFERS)
        for key, value in part.items():
            means = meaning(key)
            found += _many(means, value)
            media = media or bool(means & _REFERS)
            cited = kind in _CITATIONS and key in {"url", "source"} and isinstance(value, str)
            if key == "arguments" or (key == "input" and kind in _TOOL_USES) or cited:
                continue
            self._waiting.append((means, value))
        self.pictures += max(found, 1) if kind in _PICTURES else found
        return media and part.get("uuid") is not None

    def _text(self, means: int, text: str) -> bool:
        """Whether this text, the value of a member that means this or an item of it, refers to what lies elsewhere."""
        if points(means, text):
            return True
        if not means and text.startswith(_PICTURE_DATA):
            self.pictures += 1
        return False


def meaning(name: str) -> int:
    """What the name of a member says of its value."""
    key = plain(name)
    if key in _SAID:
        return _TEXT
    if key in _CONTENT:
        return _BASE64
    words = key.split("_")
    last, medium = words[-1], not _MEDIA.isdisjoint(words)
    shows = not _SHOWN.isdisjoint(words) or key.startswith("input_reference")
    means = _SHOWS if shows and (last in _MEDIA or last in _AFTER) else 0
    if key == "path" or key.removesuffix("s").endswith(_POINTING):
        return means | _POINTS
    return means | _MEDIUM if medium and (last in _MEDIA or last in _AFTER) else means


def points(means: int, text: str) -> bool:
    """Whether a text refers to what lies elsewhere."""
    if not means & _REFERS or text.startswith(_DATA):
        return False
    if means & _POINTS:
        return True
    return (_SCHEME if means & _BASE64 else _REFERENCE).match(text) is not None


def is_address(text: str) -> bool:
    """Whether a text is the address of something, whatever it is for."""
    return _SCHEME.match(text) is not None and "/" in text and not text.startswith(_DATA)


def _many(means: int, value: object) -> int:
    """How many pictures and videos a member holds whose name means this."""
    if not means & _SHOWS or not isinstance(value, str | list | dict):
        return 0
    return len(value) if isinstance(value, list) else 1


def _servers(tools: object) -> bool:
    """Whether a tool is a server that the engine would call."""
    if not isinstance(tools, list):
        return False
    return any(
        isinstance(tool, dict) and any(meaning(key) & _POINTS and tool[key] is not None for key in tool)
        for tool in tools
    )

"""Pictures, videos and references to what lies elsewhere, wherever in a body an engine would look for them.

The whole body is looked through but for what describes tools and forms of answers, where a member `url` is a property
and nothing that anybody fetches.
Knows: how the interfaces write media. Must not know: limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

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
        "image",
        "image_embeds",
        "image_file",
        "image_pil",
        "image_url",
        "input_image",
        "input_video",
        "video",
        "video_url",
    )
)
_PICTURE_KEYS: Final = frozenset(
    ("image", "image_embeds", "image_url", "images", "input_image", "input_reference", "video", "video_url", "videos")
)
_MEDIA_KEYS: Final = _PICTURE_KEYS | {"audio", "audios", "data", "file", "file_data", "input_audio", "source"}
_POINTING: Final = ("url", "uri", "file_id")
_SAID: Final = frozenset(("text", "content"))  # a picture there is a text about one
_PICTURE_DATA: Final = ("data:image/", "data:video/")
_DATA: Final = "data:"
_REFERENCE: Final = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*:|//|\\\\)")


class Media:
    """`pictures`: how many pictures and videos a body holds, `shown`: the member that holds the last of them.

    `remote`: the member that refers to what lies elsewhere.
    """

    __slots__ = ("_waiting", "pictures", "remote", "shown")

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.pictures = 0
        self.remote = ""
        self.shown = ""
        self._waiting: list[tuple[str, object]] = []
        for name, value in fields.items():
            if name in _APART:
                continue
            pictures, self._waiting = self.pictures, [(name, value)]
            if name in _PICTURE_KEYS and value is not None:
                self.pictures += _many(value)
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
            key, value = waiting.pop()
            if isinstance(value, dict):
                self._part(value)
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, str):
                        remote = self._text(key, each) or remote
                    elif isinstance(each, list | dict):
                        waiting.append((key, each))
            elif isinstance(value, str):
                remote = self._text(key, value) or remote
        return remote

    def _part(self, part: dict[str, object]) -> None:
        kind = part.get("type")
        kind = kind if isinstance(kind, str) else ""
        found = sum(_many(part[name]) for name in part.keys() & _PICTURE_KEYS if part[name] is not None)
        self.pictures += max(found, 1) if kind in _PICTURES else found
        for key, value in part.items():
            if key == "arguments" or (key == "input" and kind in _TOOL_USES) or (key == "url" and kind in _CITATIONS):
                continue
            self._waiting.append((key, value))

    def _text(self, key: str, text: str) -> bool:
        """Whether this text, the value of `key` or an item of it, refers to what lies elsewhere."""
        key = key.casefold()
        if key.endswith(_POINTING):
            return not text.startswith(_DATA)
        if key in _MEDIA_KEYS:
            return _REFERENCE.match(text) is not None and not text.startswith(_DATA)
        if key not in _SAID and text.startswith(_PICTURE_DATA):
            self.pictures += 1
        return False


def _many(value: object) -> int:
    return len(value) if isinstance(value, list) else 1


def _servers(tools: object) -> bool:
    """Whether a tool is a server that the engine would call."""
    if not isinstance(tools, list):
        return False
    return any(
        isinstance(tool, dict) and any(key.casefold().endswith(_POINTING) and tool[key] is not None for key in tool)
        for tool in tools
    )

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

# Members of a body that hold its conversation, and what of it tells where an answer was found or what a tool was asked
# for: members of any message or part, members of items of one kind, and addresses of items of some kinds.
_TALKS: Final = frozenset(("input", "messages"))
_TELLING: Final = frozenset(("annotations", "arguments", "citations"))
_ASKED: Final[Mapping[str, str]] = {
    "apply_patch_call": "operation",
    "file_search_call": "results",
    "mcp_tool_use": "input",
    "server_tool_use": "input",
    "tool_use": "input",
    "web_search_call": "action",
}
_FOUND: Final = frozenset(("search_result", "web_fetch_result", "web_search_result"))
_WHERE: Final = frozenset(("source", "url"))

_PICTURES: Final = frozenset(
    (
        "image", "image_embeds", "image_file", "image_pil", "image_url", "input_image", "input_video", "video",
        "video_url",
    )
)  # fmt: skip
# Media also in what tools were asked for: parts of a message that somebody put there.
_PARTS: Final = _PICTURES | {"audio", "audio_url", "input_audio", "input_file"}
# The words of names by which engines take pictures, videos and sound, and those that may follow such a word.
_SHOWN: Final = frozenset(("image", "images", "video", "videos"))
_MEDIA: Final = _SHOWN | {"audio", "audios", "file", "files", "mask", "reference", "references", "source"}
_AFTER: Final = frozenset(("data", "embeds", "input", "reference", "references", "uri", "uris", "url", "urls"))
_CONTENT: Final = frozenset(("data", "file_data"))  # what is there is base64 to every engine, unless it has a scheme
_POINTING: Final = ("url", "uri", "file_id", "_path", "filepath")
_SAID: Final = frozenset(("text", "content"))  # a picture there is a text about one
_PICTURE_DATA: Final = ("data:image/", "data:video/")
_DATA: Final = "data:"
# An address that somebody fetches; parsers of addresses skip blanks before, and tabs and ends of lines within.
_SCHEME: Final = re.compile(
    r"[\x00-\x20]*(?:[A-Za-z][A-Za-z0-9+.\t\r\n-]*:[\t\r\n]*[/\\]|(?:blob|data|file|ftp|gs|https?|s3):)", re.IGNORECASE
)
# An address, a path, or the name of a file; a word with a colon and a blank is text. Pictures in base64 begin with a
# slash too: /9j/ is JPEG's.
_REFERENCE: Final = re.compile(
    r"[\x00-\x20]*(?:[A-Za-z][A-Za-z0-9+.\t\r\n-]*:(?! |\Z)|//|\\\\|/(?!9j/)|\.{1,2}/|~)"
    r"|[^:\s]{1,1000}\.[A-Za-z][A-Za-z0-9]{1,4}\s*\Z"
)

# What a name may say of its value; nothing (0) for most.
_POINTS: Final = 1
_MEDIUM: Final = 2
_BASE64: Final = 4
_TEXT: Final = 8
_SHOWS: Final = 16
_TOLD: Final = 32  # nobody fetches what lies there
_DOCUMENT: Final = 64  # of a chat, handed to its template
_REFERS: Final = _POINTS | _MEDIUM | _BASE64


class Media:
    """`pictures`: how many pictures and videos a body holds, `shown`: the member that holds the last of them.

    `remote`: the member that refers to what lies elsewhere. `chat`: its documents were looked up for a chat.
    """

    __slots__ = ("_talks", "_waiting", "pictures", "remote", "shown")

    def __init__(self, fields: Mapping[str, object], *, chat: bool = False) -> None:
        self.pictures = 0
        self.remote = ""
        self.shown = ""
        self._talks = False
        self._waiting: list[tuple[int, object]] = []
        for name, value in fields.items():
            if name in _APART:
                continue
            means, pictures = meaning(name), self.pictures
            self._talks = name in _TALKS
            retrieved = chat and name == "documents" and isinstance(value, list)
            self._waiting = [(means | _DOCUMENT if retrieved else means, value)]
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
                remote = self._part(means, value) or remote
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, str):
                        remote = self._text(means, each) or remote
                    elif isinstance(each, list | dict):
                        waiting.append((means, each))
            elif isinstance(value, str):
                remote = self._text(means, value) or remote
        return remote

    def _part(self, within: int, part: dict[str, object]) -> bool:
        """Whether the part itself is something that another caller may have sent: a medium by an id of the caller's.

        `within`: what the name of the member says that holds it; a part names its own type, but not where it stands.
        """
        kind = part.get("type")
        kind = kind if isinstance(kind, str) else ""
        if within & _TOLD and kind not in _PARTS:
            self._waiting.extend([(_TOLD, each) for each in part.values() if isinstance(each, list | dict)])
            return False
        found, media = 0, bool(meaning(kind) & _REFERS)
        for key, value in part.items():
            means = meaning(key)
            found += _many(means, value)
            media = media or bool(means & _REFERS)
            if not self._spoken(within, kind, key, value):
                self._waiting.append((means, value))
        self.pictures += max(found, 1) if kind in _PICTURES else found
        return media and part.get("uuid") is not None

    def _spoken(self, within: int, kind: str, key: str, value: object) -> bool:
        """Whether a member of a part is text or tells of something, and nothing that an engine fetches."""
        if within & _REFERS:
            return False
        if within & _DOCUMENT:
            return key in _WHERE and isinstance(value, str) and kind not in _PARTS
        if not self._talks:
            return False
        if key in _WHERE and isinstance(value, str):
            return kind in _FOUND and within == _TEXT
        if key in _TELLING or (_ASKED.get(kind) == key and (key != "input" or isinstance(value, dict))):
            self._waiting.append((_TOLD, value))
            return True
        if kind == "document" and key == "source" and isinstance(value, dict) and _is_text(value):
            self._waiting.append((_MEDIUM, {name: each for name, each in value.items() if name != "data"}))
            return True
        return False

    def _text(self, means: int, text: str) -> bool:
        """Whether this text, the value of a member that means this or an item of it, refers to what lies elsewhere."""
        if points(means, text):
            return True
        if not means & ~_DOCUMENT and text.startswith(_PICTURE_DATA):
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


def _is_text(source: dict[str, object]) -> bool:
    """Whether the source of a document (of Anthropic's) holds its text."""
    return source.get("type") == "text" and source.get("media_type") == "text/plain"


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

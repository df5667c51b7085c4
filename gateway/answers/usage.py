"""Token counts, read from an answer as it passes, without holding it up and without holding on to it.

Knows: where OpenAI, Responses and Anthropic answers carry counts, and which event ends a stream.
Must not know: accounting, HTTP beyond a media type, how the answer is relayed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Protocol

from gateway.answers import sse
from gateway.resolve.jsonbody import load
from gateway.seams import UsageKind

#: Bytes at the end of a JSON answer that are kept; counts come last, behind some small members at most.
MAX_TAIL = 4096

#: Bytes of one unfinished event that are kept; the last event of the Responses API repeats the whole answer.
MAX_EVENT = 256 * 1024

#: Bytes of an event that is longer than that, enough for its name.
_HEAD = 256

#: More tokens than any answer has: a count beyond is nonsense.
_MOST = 2**40

_MARK = b'"usage"'
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_TELLING = re.compile(rb'"usage"(?!\s*:\s*null)')  # many servers say null in every event but the last
_DONE = b"[DONE]"
_NAMED = b"event:"

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")

# Events after which a stream is whole, where `[DONE]` is not used; an error that the backend tells of is an end, too.
_LAST = frozenset(
    (
        b"error", b"message_stop", b"transcript.text.done", b"speech.audio.done",
        b"response.completed", b"response.failed", b"response.incomplete", b"response.cancelled",
        b"image_generation.completed", b"image_edit.completed",
    )
)  # fmt: skip
_ENDING = re.compile(rb"event: ?(?:" + b"|".join(map(re.escape, sorted(_LAST))) + rb")[\r\n]")


#: Tokens the model was given, and tokens it made; None while no count was seen.
Counted = tuple[int | None, int | None]


class UsageReader(Protocol):
    """Watches one answer."""

    def counts(self) -> Counted:
        """What was seen so far."""
        ...

    @property
    def complete(self) -> bool:
        """True once the answer's own last word was seen, for answers that have one."""
        ...

    @property
    def at_edge(self) -> bool:
        """True while an event may be put in: the stream stands between two events."""
        ...

    def feed(self, piece: bytes) -> None:
        """The next bytes of the body, as they came."""
        ...


def is_event_stream(content_type: bytes) -> bool:
    """Whether an answer of this type is a stream of events (WHATWG HTML section 9.2)."""
    return _media(content_type) == b"text/event-stream"


def _media(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()


def reader_for(kind: UsageKind, content_type: bytes, coding: bytes = b"") -> Callable[[], UsageReader] | None:
    """What makes the watcher of an answer of this media type; None where nobody could watch: another type, or a coding.

    An event stream without counts is watched for its edges, and is whole at each of them.
    """
    media = _media(content_type)
    if coding.strip().lower() not in {b"", b"identity"}:
        return None
    if media == b"text/event-stream":
        return partial(Events, ends=kind is not UsageKind.NONE)
    return Document if media == b"application/json" and kind is not UsageKind.NONE else None


class _Counts:
    """The last counts that were seen; a stream may tell them several times, growing."""

    __slots__ = ("_input", "_output")

    def __init__(self) -> None:
        self._input: int | None = None
        self._output: int | None = None

    def seen(self) -> Counted:
        """Both; no output is 0 where the input is counted, as for embeddings."""
        return self._input, 0 if self._output is None and self._input is not None else self._output

    def take(self, usage: object) -> bool:
        """Note the counts of a usage object; False when it is none."""
        if not isinstance(usage, dict):
            return False
        given, made = _count(usage, _INPUT), _count(usage, _OUTPUT)
        self._input = self._input if given is None else given
        self._output = self._output if made is None else made
        return given is not None or made is not None


def _count(usage: dict[str, object], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = usage.get(name)
        if type(value) is int and 0 <= value <= _MOST:
            return value
    return None


def counts_of(content: bytes) -> Counted:
    """The counts of a JSON answer that is there as a whole."""
    if len(content) > MAX_TAIL:
        document = Document()
        document.feed(content)
        return document.counts()
    at = content.rfind(_MARK)
    if at < 0:
        return None, None
    # From a member of the top level on, a document is an object again once a brace is put before; else read all of it.
    member = _member(b"{" + content[at:]) or _member(content)
    if type(member) is not dict:
        return None, None
    given, made = _count(member, _INPUT), _count(member, _OUTPUT)
    return given, 0 if made is None and given is not None else made


class Document:
    """Watches a JSON answer: its last bytes are kept, and read when somebody asks."""

    __slots__ = ("_length", "_tail")

    complete = True
    at_edge = False

    def __init__(self) -> None:
        self._tail = b""
        self._length = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes of the answer."""
        self._length += len(piece)
        self._tail = (self._tail + piece[-MAX_TAIL:])[-MAX_TAIL:] if self._tail else piece[-MAX_TAIL:]

    def counts(self) -> Counted:
        """Of the whole document if it was kept, else of its last usage member."""
        if self._length == len(self._tail):
            return counts_of(self._tail)
        counts = _Counts()
        self._search(counts)
        return counts.seen()

    def _search(self, counts: _Counts) -> None:
        """From a member of the top level to its end, a document is an object again once a brace is put before."""
        for found in reversed(list(_USAGE.finditer(self._tail))):
            if counts.take(_member(b"{" + self._tail[found.start() :])):
                return


class Events:
    """Watches an event stream. Most pieces are whole events without counts, and cost one search for each mark."""

    __slots__ = ("_counts", "_ends", "_last", "_open", "_skipping")

    def __init__(self, *, ends: bool) -> None:
        """`ends`: the stream has a last event of its own; else it is whole wherever an event ends."""
        self._ends = ends
        self._counts = _Counts()
        self._last = False
        self._open = bytearray()  # the unfinished event, at most MAX_EVENT
        self._skipping = b""  # the beginning of an event that is longer than that

    def counts(self) -> Counted:
        """What the events told so far."""
        return self._counts.seen()

    @property
    def at_edge(self) -> bool:
        """True between two events, and before the first."""
        return not self._open and not self._skipping

    @property
    def complete(self) -> bool:
        """True once the stream's last event was seen."""
        return self._last if self._ends else self.at_edge

    def feed(self, piece: bytes) -> None:
        """The next bytes of the stream, cut anywhere."""
        if not self._open and not self._skipping and piece.endswith(sse.EDGES):
            if _worth(piece):
                self._read(piece)
        else:
            self._gather(piece)

    def _gather(self, piece: bytes) -> None:
        start = max(0, len(self._open) - sse.OVERLAP)
        self._open += piece
        if self._skipping:
            if not self._skipped():
                return
            start = 0
        end = sse.last_edge(self._open, start)
        if end > 0:
            if _worth(whole := bytes(self._open[:end])):
                self._read(whole)
            del self._open[:end]
        if not self._open.strip(b"\r\n"):
            self._open.clear()
        elif len(self._open) > MAX_EVENT:
            self._skipping = bytes(self._open[:_HEAD])
            del self._open[: -sse.OVERLAP]

    def _skipped(self) -> bool:
        """Drop what belongs to the long event, of which only the beginning is read; True when it has ended."""
        end = sse.first_edge(self._open)
        del self._open[: end if end >= 0 else -sse.OVERLAP]
        if end >= 0:
            self._event(self._skipping)
            self._skipping = b""
        return end >= 0

    def _read(self, text: bytes) -> None:
        for event in sse.split(text):
            self._event(event if len(event) <= MAX_EVENT else event[:_HEAD])

    def _event(self, text: bytes) -> None:
        event = sse.event(text)
        if event.name in _LAST or event.data.startswith(_DONE):
            self._last = True
        if _USAGE.search(event.data) is not None:
            self._take(event.data)

    def _take(self, data: bytes) -> None:
        content = _loaded(data)
        if not self._counts.take(content.get("usage")):
            for holder in ("response", "message"):  # Responses API, Anthropic's first event
                inner = content.get(holder)
                if isinstance(inner, dict):
                    self._counts.take(inner.get("usage"))


def _worth(text: bytes) -> bool:
    """Whether reading these events can tell anything; decides by search alone, and may be wrong only by saying yes.

    Most are one line that is an object: that has no name and is not the stream's last word.
    """
    if _MARK in text and _TELLING.search(text) is not None:
        return True
    if text.startswith(b"data: {") and text.find(b"\n") == len(text) - 2 and b"\r" not in text:
        return False
    return _DONE in text or (_NAMED in text and _ENDING.search(text) is not None)


def _member(text: bytes) -> object:
    return _loaded(text).get("usage")


def _loaded(text: bytes) -> dict[str, object]:
    try:
        content = load(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}

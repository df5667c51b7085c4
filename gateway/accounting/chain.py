"""The hash chain of the audit file: what a link is, how one is put into a line, the lines that the file itself needs.

A link is a line that ends in `"prev":"…"}`: the SHA-256 of all bytes from the link before it, included, to itself,
excluded. Only the first line of what is written together is one. Bytes count, not lines: what a torn write left counts.
Knows: bytes, and their digest. Must not know: files, what the other lines say.
"""

from __future__ import annotations

import hashlib
import re
import time
from typing import Final

from gateway import __version__

MEMBER: Final = b',"prev":"'
#: How a link ends: the member, 64 hexadecimal digits, the end of the object; without the end of the line.
LENGTH: Final = len(MEMBER) + 64 + 2
#: What the first link of all refers to.
NOTHING: Final = "0" * 64

_LINK: Final = re.compile(rb',"prev":"([0-9a-f]{64})"\}')
_TIME: Final = re.compile(rb'\{"time":"([0-9T:.-]{23}Z)"')
_OWN: Final = re.compile(rb'\{"time":"[^"]{1,40}","audit":"([a-z]{1,16})"')
_OURS: Final = re.compile(rb'\{"time":"[^"]{1,40}","(?:request_id|audit)":"')
_SEALED: Final = re.compile(rb'(\{"time":"[^"]{1,40}","audit":"ended"),"seal":"([0-9a-f]{64})",')
_LINES: Final = re.compile(rb'"lines":(\d{1,18}),')


def began(at: float) -> bytes:
    """The line at a start of the gateway. `at`: UNIX seconds."""
    return b'{"time":"%b","audit":"began","version":"%b"}\n' % (_stamp(at), __version__.encode())


def continued(at: float) -> bytes:
    """The line that a file begins with that took another's place, so that this is known even if nothing follows."""
    return b'{"time":"%b","audit":"continued"}\n' % _stamp(at)


def lost(lines: int, at: float) -> bytes:
    """The line that stands for `lines` others, which could not be written."""
    return b'{"time":"%b","audit":"lost","lines":%d}\n' % (_stamp(at), lines)


def ended(at: float, head: str) -> bytes:
    """The last line of a process or of a file that was rotated, linked already: nothing follows that would hold it."""
    opening = b'{"time":"%b","audit":"ended"' % _stamp(at)
    return linked(b'%b,"seal":"%b"}\n' % (opening, _seal(opening, head).encode()), head)


def linked(line: bytes, head: str) -> bytes:
    """`line` as a link that refers to `head`. It ends as every line does, with the end of an object and of the line."""
    return b'%b%b%b"}\n' % (line[:-2], MEMBER, head.encode())


def prev_of(line: bytes) -> str | None:
    """What a link refers to; None for any other line. The end of the line may be missing."""
    if line.endswith(b"\n"):
        line = line[:-1]
    found = _LINK.fullmatch(line, max(0, len(line) - LENGTH))
    return found[1].decode() if found else None


def time_of(line: bytes) -> str | None:
    """`{"time":"2026-01-31T10:15:00.123Z",…`; None where a line begins otherwise."""
    found = _TIME.match(line)
    return found[1].decode() if found else None


def own(line: bytes) -> str | None:
    """Which line of the file itself this is (`began continued lost ended`); None for the line of a call."""
    found = _OWN.match(line)
    return found[1].decode() if found else None


def ours(line: bytes) -> bool:
    """Whether a line begins as all that stand in an audit file do, or hides one that does."""
    return _OURS.search(line) is not None


def lines_lost(line: bytes) -> int:
    """How many lines a line `lost` stands for."""
    found = _LINES.search(line)
    return int(found[1]) if found else 0


def sealed(line: bytes) -> bool:
    """Whether a line `ended` is as it was written: exactly this, down to the last byte."""
    found, head = _SEALED.match(line), prev_of(line)
    if found is None or head is None or found[2].decode() != _seal(found[1], head):
        return False
    return line == linked(found[0][:-1] + b"}\n", head)


def last_link(text: bytes) -> int:
    """Where the last link of `text` begins, -1 when there is none. `text` begins with a line."""
    if (end := _last_end(text)) < 0:
        return -1
    return text.rfind(b"\n", 0, end - LENGTH) + 1


class Chain:
    """What has been written since the last link."""

    def __init__(self) -> None:
        self._since: hashlib._Hash | None = None

    def copy(self) -> Chain:
        """One that goes on from here on its own."""
        other = Chain()
        other._since = None if self._since is None else self._since.copy()
        return other

    def head(self) -> str:
        """What the next link has to refer to."""
        return NOTHING if self._since is None else self._since.hexdigest()

    def wrote(self, piece: memoryview | bytes, link: int) -> None:
        """`piece` is in the file. It began with a link of `link` bytes, 0 for none, which may have been cut short."""
        if not piece:
            return
        # A link that lacks nothing but the end of its line is one: that end comes, or the file ends there.
        if self._since is None or (link and len(piece) >= link - 1):
            self._since = hashlib.sha256(piece)
        else:
            self._since.update(piece)


def _last_end(text: bytes) -> int:
    """Where the last link of `text` ends; -1 when there is none."""
    at = len(text)
    while (at := text.rfind(MEMBER, 0, at)) >= 0:
        end = at + LENGTH
        if prev_of(text[at:end]) is not None and text[end : end + 1] in (b"", b"\n"):
            return end
    return -1


def _stamp(at: float) -> bytes:
    whole = int(at)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)).encode() + b".%03dZ" % int((at - whole) * 1000)


def _seal(opening: bytes, head: str) -> str:
    return hashlib.sha256(opening + head.encode()).hexdigest()

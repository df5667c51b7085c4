"""What people mean whose YAML is none, and what to do about it: the parser tells only where it gave up.

Knows: the words of the parser. Must not know: what any key means.
"""

from __future__ import annotations

from typing import Final

#: By words of the problem and of its context: what to do. `{line}` is where the context begins.
_REMEDIES: Final[tuple[tuple[str, str, str], ...]] = (
    ("", "alias", "a text that begins with '*' needs quotes"),
    (
        "mapping values are not allowed",
        "",
        "is it indented deeper than the keys above, lacks a key above the space behind its ':', or a text its quotes?",
    ),
    ("'-' indicator", "", "this line is in no item of the list of line {line}: indent it as the keys of its item"),
    (
        "did not find expected key",
        "block mapping",
        "is this line indented otherwise than the keys from line {line} on, or does a value go on behind its end?",
    ),
    ("unexpected end of stream", "quoted", "the quote that opens here is never closed"),
    ("',' or", "", "the bracket that opens here is not closed, or lacks a ','"),
    (
        "node content",
        "flow node",
        "between brackets a text that begins with ':' needs quotes, as an IPv6 address, and each ',' follows something",
    ),
    ("cannot start any token", "", "a text that begins with '@', '`' or '%' needs quotes"),
    ("expected ':'", "simple key", "line {line} is no key with a ':', and no part of a list"),
    ("block sequence entries", "", "a list begins in a line of its own, or stands in brackets"),
    ("unknown escape", "", "in double quotes a '\\' is written '\\\\'; in single quotes it stands for itself"),
)

#: Problems that are noticed far behind the place where they are: that is where the context begins.
_EARLIER: Final = ("unexpected end of stream", "',' or")


def remedy(problem: str, context: str, line: int) -> str:
    """What to do, in words that follow the problem, or an empty text. `line`: where the context begins."""
    for words, within, what in _REMEDIES:
        if words in problem and within in context:
            return f"; {what.format(line=line)}"
    return ""


def earlier(problem: str) -> bool:
    """Whether the place to look at is where the context begins."""
    return any(words in problem for words in _EARLIER)

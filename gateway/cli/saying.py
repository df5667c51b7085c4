"""What commands say: lines and JSON on standard output, what is wrong on standard error, and the exit code for that.

Knows: the terminal. Must not know: what a command does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

from gateway.config.mistakes import Mistakes

BAD: Final = 2  # the exit code of a bad call or a bad file


class CannotSay(Exception):  # noqa: N818  named for what happened, like the refusals
    """There is no answer, because of the call or of what it names. The text says why, in one line."""


def say(lines: Iterable[str]) -> None:
    """The answer, for people: nothing in it that a terminal would obey, whatever names are made of."""
    _write(lines, sys.stdout)


def say_json(value: Any) -> None:
    """The answer, for programs, in one line."""
    print(json.dumps(value))  # noqa: T201  the command's answer


def warn(lines: Iterable[str]) -> None:
    """What has to be said beside the answer."""
    _write(lines, sys.stderr)


def finished(error: Exception) -> int:
    """Say why there is no answer; the exit code for it."""
    if isinstance(error, Mistakes):
        warn(str(mistake) for mistake in error.mistakes)
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        warn([f"nim-gateway: {where}{error.strerror or error}"])
    else:
        warn([f"nim-gateway: {error}"])
    return BAD


def counted(count: int, word: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def visible(text: str) -> str:
    """The text with everything escaped that is no visible character."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _write(lines: Iterable[str], to: TextIO) -> None:
    for line in lines:
        print(visible(line), file=to)

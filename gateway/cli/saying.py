"""What commands say: lines and JSON on standard output, what is wrong on standard error, and the exit code for that.

Knows: the terminal. Must not know: what a command does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TextIO

from gateway.config.mistakes import Mistakes

BAD: Final = 2  # the exit code of a bad call or a bad file


class CannotSay(Exception):  # noqa: N818  named for what happened, like the refusals
    """There is no answer, because of the call or of what it names. The text says why, in one line."""


def answered(command: str, run: Callable[[], int]) -> int:
    """The exit code of `run`, once all that it said is written.

    A fault of its own, or an answer that nobody got whole, is never taken for an answer: that is 2.
    """
    try:
        code = run()
    except OSError as error:
        code = finished(error)
    except Exception as fault:  # noqa: BLE001  whatever it is
        place = traceback.extract_tb(fault.__traceback__)[-1]
        where = f"{type(fault).__name__} in {Path(place.filename).name}, line {place.lineno}"
        warn([f"nim-gateway: {command} gives no answer, for it has a fault; please report it: {where}"])
        code = BAD
    try:
        sys.stdout.flush()
    except OSError as error:
        # What could not be written is tried once more when Python ends, and would fail with words of its own.
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        return code if code == BAD else finished(error)
    return code


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
    elif isinstance(error, BrokenPipeError):
        pass  # whoever reads the answer has enough of it
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
    to.flush()  # an answer that cannot be written is noticed before anything else is done

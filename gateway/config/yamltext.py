"""The two ends of a YAML file that need no grammar: its characters, and what a scalar without quotes means.

Knows: UTF-8, the core scalars of YAML 1.2, bounds. Must not know: the grammar, what any key means.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.config.mistakes import MOST, Mistake, Mistakes

LARGEST: Final = 1024 * 1024  # bytes; a thousand rules take a quarter of it
LONGEST_NUMBER: Final = 18  # digits; fits every size and time, and 64 bits

BOM: Final = "\ufeff"
# What YAML does not allow in a file, what YAML 1.1 alone takes for a line break, and what makes a text look other than
# it is (https://trojansource.codes). A tab is harmless only where nobody looks, so it is refused everywhere.
UNWELCOME: Final = re.compile(
    "\t|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
# A quoted escape can make what the text itself may not hold: no value of ours needs a NUL, and a lone surrogate cannot
# be encoded again.
UNUSABLE: Final = re.compile("[\x00\ud800-\udfff]")

# YAML 1.2.2 §10.3.2, lower case only and without leading zeros, so that `no`, `on`, `010`, `1:30` and dates are text.
WORDS: Final[dict[str, bool | None]] = {"": None, "~": None, "null": None, "true": True, "false": False}
WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
DECIMAL: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def decoded(text: bytes, file: str) -> str:
    """`text` as characters that are all welcome. Raises `Mistakes`."""
    if len(text) > LARGEST:
        raise Mistakes([Mistake(file, 1, 1, f"the file is larger than {LARGEST // 1024} KiB")])
    if text[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in text[:2]:
        raise Mistakes([Mistake(file, 1, 1, "the file is not UTF-8 but looks like UTF-16 or UTF-32; save it as UTF-8")])
    try:
        source = text.decode()
    except UnicodeDecodeError as error:
        before = text[: error.start].decode()
        line, column = _place_of(before, len(before))
        raise Mistakes([Mistake(file, line, column, "the file is not UTF-8")]) from None
    if source.startswith(BOM):
        raise Mistakes([Mistake(file, 1, 1, "the file begins with a byte order mark; save it as UTF-8 without one")])
    found = [
        _unwelcome(source, match, file) for match, _ in zip(UNWELCOME.finditer(source), range(MOST + 1), strict=False)
    ]
    if found:
        raise Mistakes(found)
    return source


def _unwelcome(source: str, match: re.Match[str], file: str) -> Mistake:
    line, column = _place_of(source, match.start())
    if match[0] == "\t":
        return Mistake(file, line, column, "a tab; use spaces")
    return Mistake(file, line, column, f"the character U+{ord(match[0]):04X} is not taken in a file of ours")


def _place_of(source: str, index: int) -> tuple[int, int]:
    return source.count("\n", 0, index) + 1, index - source.rfind("\n", 0, index)


def scalar(text: str) -> str | int | float | bool | None:
    """What a scalar without quotes means. Raises `ValueError` with words for the user when it is beyond any number."""
    if text in WORDS:
        return WORDS[text]
    if DECIMAL.fullmatch(text) is None:
        return text
    if WHOLE.fullmatch(text) is not None:
        if len(text.lstrip("+-")) > LONGEST_NUMBER:
            raise ValueError("this number is too long; put it in quotes if it is text")
        return int(text)
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError("this number is too large")
    return number

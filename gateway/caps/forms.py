"""What a form asks for, as if it were written in JSON.

Knows: how fields of forms are named, how texts stand for numbers and objects. Must not know: limits.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.caps import media
from gateway.caps.members import SAID, plain
from gateway.caps.names import PROMPTS, noted
from gateway.caps.numbers import means_a_number
from gateway.errors import BadRequest
from gateway.resolve import formbody
from gateway.resolve.media import Media

_WHOLE: Final = re.compile(r"[0-9]{1,15}")

# What a form is about, in the words of its caller; an address there is a word.
_WORDS: Final = PROMPTS | {"negative_prompt", "instructions"}


def fields(form: Media, body: bytes) -> dict[str, object]:
    """The fields of a form. Raises `BadRequest` for one that limits speak of and that comes twice, or as a file, or
    for an object in a text, and what `formbody.texts` raises."""
    found: dict[str, object] = {}
    for name, text in formbody.texts(form, body):
        as_written = plain(name)
        steering = noted(as_written) and as_written not in PROMPTS
        if steering and (text is None or name in found):
            raise BadRequest(f"The form gives '{as_written}' more than once, or as a file.", param=as_written)
        if text is None:
            continue
        if as_written not in SAID and text.lstrip().startswith("{"):
            raise BadRequest("A field of the form holds an object; give what it holds as fields.", param=name[:64])
        if means_a_number(as_written) and _WHOLE.fullmatch(text):
            found[name] = int(text)
        elif name not in found:
            found[name] = _said(as_written, text)
        else:
            others = found[name]
            said = _said(as_written, text)
            found[name] = [*others, said] if isinstance(others, list) else [others, said]
    return found


def _said(name: str, text: str) -> object:
    return {"url": text} if name not in _WORDS and media.is_address(text) else text

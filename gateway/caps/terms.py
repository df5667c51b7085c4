"""One call against one set of terms: everything that is too much, and the budget that is to be filled in.

Knows: what each limit means. Must not know: which of several terms a call passes under, how a body is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.caps import tensors
from gateway.caps.excess import Change, Excess
from gateway.caps.members import LONGEST, MOST
from gateway.caps.names import ADAPTERS, TOOLS
from gateway.caps.numbers import too_many, unbudgeted
from gateway.caps.wanted import Wanted
from gateway.seams import Interface
from gateway.terms import ENGINE_FIELDS, Terms

# Triton's vLLM backend: the same as `parameters`, as text.
_IN_TEXT: Final = "sampling_parameters"

UNREADABLE: Final = (
    "What a call asks for cannot be seen on this route, and how much you may ask for is limited. Use a route that is "
    "written in JSON ('/generate' of Triton), or ask for a rule without these limits."
)

_REPEATED: Final = "The body gives a member more than once within an object; give each once."
_UNCOUNTED: Final = "The pictures in a form are not counted here, and how many you may send is limited."


def excesses(terms: Terms, wanted: Wanted) -> Iterator[Excess]:
    """All that a call asks for beyond the terms."""
    if terms.input is not None and wanted.size > terms.input:
        text = f"The request body is larger than the {terms.input} bytes that you may send."
        yield Excess("input", text, bulky=True, facts=f"input {wanted.size} > {terms.input} bytes")
    if len(wanted.members) > MOST:
        yield Excess("", f"The body has more than {MOST} members that are limited; send several calls.")
        return
    yield from _engine_fields(terms, wanted)
    if not terms.needs_fields:
        return
    if wanted.interface is Interface.UNKNOWN:
        yield Excess("", UNREADABLE)
        return
    for member in wanted.members:
        # Servers exist that take them all the same; on Triton it may be the name of a tensor.
        other = member.name != member.plain and member.plain not in ENGINE_FIELDS
        if other and wanted.interface is not Interface.GENERATE:
            yield Excess(member.path, f"Write '{member.path}' in lower case and without brackets.")
    yield from too_many(wanted.members, terms)
    yield from _lists(terms, wanted)
    if wanted.interface is Interface.GENERATE:
        yield from _tensors(terms, wanted)
    yield from _media(terms, wanted)


def fill(terms: Terms, wanted: Wanted) -> Change | None:
    """The budget of a call that names none."""
    if terms.max_tokens is None:
        return None
    name = unbudgeted(wanted.fields, wanted.interface)
    return None if name is None else Change(name, b"%d" % terms.max_tokens)


def _engine_fields(terms: Terms, wanted: Wanted) -> Iterator[Excess]:
    closed = ENGINE_FIELDS - terms.engine_fields
    if wanted.salted:
        closed |= {"cache_salt"}
    below = False
    for member in wanted.members:
        below = below or member.place is not None
        apart = member.place is not None or wanted.interface is Interface.GENERATE
        if member.plain in closed or (apart and member.plain in ADAPTERS):
            told = not apart and member.name.isascii()  # what was left out is told in a header
            yield _closed(member.path, Change(member.name, None) if told else None)
    if (below or wanted.holds_objects) and not wanted.unrepeated:
        yield Excess("", _REPEATED)


def _closed(name: str, lowered: Change | None) -> Excess:
    text = f"'{name}' reaches into the engine and is not taken from you; leave it out."
    return Excess(name, text, lowered, facts=f"{name} is not in engine_fields")


def _lists(terms: Terms, wanted: Wanted) -> Iterator[Excess]:
    if terms.prompts is not None:
        name, count = wanted.prompts()
        if count > terms.prompts:
            yield Excess(name, f"'{name}' holds {count} prompts, and you may send {terms.prompts} at once at most.")
    for member in wanted.members if terms.tools is not None else ():
        value = member.value
        if member.plain not in TOOLS or value is None:
            continue
        path = member.path
        if not isinstance(value, list):
            yield Excess(path, f"'{path}' must be a list.")
        elif len(value) > (terms.tools or 0):
            yield Excess(path, f"'{path}' holds {len(value)} tools, and you may send {terms.tools} at most.")


def _tensors(terms: Terms, wanted: Wanted) -> Iterator[Excess]:
    """What only a model on Triton could tell the meaning of."""
    if _IN_TEXT in wanted.fields or any(_IN_TEXT in each for each in wanted.fields.values() if isinstance(each, dict)):
        yield Excess(_IN_TEXT, f"Write what '{_IN_TEXT}' holds as members of 'parameters'.")
    most = min((limit for limit in (terms.max_tokens, terms.n, terms.best_of) if limit is not None), default=None)
    number, name = wanted.unknown
    if most is not None and number > most:
        yield Excess(name, f"What '{name}' is for is not known here, so it may be {most} at most.")
    if terms.prompts is not None:
        held, count = tensors.texts(wanted.fields)
        if count > terms.prompts:
            yield Excess(
                held, f"'{held[:LONGEST]}' holds {count} texts, and you may send {terms.prompts} at once at most."
            )


def _media(terms: Terms, wanted: Wanted) -> Iterator[Excess]:
    if terms.images is None and terms.remote_media:
        return
    if not wanted.unrepeated:
        yield Excess("", _REPEATED)
    if terms.images is not None and wanted.interface is Interface.PICTURE_FORM:
        yield Excess("image", _UNCOUNTED)
    media = wanted.media
    if terms.images is not None and media.pictures > terms.images:
        text = f"The call holds {media.pictures} pictures and videos, and you may send {terms.images} at most."
        yield Excess(media.shown, text)
    if media.remote and not terms.remote_media:
        yield Excess(
            media.remote,
            f"'{media.remote}' refers to something outside of the call; send pictures and the like as 'data:' URLs.",
        )

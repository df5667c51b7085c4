"""One call against one set of terms: everything that is too much, and the budget that is to be filled in.

Knows: what each limit means. Must not know: which of several terms a call passes under, how a body is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gateway.caps.excess import Change, Excess
from gateway.caps.numbers import NUMBERS, too_many, unbudgeted
from gateway.caps.wanted import HOLDERS, Wanted
from gateway.seams import Interface
from gateway.terms import ENGINE_FIELDS, Terms

_LISTS: Final = ("tools", "functions")

#: Members that limits speak of, at the top level.
HELD: Final = frozenset((*NUMBERS, *HOLDERS, *_LISTS, "prompt", "prompt_embeds", "input", "messages"))

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
        yield Excess("input", f"The request body is larger than the {terms.input} bytes that you may send.", bulky=True)
    yield from _engine_fields(terms, wanted)
    if not terms.needs_fields:
        return
    if wanted.interface is Interface.UNKNOWN:
        yield Excess("", UNREADABLE)
        return
    for holder, fields in (("", wanted.fields), *wanted.nested()):
        if wanted.interface is not Interface.GENERATE:  # there names are those of a model's tensors, in any case
            yield from _other_cases(fields)
        yield from too_many(fields, terms, holder)
    yield from _lists(terms, wanted)
    yield from _media(terms, wanted)


def _other_cases(fields: Mapping[str, object]) -> Iterator[Excess]:
    """Limited members but for the case of their letters: servers exist that take them all the same."""
    for name in fields:
        if name not in HELD and (plain := name.casefold()) in HELD:
            yield Excess(plain, f"Write '{plain}' in lower case.")


def fill(terms: Terms, wanted: Wanted) -> Change | None:
    """The budget of a call that names none."""
    if terms.max_tokens is None:
        return None
    inner = {name: value for _, each in wanted.nested() for name, value in each.items()}
    name = unbudgeted(wanted.fields, inner, wanted.interface)
    return None if name is None else Change(name, b"%d" % terms.max_tokens)


def _engine_fields(terms: Terms, wanted: Wanted) -> Iterator[Excess]:
    closed = ENGINE_FIELDS - terms.engine_fields
    if wanted.salted:
        closed |= {"cache_salt"}
    for name in sorted(closed.intersection(wanted.fields)):
        yield Excess(name, _closed(name), Change(name, None))
    holders = [*wanted.nested()]
    if holders and not wanted.unrepeated:
        yield Excess(holders[0][0], _REPEATED)
    for holder, inner in holders:
        for name in sorted({name.casefold() for name in inner} & closed):
            yield Excess(f"{holder}.{name}", _closed(f"{holder}.{name}"))


def _closed(name: str) -> str:
    return f"'{name}' reaches into the engine and is not taken from you; leave it out."


def _lists(terms: Terms, wanted: Wanted) -> Iterator[Excess]:
    if terms.prompts is not None:
        name, count = wanted.prompts()
        if count > terms.prompts:
            yield Excess(name, f"'{name}' holds {count} prompts, and you may send {terms.prompts} at once at most.")
    for name in _LISTS if terms.tools is not None else ():
        value = wanted.fields.get(name)
        if value is not None and not isinstance(value, list):
            yield Excess(name, f"'{name}' must be a list.")
        elif value is not None and len(value) > (terms.tools or 0):
            yield Excess(name, f"'{name}' holds {len(value)} tools, and you may send {terms.tools} at most.")
    if wanted.interface is Interface.GENERATE and any(_IN_TEXT in each for each in _levels(wanted)):
        yield Excess(_IN_TEXT, f"Write what '{_IN_TEXT}' holds as members of 'parameters'.")


def _levels(wanted: Wanted) -> Iterator[Mapping[str, object]]:
    yield wanted.fields
    yield from (inner for _, inner in wanted.nested())


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

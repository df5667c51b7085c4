"""Turn a document into frozen dataclasses, or say everything that is wrong with it, each at its place.

Knows: types, how to say in plain words what is expected; the only importer of `pydantic`. Must not know: YAML, what any
setting means. A message never holds a value of the file, since that may be a secret.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.yamlfile import Document

T = TypeVar("T")

STRICT: Final = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

LIST: Final = "expected a list"

# By pydantic's error type, https://docs.pydantic.dev/latest/errors/validation_errors/; for all others, `OTHERWISE`.
WORDS: Final[dict[str, str]] = {
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected text",
    "tuple_type": LIST,
    "list_type": LIST,
    "set_type": LIST,
    "frozen_set_type": LIST,
    "dict_type": "expected a mapping",
    "dataclass_type": "expected a mapping of settings",
    "literal_error": "expected {expected}",
    "enum": "expected {expected}",
    "value_error": "{error}",
}
OTHERWISE: Final = "this value is not taken here"
QUOTE: Final = "; put it in quotes"


def called(name: str) -> Any:
    """For `Annotated`: the setting is called `name` in the file, where Python cannot call it so (`from`)."""
    return Field(alias=name)


def validate(document: Document, type_: type[T]) -> T:
    """`document` as a `type_`, a frozen dataclass whose inner dataclasses are treated alike.

    No value is bent into a type, unknown settings are refused, lists become tuples or frozen sets as the type says.
    Raises `Mistakes` with every one there is.
    """
    # A tuple around it, because a dataclass cannot be given a configuration from outside, and passes on its parent's.
    # JSON, because there a strict reader still takes a list for a tuple and text for a path.
    adapter = TypeAdapter(tuple[type_], config=STRICT)  # type: ignore[valid-type]
    try:
        return cast("tuple[T]", adapter.validate_json(json.dumps([document.data])))[0]
    except ValidationError as error:
        found = [_mistake(document, type_, details) for details in error.errors(include_url=False)]
    raise Mistakes(found)


def settings_of(type_: Any) -> dict[str, Any]:
    """The settings of a dataclass by their names in the file, with their types."""
    hints = get_type_hints(type_, include_extras=True)
    return {_name(entry.name, hints[entry.name]): hints[entry.name] for entry in dataclasses.fields(type_)}


def _mistake(document: Document, type_: Any, details: ErrorDetails) -> Mistake:
    path = details["loc"][1:]
    line, column = document.place(path)
    return Mistake(document.file, line, column, _message(type_, path, details))


def _message(type_: Any, path: tuple[str | int, ...], details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "missing":
        return f"the setting '{path[-1]}' is missing"
    if kind == "unexpected_keyword_argument":
        return _unknown(str(path[-1]), _known(type_, path[:-1]))
    message = WORDS.get(kind, OTHERWISE).format(**details.get("ctx", {}))
    if message == LIST and path and isinstance(path[-1], str) and isinstance(details["input"], str | int | float):
        message += f"; in brackets, also where it holds one thing: '{path[-1]}: [...]'"
    if kind == "string_type" and isinstance(details["input"], int | float):
        message += QUOTE
    return message


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"unknown setting '{name}'; did you mean '{near[0]}'?"
    return f"unknown setting '{name}'" + (f"; known here: {', '.join(known)}" if known else "")


def _known(type_: Any, path: tuple[str | int, ...]) -> list[str]:
    """Names of the settings that are known where `path` leads from `type_`."""
    inner = [type_]
    for step in path:
        inner = [found for outer in inner for found in _step(outer, step)]
    settings = [each for found in inner for each in _plain(found) if _is_settings(each)]
    return sorted({name for each in settings for name in settings_of(each)})


def _step(type_: Any, step: str | int) -> Iterator[Any]:
    for plain in _plain(type_):
        if _is_settings(plain):
            settings = settings_of(plain)
            if step in settings:
                yield settings[str(step)]
        elif get_origin(plain) is dict:
            yield get_args(plain)[1]
        elif get_origin(plain) is not None:
            yield get_args(plain)[0]


def _plain(type_: Any) -> Iterator[Any]:
    """`type_` without annotations, or each of its alternatives."""
    origin = get_origin(type_)
    if origin is Annotated:
        yield from _plain(get_args(type_)[0])
    elif origin is Union or origin is types.UnionType:
        for each in get_args(type_):
            yield from _plain(each)
    else:
        yield type_


def _is_settings(type_: Any) -> bool:
    return isinstance(type_, type) and dataclasses.is_dataclass(type_)


def _name(attribute: str, hint: Any) -> str:
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    aliases = [extra.alias for extra in extras if getattr(extra, "alias", None)]
    return aliases[0] if aliases else attribute

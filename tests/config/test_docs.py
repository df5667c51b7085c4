"""docs/configuration.md lists every setting, with the default it has and an example that is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, make_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import pytest

from gateway.config import shape
from gateway.config.secrets import SECRETS
from gateway.config.typed import settings_of, validate
from gateway.config.values import BALANCES, PROTOCOLS, NotBuilt
from gateway.config.yamlfile import read
from gateway.pools.balance import BALANCERS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
RULES = Path(shape.__file__).parent.parent / "resolve" / "tables" / "http.rules"
ROW = re.compile(r"\| `([^`]+)` \| [^|]+ \| (?:`([^`]*)`|(\*needed\*|not built yet)) \| `([^`]+)` \|")
SECRET_PATHS = {".".join(way).replace(".*", "[]") for way in SECRETS}
BEYOND: Any = object()


@dataclass(frozen=True, slots=True)
class Documented:
    default: str | None
    word: str
    example: str


@dataclass(frozen=True, slots=True)
class Setting:
    hint: Any
    default: Any


def documented() -> dict[str, Documented]:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    found = [ROW.match(row) for row in rows]
    assert all(found), [row for row, match in zip(rows, found, strict=True) if match is None]
    return {match[1]: Documented(match[2], match[3] or "", match[4]) for match in found if match}


def known(type_: Any = shape.File, before: str = "") -> Iterator[tuple[str, Setting]]:
    """Every setting that has no settings within, by its path in the file."""
    attributes: dict[str, Field[Any]] = {entry.name: entry for entry in fields(type_)}
    for name, hint in settings_of(type_).items():
        inner, is_list = within(hint)
        if inner is None:
            yield before + name, Setting(hint, default_of(attributes[name]))
        else:
            yield from known(inner, f"{before}{name}{'[]' if is_list else ''}.")


def within(hint: Any) -> tuple[Any, bool]:
    """The settings that stand in a setting of this type, if any, and whether there is a list of them."""
    if get_origin(hint) is Annotated:
        return None, False
    for each in (hint, *get_args(hint)):
        if is_dataclass(each):
            return each, get_origin(hint) is tuple
    return None, False


def default_of(attribute: Field[Any]) -> Any:
    if attribute.default is not MISSING:
        return attribute.default
    return BEYOND if attribute.default_factory is MISSING else attribute.default_factory()


def value_of(text: str, hint: Any) -> Any:
    """What the setting becomes when `text` stands in the file."""
    one = make_dataclass("One", [("setting", hint)], frozen=True)
    return validate(read(f"setting: {text}\n".encode(), "docs"), one).setting


def test_the_page_lists_each_setting_there_is_and_no_other() -> None:
    assert sorted(documented()) == sorted(dict(known()))


@pytest.mark.parametrize("name", dict(known()))
def test_a_default_is_what_the_page_says(name: str) -> None:
    setting, said = dict(known())[name], documented()[name]
    if setting.default is BEYOND:
        assert said.word == "*needed*"
    elif setting.hint == NotBuilt:
        assert said.word == "not built yet"
    elif said.default in ("null", '""'):
        assert setting.default == {"null": None, '""': ""}[said.default]
    else:
        assert said.default is not None
        assert value_of(said.default, setting.hint) == setting.default


@pytest.mark.parametrize("name", dict(known()))
def test_an_example_is_taken_and_is_not_just_the_default(name: str) -> None:
    setting, said = dict(known())[name], documented()[name]
    if name in SECRET_PATHS:
        assert said.example.startswith("{file: ")
        return
    value = value_of(said.example, setting.hint)
    assert value != setting.default or isinstance(value, NoneType) or name.endswith(".verify")


def test_the_words_a_setting_may_be_are_those_of_the_tables_and_on_the_page() -> None:
    rows = [line.split()[0] for line in RULES.read_text().splitlines() if line and not line.startswith("#")]
    assert set(PROTOCOLS) == set(rows) - {"any"}
    assert set(BALANCES) == set(BALANCERS)
    text = PAGE.read_text()
    assert all(f"`{word}`" in text for word in (*PROTOCOLS, *BALANCES))

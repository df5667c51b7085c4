"""Rules, terms and moments as every action says them, in words and in JSON.

Knows: how policies write them. Must not know: how anything was found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from gateway.config.units import SIZES
from gateway.policy.rules import Rule
from gateway.terms import NO_TERMS, Terms

# Names that one line tells, before they are only counted; JSON has all.
_NAMES: Final = 4


def rule(one: Rule) -> dict[str, Any]:
    """Which, and where it stands; for programs."""
    return {"id": one.id, "file": one.file, "line": one.line}


def terms(asked: Terms) -> dict[str, Any]:
    """What differs from no terms at all, by the words of policy files; for programs, so `input` is in bytes."""
    found = {each.name: getattr(asked, each.name) for each in fields(Terms)}
    found = {name: value for name, value in found.items() if value != getattr(NO_TERMS, name)}
    if found.pop("clamp", False):
        found["on_excess"] = "clamp"
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in found.items()}


def terms_written(asked: Terms) -> str:
    """The same as it stands in a policy file."""
    return ", ".join(f"{name}: {_written(name, value)}" for name, value in terms(asked).items()) or "none"


def _written(name: str, value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return _size(value) if name == "input" and isinstance(value, int) else str(value)


def _size(count: int) -> str:
    unit, each = max(((unit, each) for unit, each in SIZES.items() if not count % each), key=_each, default=("", 1))
    return f"{count // each}{unit}"


def _each(unit: tuple[str, int]) -> int:
    return unit[1]


def one_of(names: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or one of 7 more`."""
    if len(names) == 1:
        return names[0]
    if len(names) <= _NAMES:
        return f"{', '.join(names[:-1])} or {names[-1]}"
    return f"{', '.join(names[: _NAMES - 1])} or one of {len(names) - _NAMES + 1} more"

"""Terms as policies write them.

Knows: the fields of terms. Must not know: which rule has them, who calls.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gateway.terms import Terms


def told(terms: Terms) -> dict[str, Any]:
    """What differs from no terms at all, by the names of policy files as far as they are the same; for people, JSON."""
    nothing = Terms()
    found = {field.name: getattr(terms, field.name) for field in fields(Terms)}
    found = {name: value for name, value in found.items() if value != getattr(nothing, name)}
    if "clamp" in found:
        found["on_excess"] = "clamp"
        del found["clamp"]
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in found.items()}

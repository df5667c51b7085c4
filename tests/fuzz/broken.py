"""An oracle that finds something wrong with every input that has an `x`."""

from __future__ import annotations


def check(data: bytes) -> None:
    """Raises for an `x`."""
    assert b"x" not in data, "an x"

"""What several harnesses need: pieces of a stream, and a coroutine that is run without a loop."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, TypeVar

T = TypeVar("T")


class Untold(AssertionError):  # noqa: N818  it is a finding, and says which
    """Two readings of one input differ, and no table of allowed differences has it."""


def bytewise(stream: bytes) -> list[bytes]:
    """One piece for each byte."""
    return [stream[at : at + 1] for at in range(len(stream))]


def cut(stream: bytes, seed: int) -> list[bytes]:
    """The stream in a few pieces, the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311  where it is cut is no secret
    edges = sorted({0, len(stream), *(chance.randrange(len(stream) + 1) for _ in range(1 + seed % 7))})
    return [stream[start:end] for start, end in pairwise(edges)]


def finished(step: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that has nothing to wait for."""
    try:
        step.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    step.close()
    raise Untold("it waits for something")

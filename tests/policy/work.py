"""Work measured in lines of Python that ran, which no busy machine disturbs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python `work` takes."""
    count = 0

    def tracer(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        count += event == "line"
        return tracer

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # whoever is called back when it collects is no part of the work
    sys.settrace(tracer)  # type: ignore[arg-type]  # the stub's protocol cannot be written for a nested function
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count

"""Names of calls."""

from __future__ import annotations

import re

from gateway.ids import RequestIds


def test_each_call_has_a_name_of_its_own_that_is_also_a_trace_id() -> None:
    ids, others = RequestIds(), RequestIds()
    names = [ids.new() for _ in range(10_000)]

    assert len({*names, *(others.new() for _ in range(10_000))}) == 20_000
    assert all(re.fullmatch(r"(?!0{32})[0-9a-f]{32}", name) for name in names)


def test_names_are_in_order() -> None:
    ids = RequestIds()
    numbers = [int(ids.new(), 16) for _ in range(10_000)]
    assert numbers == list(range(numbers[0], numbers[0] + 10_000))

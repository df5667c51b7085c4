"""Which terms let in all that others let in is told rightly, held against what becomes of calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.config.values import CacheSalt
from gateway.errors import Refusal
from gateway.pools.backends import Pool
from gateway.seams import Interface
from gateway.terms import ENGINE_FIELDS, NO_TERMS, Terms, covers
from tests.caps.asked import meet, pool

NAMES = [field.name for field in fields(Terms)]
SOME: dict[str, st.SearchStrategy[Any]] = {
    "remote_media": st.booleans(),
    "clamp": st.booleans(),
    "engine_fields": st.sampled_from(
        [frozenset(), frozenset({"priority"}), frozenset({"priority", "rid"}), ENGINE_FIELDS]
    ),
    "input": st.sampled_from([None, 40, 80, 1000]),
}
LIMIT = st.sampled_from([None, 0, 1, 2])
SOME_TERMS = st.builds(Terms, **{name: SOME.get(name, LIMIT) for name in NAMES})

PICTURE = {"type": "image_url", "image_url": {"url": "https://elsewhere.test/x.png"}}
MEMBERS: dict[str, list[Any]] = {
    "max_tokens": [1, 2, 3, "2", 0],
    "n": [1, 2, 3],
    "best_of": [1, 3],
    "logprobs": [0, 1, 3, True],
    "prompt": ["a", ["a", "b"], ["a", "b", "c"]],
    "tools": [[], [{}], [{}, {}, {}], 1],
    "messages": [[{"role": "user", "content": [PICTURE]}], [{"role": "user", "content": [PICTURE] * 3}]],
    "priority": [1],
    "rid": ["a"],
    "cache_salt": ["a"],
    "Max_tokens": [1],
    "extra_body": [{"max_tokens": 2}, {"priority": 1}, {"n": 3}],
}
BODIES = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in MEMBERS.items()})
BY: list[CacheSalt | None] = [None, "subject"]


def passes(body: Mapping[str, Any], terms: Terms, interface: Interface, by: Pool, *, unread: bool) -> bool:
    try:
        meet(body, terms, interface=interface, by=by, unread=unread)
    except Refusal:
        return False
    return True


@settings(max_examples=300)
@given(SOME_TERMS, st.data())
def test_whatever_passes_under_the_narrow_terms_passes_under_the_wide_ones(wide: Terms, data: st.DataObject) -> None:
    """The narrow ones differ in a few fields: of terms that are drawn alone few are wider than others."""
    changed = data.draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    narrow = replace(wide, **{name: data.draw(SOME.get(name, LIMIT)) for name in changed})
    assume(covers(wide, narrow))
    by = pool(cache_salt=data.draw(st.sampled_from(BY)))
    interface = data.draw(st.sampled_from([Interface.CHAT, Interface.COMPLETIONS, Interface.GENERATE, Interface.PLAIN]))
    unread = interface in {Interface.GENERATE, Interface.PLAIN}
    for body in data.draw(st.lists(BODIES, min_size=5, max_size=5)):
        assert passes(body, wide, interface, by, unread=unread) or not passes(
            body, narrow, interface, by, unread=unread
        )


@pytest.mark.parametrize("limits", [NO_TERMS, Terms(max_tokens=5)])
def test_what_clamps_takes_a_call_that_is_refused_without_also_where_nothing_is_limited(limits: Terms) -> None:
    by, clamping = pool(), replace(limits, clamp=True)
    assert not covers(limits, clamping)
    assert covers(clamping, limits)
    assert passes({"priority": 1}, clamping, Interface.CHAT, by, unread=False)
    assert not passes({"priority": 1}, limits, Interface.CHAT, by, unread=False)

"""What patterns, windows, networks and terms tell apart is found: nothing is missing."""

from __future__ import annotations

from dataclasses import fields, replace
from ipaddress import ip_network
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cli.policy import said
from gateway.policy.conditions import Window, address_of, within
from gateway.policy.diff import names as names_module
from gateway.policy.diff.bounds import TooMuch
from gateway.policy.diff.names import made_up
from gateway.policy.diff.places import addresses
from gateway.policy.diff.times import instants
from gateway.terms import NO_TERMS, Terms, covers
from tests.policy.diff.small import NOW
from tests.policy.reference import name_matches

PATTERNS = st.text(alphabet="ab/*", min_size=1, max_size=5)
NAMES = ["".join(letters) for size in range(1, 6) for letters in product("ab/q", repeat=size)]
ZONES = ("Europe/Madrid", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")


@settings(max_examples=60)
@given(st.frozensets(PATTERNS, min_size=1, max_size=5), st.data())
def test_for_each_way_in_which_patterns_overlap_there_is_a_name(patterns: frozenset[str], data: st.DataObject) -> None:
    asked = data.draw(st.frozensets(st.sampled_from(sorted(patterns)), min_size=1))

    def matching(name: str) -> frozenset[str]:
        return frozenset(pattern for pattern in patterns if name_matches(pattern, name))

    found = [matching(name) for name in made_up(patterns, asked)]
    assert len(set(found)) == len(found)
    assert all(one & asked for one in found)
    assert all("*" in pattern for one in found for pattern in one)
    assert {matching(name) for name in NAMES if name not in patterns and matching(name) & asked} <= set(found)


def test_a_made_up_name_looks_like_one() -> None:
    assert list(made_up({"nvidia/*", "meta/llama"}, {"nvidia/*"})) == ["nvidia/xxx"]


def test_patterns_that_overlap_in_too_many_ways_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "NAMES_LIMIT", 500)
    with pytest.raises(TooMuch, match="--config"):
        list(made_up({f"**{letter}**" for letter in "abcdefghijkl"}, {"**a**"}))


def windows() -> st.SearchStrategy[Window]:
    minutes = st.integers(0, 1439)
    days = st.frozensets(st.integers(0, 6), min_size=1)
    return st.builds(Window, st.sampled_from(ZONES), days, minutes, minutes).filter(lambda it: it.begin != it.end)


@settings(max_examples=60)
@given(st.lists(windows(), min_size=1, max_size=3), st.lists(st.integers(0, 365 * 86_400), min_size=20, max_size=20))
def test_whatever_is_open_together_at_any_time_is_open_together_at_one_of_the_instants(
    shown: list[Window], seconds: list[int]
) -> None:
    """A year has changes of time, and zones do not all change on one day."""
    found = {tuple(window.holds(moment.at) for window in shown) for moment in instants(shown, NOW)}
    assert {tuple(window.holds(NOW + second) for window in shown) for second in seconds} <= found


def test_a_window_that_is_open_only_while_two_zones_are_apart_is_seen() -> None:
    """In spring New York puts its clock forward weeks before Madrid: five hours apart, not six, for that time."""
    shown = [Window("America/New_York", begin=8 * 60, end=9 * 60), Window("Europe/Madrid", begin=13 * 60, end=14 * 60)]
    assert (True, True) in {tuple(window.holds(moment.at) for window in shown) for moment in instants(shown, NOW)}


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(8, 16)), max_size=4),
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=10, max_size=10),
)
def test_whatever_networks_share_an_address_has_one(nets: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    networks = [ip_network(f"10.{second}.0.0/{prefix}", strict=False) for second, prefix in nets]

    def near(peer: str | None) -> tuple[bool, ...]:
        address = address_of(peer or "")
        return (address is None, *(within(address, [network]) for network in networks))

    found = {near(peer) for peer in addresses(networks)}
    assert {near(None), near("::1"), *(near(f"10.{second}.{third}.9") for second, third in asked)} <= found


@pytest.mark.parametrize("field", [field.name for field in fields(Terms)])
def test_every_term_is_seen_to_let_in_more_or_less(field: str) -> None:
    less = {"remote_media": False, "engine_fields": frozenset[str](), "clamp": False}.get(field, 5)
    more = {"remote_media": True, "engine_fields": frozenset({"priority"}), "clamp": True}.get(field)
    narrow, wide = replace(NO_TERMS, **{field: less}), replace(NO_TERMS, **{field: more})  # type: ignore[arg-type]
    assert covers(wide, narrow)
    assert not covers(narrow, wide)
    assert said.terms(narrow) != said.terms(wide)
    assert said.terms_written(narrow) != said.terms_written(wide)

"""Knobs take what they should and refuse the rest, from JSON and from the command line alike."""

from __future__ import annotations

import argparse
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.simulate.knobs import BOUNDS, KINDS, Failure, Knobs, add_arguments, as_json, changed, from_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KINDS, "other"]), inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_any_json_gives_knobs_within_bounds_or_a_value_error(wanted: object) -> None:
    try:
        knobs = changed(Knobs(), wanted)
    except ValueError:
        return
    assert all(0 <= getattr(knobs, name) <= most for name, most in BOUNDS.items())
    assert isinstance(knobs.failure, Failure)
    assert type(knobs.ready) is bool


def test_what_is_not_named_stays() -> None:
    knobs = changed(Knobs(tokens=7), {"failure": "reset", "failure_rate": 1})
    assert (knobs.tokens, knobs.failure, knobs.failure_rate) == (7, Failure.RESET, 1.0)


def test_knobs_survive_the_way_through_json() -> None:
    knobs = Knobs(first_token=1.5, tokens=3, failure=Failure.CUT, ready=False, max_concurrency=2)
    assert changed(Knobs(), json.loads(json.dumps(as_json(knobs)))) == knobs


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"speed": 1}, "no knob 'speed'"),
        ({"tokens": 1.5}, "tokens must be int"),
        ({"ready": 1}, "ready must be bool"),
        ({"failure": "slow"}, "slow"),
        ({"failure_rate": 1.01}, "between 0 and 1"),
        ({"first_token": math.nan}, "between"),
        ({"token_delay": -1}, "between"),
        ([], "JSON object"),
    ],
)
def test_a_slip_is_told_in_words(wanted: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        changed(Knobs(), wanted)


def test_the_command_line_has_every_knob_and_the_same_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert from_arguments(parser.parse_args([])) == Knobs()
    every = (
        "--first-token 1 --token-delay 2 --tokens 3 --failure-rate 0.5 --failure cut --not-ready --max-concurrency 4"
    )
    assert from_arguments(parser.parse_args(every.split())) == Knobs(1.0, 2.0, 3, 0.5, Failure.CUT, False, 4)

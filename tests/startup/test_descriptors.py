"""How many callers there are descriptors for: no more than wanted, two each, and something left for the rest."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.descriptors import callers, ran_out

ASK = """
import resource
from gateway.descriptors import raise_limit_for
print(raise_limit_for({wanted}), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@given(st.integers(1, 1_000_000), st.integers(0, 3_000_000))
def test_there_are_two_descriptors_for_each_caller_and_some_for_the_rest(wanted: int, descriptors: int) -> None:
    found = callers(wanted, descriptors)
    assert 1 <= found <= wanted
    if found > 1:
        assert 2 * found + 100 <= descriptors
    if found < wanted:
        assert 2 * (found + 1) + 128 > descriptors


@pytest.mark.parametrize(
    ("limits", "wanted", "places", "soft"),
    [
        ("256:20000", 1000, 1000, 2128),  # raised, and not beyond what is needed
        ("256:1000", 1000, 436, 1000),
        ("4096:4096", 1000, 1000, 4096),
        ("64:64", 1000, 1, 64),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_the_hard_one_lets_it(
    limits: str, wanted: int, places: int, soft: int
) -> None:
    command = ["prlimit", f"--nofile={limits}", sys.executable, "-c", ASK.format(wanted=wanted)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [str(places), str(soft)]
    assert ("connections.bounded" in done.stderr) == (places < wanted)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EMFILE, "Too many open files"), True),
        (OSError(errno.ENFILE, "Too many open files in system"), True),
        (OSError(errno.ECONNREFUSED, "Connection refused"), False),
        (TimeoutError(), False),
        (ValueError(), False),
    ],
)
def test_running_out_is_told_from_what_others_did(error: Exception, expected: bool) -> None:
    assert ran_out(error) is expected

"""The page that a reader of the results sees."""

from __future__ import annotations

import re

from bench.figures import Measure
from bench.report import GOALS, page
from bench.sections import SECTIONS


def measure(key: str, *, compared: bool = True, **values: tuple[float, ...]) -> Measure:
    return Measure(key, "Some work", "µs", values, compared=compared)


def row(text: str, *words: str) -> str:
    """The one line of `text` with all of `words`."""
    (found,) = (line for line in text.splitlines() if all(word in line for word in words))
    return found


def test_a_goal_beside_a_peer_is_judged_by_the_median_of_the_pairs() -> None:
    text = page([], [measure("json.cpu", gateway=(50.0, 60.0, 90.0), haproxy=(60.0, 60.0, 60.0))])
    assert "0.833 / 1.00 / 1.50" in row(text, "≤ 1 of haproxy")
    assert "| met |" in row(text, "≤ 1 of haproxy")


def test_a_missed_goal_stands_out() -> None:
    text = page([], [measure("sse.cpu", gateway=(40.0,), haproxy=(20.0,))])
    assert "**missed**" in row(text, "≤ 1.5 of haproxy")


def test_a_goal_that_wants_more_is_missed_by_less() -> None:
    text = page([], [measure("upload.rate", gateway=(40.0,), nginx=(100.0,))])
    assert "**missed**" in row(text, "≥ 0.5 of nginx")


def test_a_goal_without_a_peer_is_judged_by_the_gateways_own_figure() -> None:
    text = page([], [measure("latency.p99", gateway=(2.0, 3.0, 9.0), haproxy=(1.0, 1.0, 1.0))])
    assert "| met |" in row(text, "≤ 3 µs")


def test_nothing_is_claimed_about_a_peer_that_did_not_run() -> None:
    text = page([], [measure("json.cpu", gateway=(50.0,), envoy=(60.0,))])
    assert "of haproxy" not in text
    assert "of envoy" in text


def test_a_peer_that_is_not_installed_is_said_to_be_so_where_it_would_stand() -> None:
    absent = {"litellm": {"json"}, "sglang-router": {"json", "sse"}}
    text = page([], [measure("json.cpu", gateway=(50.0,)), measure("sse.cpu", gateway=(5.0,))], absent)
    assert "not installed" in row(text, "≤ 0.01 of litellm")
    assert [line for line in text.splitlines() if line.startswith("| litellm |")] == ["| litellm | not installed |  |"]
    assert text.count("| sglang-router | not installed |") == 2


def test_peers_alone_make_a_page_without_goals() -> None:
    text = page([("date", "today")], [measure("json.cpu", haproxy=(60.0,))])
    assert "## Goals" not in text
    assert "- date: today" in text
    assert "60.0 / 60.0 / 60.0" in row(text, "| haproxy |")


def test_each_peer_shows_the_gateways_ratio_to_it() -> None:
    text = page([], [measure("json.rate", gateway=(10.0, 30.0), nginx=(20.0, 20.0))])
    assert "0.500 / 1.00 / 1.50" in row(text, "| nginx |")


def test_differences_get_no_ratio() -> None:
    text = page([], [measure("first.p50", compared=False, gateway=(0.5,), nginx=(0.0,))])
    assert row(text, "| nginx |").endswith("|  |")


def test_every_goal_is_about_a_section_that_exists() -> None:
    sections = {"json", "sse", "latency", "memory", "upload"}
    assert sections == set(SECTIONS)
    assert {goal.measure.partition(".")[0] for goal in GOALS} <= sections | {"first"}


def test_tables_have_as_many_cells_in_every_row() -> None:
    text = page([], [measure("json.cpu", gateway=(50.0,), haproxy=(60.0,), nginx=(20.0,))])
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1

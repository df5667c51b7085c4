"""Sizes, times, URLs and other single values mean one thing, or are refused without being repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import units, values

READERS: dict[str, Callable[[Any], Any]] = {
    "size": units.size,
    "duration": units.duration,
    "wait": units.wait,
    "path": units.path,
    "network": units.network,
    "host": units.host,
    "url": units.url,
    "whole": units.whole(1, 9),
    "claim": values.claim,
    "renames": values.renames,
    "header": values.header,
    "prefix": values.prefix,
    "algorithm": values.algorithm,
    "workers": values.workers,
    "not built": values.not_built,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@given(value=JSON)
def test_any_value_is_read_or_refused_in_words_of_ours(reader: Callable[[Any], Any], value: Any) -> None:
    refusal: ValueError | None = None
    try:
        reader(value)
    except ValueError as error:
        refusal = error
    assert refusal is None or (type(refusal) is ValueError and len(str(refusal)) > 10)


@pytest.mark.parametrize("reader", [READERS[name] for name in READERS if name != "claim"])
def test_a_refusal_never_repeats_the_value(reader: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError) as caught:
        reader("\nhunter2 is the password")
    assert "hunter2" not in str(caught.value)


@given(st.integers(1, 1024), st.sampled_from(["KiB", "MiB", "GiB"]))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert units.size(f"{number}{unit}") == number * 1024 ** (["KiB", "MiB", "GiB"].index(unit) + 1)


@given(st.integers(0, 10_000), st.sampled_from([("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]))
def test_a_time_is_its_number_times_its_unit_in_seconds(number: int, unit: tuple[str, int]) -> None:
    assert units.duration(f"{number}{unit[0]}") == pytest.approx(number * unit[1] / 1000)


@pytest.mark.parametrize(
    "value", ["64", 64, "64MB", "64mib", "64 MiB", "-1MiB", "1.5MiB", "0KiB", "1025GiB", "", "٤MiB"]
)
def test_what_is_not_clearly_a_size_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        units.size(value)


@pytest.mark.parametrize(
    "value", ["60", 60, 1.5, "1d", "1 s", "-1s", "1h30m", "1e3s", ".5s", "999999999h", "", "s", True]
)
def test_what_is_not_clearly_a_time_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="time"):
        units.duration(value)


def test_a_limit_on_waiting_cannot_be_nothing() -> None:
    assert units.duration("0s") == 0.0
    assert units.wait("1ms") == 0.001
    with pytest.raises(ValueError, match="at least 1ms"):
        units.wait("0s")


@pytest.mark.parametrize(
    "value",
    [
        "http://a",
        "https://a.example.com:8443/base/path",
        "http://10.0.0.1:1",
        "http://[::1]:8000",
        "https://a/realms/x/",
    ],
)
def test_a_url_of_a_host_with_port_and_path_is_taken_as_it_is(value: str) -> None:
    assert units.url(value) == value


@pytest.mark.parametrize(
    "value",
    [
        *("a:8000", "ftp://a", "HTTP://a", "http://", "http://u:p@a", "http://a?b=c", "http://a#b", "http://a b"),
        *("http://a:0", "http://a:65536", "http://a:", "http://[::g]", "http://::1", "http://-a", "http://a//b"),
        *("http://a\\b", "http://a/\n", "http://[10.0.0.1]"),
    ],
)
def test_any_other_url_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"http|host|port"):
        units.url(value)


def test_urls_of_the_same_place_are_known_as_the_same() -> None:
    assert units.same_place("http://NIM:80/") == units.same_place("http://nim")
    assert units.same_place("https://nim") == units.same_place("https://nim:443") == units.same_place("http://nim:443/")
    assert len({units.same_place(u) for u in ["http://a", "https://a", "http://a:81", "http://a/b", "http://b"]}) == 5


@pytest.mark.parametrize(
    ("value", "loopback"),
    [
        ("http://localhost:9000/x", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:80", True),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.example.com", False),
    ],
)
def test_only_this_machine_is_loopback(value: str, loopback: bool) -> None:
    assert units.is_loopback(value) is loopback


@pytest.mark.parametrize("value", ["HS256", "hs512", "none", "None", "RS1", "rs256", "", None])
def test_only_algorithms_with_a_public_key_are_taken(value: Any) -> None:
    with pytest.raises(ValueError):
        values.algorithm(value)
    assert values.algorithm("EdDSA") == "EdDSA"


def test_a_claim_is_a_dotted_path_or_a_list_where_names_have_dots() -> None:
    assert values.claim("realm_access.roles") == ("realm_access", "roles")
    assert values.claim(["https://example.com/groups"]) == ("https://example.com/groups",)
    for wrong in ["", "a..b", ".", [], [""], [1], ["a"] * 9, None]:
        with pytest.raises(ValueError):
            values.claim(wrong)


@pytest.mark.parametrize("value", ["Host", "transfer-encoding", "X Y", "X:", "", "Ä"])
def test_a_credential_cannot_be_in_a_header_that_is_none_or_the_connections(value: str) -> None:
    with pytest.raises(ValueError):
        values.header(value)
    assert values.header("X-Api-Key") == "X-Api-Key"


@pytest.mark.parametrize("value", ["name", "/", "/a/b", "/a.b", "/v1", "/v2", "/a?", "", None])
def test_a_prefix_is_one_path_segment_that_no_other_path_begins_with(value: Any) -> None:
    with pytest.raises(ValueError):
        values.prefix(value)
    assert values.prefix("/studio-voice") == "/studio-voice"

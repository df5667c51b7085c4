"""Backends and pools: addresses, leases, who is a candidate, what a reload keeps."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import settings
from gateway.pools.backends import Backend, build_pools
from gateway.pools.ejection import FailureReason
from tests.backends.made import built, client_context, names, up, wanted


def one(url: str, **changes: Any) -> Backend:
    return built(wanted(backends=(settings.BackendAddress(url),), **changes)).backends[0]


@pytest.mark.parametrize(
    ("url", "name", "host", "port", "base_path", "authority"),
    [
        ("http://nim:8000", "nim:8000", "nim", 8000, b"", b"nim:8000"),
        ("http://nim:8000/", "nim:8000", "nim", 8000, b"", b"nim:8000"),
        ("http://NIM", "nim:80", "nim", 80, b"", b"nim"),
        ("https://nim", "nim:443", "nim", 443, b"", b"nim"),
        ("https://nim:80/x/", "nim:80/x", "nim", 80, b"/x", b"nim:80"),
        ("http://[::1]:8000", "[::1]:8000", "::1", 8000, b"", b"[::1]:8000"),
        ("http://[2001:DB8::1]", "[2001:db8::1]:80", "2001:db8::1", 80, b"", b"[2001:db8::1]"),
    ],
)
def test_an_address_becomes_what_is_connected_to_and_what_host_says(
    url: str, name: str, host: str, port: int, base_path: bytes, authority: bytes
) -> None:
    backend = one(url)
    assert (backend.name, backend.host, backend.port, backend.base_path, backend.authority) == (
        name,
        host,
        port,
        base_path,
        authority,
    )
    assert (backend.tls is not None) == url.startswith("https")


@pytest.mark.parametrize(
    "url",
    [
        "nim:8000",
        "ftp://nim",
        "http://",
        "http://nim:8000/a b",
        "http://nim/\r\nX: 1",
        "http://nïm",
        "http://user:word@nim",
        "http://nim/?a=1",
        "http://nim/#a",
        "http://nim:99999",
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        one(url)


@given(st.text(max_size=40))
def test_any_text_as_an_address_is_a_backend_or_a_value_error(text: str) -> None:
    try:
        backend = one("http://" + text)
    except ValueError:
        return
    assert backend.authority.isascii()
    assert not set(backend.authority + backend.base_path) & set(b" \r\n\t?#@\0")


def test_a_backend_named_twice_is_refused() -> None:
    address = settings.BackendAddress("http://nim:8000")
    same = settings.BackendAddress("http://nim:8000/")
    with pytest.raises(ValueError, match="twice"):
        built(wanted(backends=(address, same)))


def test_an_unknown_balancer_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="least_connections"):
        built(wanted(balance="best"))


def test_a_credential_is_sent_but_never_printed() -> None:
    backend = one("http://nim:8000", credential=settings.Credential("Authorization", "Bearer abcdef"))
    assert backend.credential == (b"authorization", b"Bearer abcdef")
    assert repr(backend) == "<Backend nim:8000 unknown 0 in flight>"


@pytest.mark.parametrize(("header", "value"), [("A", "x\r\nB: y"), ("A", "x\0"), ("A: b", "x"), ("", "x")])
def test_a_credential_that_would_break_the_header_is_refused_without_its_value(header: str, value: str) -> None:
    with pytest.raises(ValueError, match="credential") as refused:
        one("http://nim:8000", credential=settings.Credential(header, value))
    assert value not in str(refused.value)


@given(st.lists(st.booleans(), max_size=60))
def test_leases_of_calls_that_overlap_bring_the_count_back_to_zero(steps: list[bool]) -> None:
    backend = one("http://nim:8000")
    held = 0
    with ExitStack() as calls:
        for enter in steps:
            if enter:
                calls.enter_context(backend.hold())
                held += 1
            assert backend.in_flight == held
    assert backend.in_flight == 0


def test_a_call_that_raises_gives_its_lease_back() -> None:
    backend = one("http://nim:8000")

    def call() -> None:
        with backend.hold():
            assert repr(backend).endswith("1 in flight>")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        call()
    assert backend.in_flight == 0


def test_nobody_is_a_candidate_before_the_first_good_probe() -> None:
    pool = built(wanted())
    assert names(pool, 0.0) == []
    pool.backends[1].vitals.probed(True, 3, 2)
    assert names(pool, 0.0) == ["1"]
    assert pool.backends[1].usable("m", 0.0)
    assert not pool.backends[0].usable("m", 0.0)


def test_every_usable_backend_is_a_candidate_once() -> None:
    assert sorted(names(up(8), 0.0)) == [str(i) for i in range(8)]


def test_a_refused_connection_puts_a_backend_last_for_a_moment() -> None:
    pool = up()
    pool.failed(pool.backends[1], FailureReason.CONNECT, 10.0)
    assert [names(pool, 10.5)[-1] for _ in range(6)] == ["1"] * 6
    assert "1" in {names(pool, 11.1)[0] for _ in range(6)}


def test_a_success_ends_the_doubt() -> None:
    pool = up()
    pool.failed(pool.backends[1], FailureReason.CONNECT, 10.0)
    pool.succeeded(pool.backends[1], 10.1)
    assert "1" in {names(pool, 10.2)[0] for _ in range(6)}


def test_a_backend_that_asks_for_rest_gets_it_but_not_more_than_a_minute() -> None:
    pool = up(2)
    pool.backends[0].rest_until(10_000.0, 100.0)
    assert names(pool, 159.9) == ["1"]
    assert sorted(names(pool, 160.0)) == ["0", "1"]
    pool.backends[0].rest_until(203.0, 200.0)
    pool.backends[0].rest_until(201.0, 200.0)
    assert names(pool, 202.9) == ["1"]


def test_when_all_rest_the_caller_is_told_when_to_come_back() -> None:
    pool = up(2)
    pool.backends[0].rest_until(117.2, 100.0)
    pool.backends[1].rest_until(130.0, 100.0)
    assert names(pool, 100.0) == []
    assert pool.retry_after(100.0) == 18


def test_when_all_are_down_the_caller_is_told_to_come_back_after_the_next_probe() -> None:
    assert built(wanted(health=settings.HealthCheck(interval=7.0))).retry_after(100.0) == 7
    assert built(wanted(health=settings.HealthCheck(interval=0.01))).retry_after(100.0) == 1
    assert built(wanted(health=settings.HealthCheck(interval=600.0))).retry_after(100.0) == 60


KSERVE: dict[str, Any] = {"protocols": ("kserve",), "models": (settings.Model("m"), settings.Model("n"))}


def test_a_model_that_is_not_ready_leaves_the_others_in_rotation() -> None:
    """B108."""
    pool = up(2, **KSERVE)
    pool.backends[0].vitals.model_probed("n", False, 1, 1)
    assert names(pool, 0.0, "n") == ["1"]
    assert sorted(names(pool, 0.0, "m")) == ["0", "1"]


def test_a_call_that_names_no_probed_model_needs_the_server_only() -> None:
    pool = up(2, **KSERVE)
    pool.backends[0].vitals.model_probed("n", False, 1, 1)
    pool.backends[0].vitals.model_probed("m", False, 1, 1)
    assert sorted(names(pool, 0.0, "")) == ["0", "1"]


def test_a_reload_keeps_load_health_and_ejection_of_the_same_address() -> None:
    old = up(3)
    with old.backends[0].hold():
        for _ in range(5):
            old.failed(old.backends[1], FailureReason.STATUS, 1.0)
        new = built(wanted(weights=(4, 1, 1, 1), credential=settings.Credential("A", "b")), old)
        assert [b.in_flight for b in new.backends] == [1, 0, 0, 0]
        assert names(new, 2.0) == ["0", "2"]
        assert (new.backends[0].weight, old.backends[0].weight) == (4, 1)
        assert (new.backends[0].credential, old.backends[0].credential) == ((b"a", b"b"), None)
    assert new.backends[0].in_flight == 0


def test_a_certificate_has_to_name_the_host_unless_another_name_is_given() -> None:
    tls = settings.ClientTls(server_name="nim.test")
    addresses = (
        settings.BackendAddress("https://a.test."),
        settings.BackendAddress("https://b.test", tls=tls),
        settings.BackendAddress("https://[::1]"),
    )
    names = [backend.server_name for backend in built(wanted(backends=addresses)).backends]
    assert names == ["a.test", "nim.test", "::1"]  # RFC 6066 section 3: without the last dot


def test_a_backend_that_joins_later_gets_nothing_before_its_first_good_probe() -> None:
    """B103."""
    new = built(wanted(3), up(2))
    assert sorted(names(new, 0.0)) == ["0", "1"]
    new.backends[2].vitals.probed(True, 3, 2)
    assert sorted(names(new, 0.0)) == ["0", "1", "2"]


def test_the_same_address_in_another_pool_is_another_backend() -> None:
    old = up(2)
    first, second = build_pools((wanted(2, name="q"), wanted(2)), (old,), client_context)
    assert names(first, 0.0) == []
    assert len(names(second, 0.0)) == 2


def test_a_model_that_a_reload_adds_is_not_ready_before_it_was_asked() -> None:
    old = up(1, protocols=("kserve",))
    new = built(wanted(1, **KSERVE), old)
    assert names(new, 0.0, "m") == ["0"]
    assert names(new, 0.0, "n") == []


def test_a_reload_that_fails_leaves_the_pools_as_they_were() -> None:
    old = up(3)
    with pytest.raises(ValueError):
        build_pools((wanted(1), wanted(balance="best", name="q")), (old,), client_context)
    assert len(names(old, 0.0)) == 3
    with ExitStack() as calls:
        for _ in range(50):
            calls.enter_context(old.backends[2].hold())
        assert old.budget.limit == 10


def test_workers_with_different_seeds_start_with_different_backends() -> None:
    """B102."""
    starts = set()
    for seed in range(3):
        pool = build_pools((wanted(),), None, client_context, seed)[0]
        for backend in pool.backends:
            backend.vitals.probed(True, 3, 2)
        starts.add(names(pool, 0.0)[0])
    assert len(starts) == 3

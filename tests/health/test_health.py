"""Active probes against real servers on loopback."""

from __future__ import annotations

import logging
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from gateway import devcerts, settings, tls
from gateway.fetch import Fetch
from gateway.pools.backends import Backend, Pool, build_pools
from gateway.pools.health import Prober, servable
from gateway.pools.readiness import ready_path
from gateway.pools.vitals import Health
from gateway.tls import server_context
from tests.backends.made import names, wanted
from tests.config.conftest import make_pair
from tests.health.made import FAST, pool_of, running, triton
from tests.health.servers import Server, serving, until, unused

IMPATIENT = settings.HealthCheck(interval=5.0, timeout=0.05)
SMALL, LARGE = "/v2/models/small/ready", "/v2/models/a%2Flarge%20b/ready"
READY = "/v2/health/ready"


async def probed(prober: Prober, pool: Pool, times: int = 1) -> None:
    for _ in range(times):
        for backend in pool.backends:
            await prober.probe(pool, backend)


@pytest.mark.parametrize(
    ("protocols", "path", "asked"),
    [
        (("openai",), "", "/v1/health/ready"),
        (("openai", "nim-mgmt"), "", "/v1/health/ready"),
        (("kserve",), "", "/v2/health/ready"),
        (("openai",), "/health", "/health"),
    ],
)
def test_the_readiness_path_follows_from_the_protocol_unless_it_is_given(
    protocols: tuple[str, ...], path: str, asked: str
) -> None:
    assert ready_path(wanted(protocols=protocols, health=settings.HealthCheck(path=path))) == asked


async def test_a_backend_is_used_after_its_first_good_probe(server: Server, fetch: Fetch) -> None:
    pool = pool_of(server.url, health=settings.HealthCheck())
    assert names(pool, 0.0) == []
    async with running(Prober((pool,), fetch)):
        await until(lambda: names(pool, 0.0))
    assert server.paths == ["/v1/health/ready"]


async def test_a_backend_that_stops_being_ready_leaves_after_three_probes_and_is_back_after_two(
    server: Server, fetch: Fetch
) -> None:
    pool = pool_of(server.url)
    prober = Prober((pool,), fetch)
    seen = []
    for status in (200, 503, 503, 503, 200, 200):
        server.says["/v1/health/ready"] = status
        await probed(prober, pool)
        seen.append(pool.backends[0].health is Health.UP)
    assert seen == [True, True, True, False, False, True]


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
async def test_anything_but_a_success_is_not_ready_and_no_redirect_is_followed(
    server: Server, fetch: Fetch, status: int
) -> None:
    """B047."""
    server.says["/v1/health/ready"] = status
    pool = pool_of(server.url)
    await probed(Prober((pool,), fetch), pool)
    assert pool.backends[0].health is Health.DOWN
    assert server.paths == ["/v1/health/ready"]


async def test_a_probe_carries_the_credential_of_the_pool_and_keeps_the_base_path(server: Server, fetch: Fetch) -> None:
    pool = pool_of(server.url + "/nim/", credential=settings.Credential("Authorization", "Bearer of-the-pool"))
    await probed(Prober((pool,), fetch), pool)
    assert server.paths == ["/nim/v1/health/ready"]
    assert server.asked[0].headers.getall("Authorization") == ["Bearer of-the-pool"]


async def test_a_probe_trusts_the_authority_given_for_its_backend_and_no_other(tmp_path: Path, fetch: Fetch) -> None:
    made, other = devcerts.make(tmp_path / "one"), devcerts.make(tmp_path / "other")
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(made.certificate, made.key)
    async with serving(listening) as server:
        for authority, health in ((made.ca, Health.UP), (other.ca, Health.DOWN)):
            context = ssl.create_default_context(cafile=authority)
            address = settings.BackendAddress(server.url)
            (pool,) = build_pools((wanted(backends=(address,)),), None, lambda _, context=context: context)  # type: ignore[misc]
            await probed(Prober((pool,), fetch), pool)
            assert pool.backends[0].health is health


@pytest.mark.parametrize(("name", "health"), [("localhost", Health.UP), (None, Health.DOWN), ("nim", Health.DOWN)])
async def test_a_probe_checks_the_name_that_calls_check(
    tmp_path: Path, fetch: Fetch, name: str | None, health: Health
) -> None:
    """The certificate names localhost only; the backend is reached by its address."""
    pair = make_pair()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    async with serving(server_context(settings.ServerTls(certificate, key))) as server:
        address = settings.BackendAddress(server.url, tls=settings.ClientTls(certificate, name))
        (pool,) = build_pools((wanted(backends=(address,)),), None, tls.client_context)
        await probed(Prober((pool,), fetch), pool)
        assert pool.backends[0].health is health


async def test_a_backend_nobody_listens_at_is_down_whatever_traffic_said(fetch: Fetch) -> None:
    pool = pool_of(unused())
    backend, prober = pool.backends[0], Prober((pool,), fetch, now=lambda: 100.0)
    backend.vitals.probed(True, 3, 2)
    pool.succeeded(backend, 99.0)
    await probed(prober, pool, times=3)
    assert backend.health is Health.DOWN


@pytest.mark.parametrize(("success", "health"), [(97.0, Health.UP), (90.0, Health.DOWN)])
async def test_a_probe_that_times_out_does_not_count_while_calls_succeed(
    server: Server, fetch: Fetch, success: float, health: Health
) -> None:
    """B105: a backend busy with a long prefill is slow to answer probes, and serves."""
    server.hangs.add("/v1/health/ready")
    pool = pool_of(server.url, health=IMPATIENT)
    backend = pool.backends[0]
    backend.vitals.probed(True, 3, 2)
    pool.succeeded(backend, success)
    await probed(Prober((pool,), fetch, now=lambda: 100.0), pool, times=3)
    assert backend.health is health


async def test_strict_readiness_of_triton_takes_only_the_broken_model_out(server: Server, fetch: Fetch) -> None:
    """B108."""
    server.says |= {READY: 400, LARGE: 400}
    pool = triton(server.url)
    await probed(Prober((pool,), fetch), pool, times=4)
    assert servable((pool,)) == {"p": {"small": True, "large": False}}
    assert len(names(pool, 0.0, "small")) == 1
    assert names(pool, 0.0, "large") == []
    assert sorted(set(server.paths)) == sorted([READY, SMALL, LARGE])


async def test_a_ready_server_whose_model_still_loads_gets_no_calls_for_it(server: Server, fetch: Fetch) -> None:
    """B108."""
    server.says[SMALL] = 400
    pool = triton(server.url)
    prober = Prober((pool,), fetch)
    await probed(prober, pool, times=2)
    assert pool.backends[0].health is Health.UP
    assert names(pool, 0.0, "small") == []
    server.says[SMALL] = 200
    await probed(prober, pool)
    assert len(names(pool, 0.0, "small")) == 1


async def test_a_triton_that_is_not_ready_at_all_is_down(server: Server, fetch: Fetch) -> None:
    server.says |= {READY: 400, SMALL: 400, LARGE: 400}
    pool = triton(server.url)
    await probed(Prober((pool,), fetch), pool)
    assert pool.backends[0].health is Health.DOWN
    assert names(pool, 0.0, "") == []


async def test_one_model_that_does_not_answer_holds_up_no_other(server: Server, fetch: Fetch) -> None:
    server.hangs.add(LARGE)
    pool = triton(server.url, health=IMPATIENT)
    await probed(Prober((pool,), fetch), pool)
    assert servable((pool,)) == {"p": {"small": True, "large": False}}


async def test_many_models_are_not_all_asked_at_the_same_time(server: Server, fetch: Fetch) -> None:
    models = tuple(settings.Model(f"m{i}") for i in range(40))
    server.hangs |= {f"/v2/models/m{i}/ready" for i in range(40)}
    pool = pool_of(server.url, protocols=("kserve",), models=models, health=replace(FAST, timeout=0.2))
    await probed(Prober((pool,), fetch), pool)
    assert 1 < server.most_at_once <= 8


def test_a_pool_is_servable_while_an_ejection_runs() -> None:
    pool = pool_of("http://a:1", "http://b:1")
    assert servable((pool,)) == {"p": {"m": False}}
    pool.backends[0].vitals.probed(True, 3, 2)
    assert servable((pool,)) == {"p": {"m": True}}


async def test_a_busy_model_that_is_slow_to_say_it_is_ready_stays_in_rotation(server: Server, fetch: Fetch) -> None:
    pool = triton(server.url, health=IMPATIENT)
    backend, prober = pool.backends[0], Prober((pool,), fetch, now=lambda: 100.0)
    await probed(prober, pool)
    server.hangs.add(SMALL)
    pool.succeeded(backend, 99.0)
    await probed(prober, pool, times=3)
    assert backend.usable("small", 100.0)
    backend.vitals.last_success = 90.0
    await probed(prober, pool, times=3)
    assert not backend.usable("small", 100.0)


async def test_each_change_of_health_is_logged_and_told_once(
    server: Server, fetch: Fetch, caplog: pytest.LogCaptureFixture
) -> None:
    """B105."""
    told: list[Backend] = []
    pool = pool_of(server.url)
    prober = Prober((pool,), fetch, on_change=told.append)
    name = pool.backends[0].name
    with caplog.at_level(logging.INFO, "gateway"):
        for status in (200, 200, 503, 200, 503, 503, 503, 503):
            server.says["/v1/health/ready"] = status
            await probed(prober, pool)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("gateway")] == [
        f"backend_up pool=p backend={name}",
        f"backend_down pool=p backend={name} because='status 503'",
    ]
    assert told == [pool.backends[0]] * 2

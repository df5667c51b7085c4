"""The metrics page: the contract's names, and numbers that are those of the calls."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gateway.accounting.account import Account, result_of
from gateway.accounting.metrics import MetricsPage, Sources
from gateway.accounting.tallies import Histogram, Tallies
from gateway.call import Outcome
from gateway.errors import ClientGone, Forbidden, Truncated
from gateway.identity.apikeys.apikey import ApiKey
from gateway.identity.contracts import Standing
from tests.operators.test_audit import outcome
from tests.path.fakes import CALL, Stage, answers

CONTRACT = {
    "gateway_requests_total": {"pool", "model", "operation", "status", "result"},
    "gateway_request_duration_seconds_bucket": {"pool", "model", "operation", "le"},
    "gateway_time_to_first_byte_seconds_bucket": {"pool", "model", "operation", "le"},
    "gateway_inter_token_seconds_bucket": {"pool", "model", "operation", "le"},
    "gateway_in_flight_requests": {"pool"},
    "gateway_backend_up": {"pool", "backend"},
    "gateway_backend_in_flight_requests": {"pool", "backend"},
    "gateway_backend_failures_total": {"pool", "backend", "reason"},
    "gateway_backend_ejections_total": {"pool", "backend"},
    "gateway_retries_total": {"pool", "reason"},
    "gateway_authentications_total": {"provider", "result"},
    "gateway_auth_failures_total": {"provider"},
    "gateway_auth_throttled_total": {"provider", "scope"},
    "gateway_authorizations_total": {"decision", "rule"},
    "gateway_tokens_total": {"pool", "model", "direction"},
    "gateway_usage_unknown_total": {"pool", "model"},
    "gateway_jwks_age_seconds": {"issuer"},
    "gateway_identity_ready": {"provider"},
    "gateway_identity_outage_seconds": {"provider"},
    "gateway_identity_outage_bound_seconds": {"provider"},
    "gateway_config_generation": set(),
    "gateway_policy_info": {"digest"},
    "gateway_config_reload_successful": set(),
    "gateway_config_reloads_total": {"result"},
    "gateway_certificate_expiry_timestamp_seconds": {"file"},
    "gateway_connections": {"state"},
    "gateway_cache_entries": {"cache"},
    "gateway_tasks": set(),
    "gateway_build_info": {"version"},
}


def scrape(tallies: Tallies) -> dict[str, list[tuple[dict[str, str], float]]]:
    pool = Stage({1: answers()}).pool
    page = MetricsPage(
        Sources(
            tallies=tallies,
            pools=lambda: (pool,),
            in_flight=lambda: {"p": 2},
            jwks_ages=lambda: {"https://idp.test": 3.0},
            standings=lambda: (Standing("corp", ready=True, outage=9.0, bound=60.0),),
            api_keys=lambda: (ApiKey("k7f3m2qa", b"", "batch", frozenset(), 0.0, 9.0),),
            certificates=lambda: {"tls.crt": 4.0},
            connections=lambda: {"active": 1, "idle": 2},
            places=lambda: 10,
            handshake_failures=dict,
            accept_holds=dict,
            bodies=lambda: (0, 1),
            cache_entries=lambda: {"tokens": 5, "decisions": 6},
            tasks=lambda: 8,
            generation=lambda: 7,
            policy=lambda: "0f",
            reload_successful=lambda: True,
            shadow=lambda: "0f3a",
            audit_failing=lambda: False,
        )
    )
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(page.render().decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def filled() -> Tallies:
    tallies = Tallies()
    account = Account(tallies, lambda _line, _sent: None)
    series = tallies.series("p", "small", "infer")
    account(outcome(series=series))
    account(outcome(series=series))
    account(outcome(series=series, grant=None, refusal=Forbidden(), status=403, tokens_in=None, tokens_out=None))
    account(outcome(series=series, tokens_in=None, tokens_out=None, counts_tokens=True))
    tallies.series("p", "small", "stream").gaps.observe(0.02)
    tallies.retries[("p", "connect")] += 1
    tallies.authenticated("corp", "ok")
    tallies.failed_login("corp")
    tallies.throttled_login("corp", "pair")
    tallies.key_used("k7f3m2qa", 8.0)
    tallies.key_used("gone0000", 8.0)
    return tallies


def test_every_metric_of_the_contract_is_there_with_its_labels() -> None:
    samples = scrape(filled())

    for name, labels in CONTRACT.items():
        assert name in samples, name
        assert set(samples[name][0][0]) == labels, name


def test_the_numbers_are_those_of_the_calls() -> None:
    samples = scrape(filled())
    requests = {(labels["status"], labels["result"]): value for labels, value in samples["gateway_requests_total"]}

    assert requests == {("200", "ok"): 3.0, ("403", "denied"): 1.0}
    tokens = {labels["direction"]: value for labels, value in samples["gateway_tokens_total"]}
    assert tokens == {"input": 6.0, "output": 10.0}
    assert samples["gateway_usage_unknown_total"] == [({"pool": "p", "model": "small"}, 1.0)]
    decisions = {
        (labels["decision"], labels["rule"]): value for labels, value in samples["gateway_authorizations_total"]
    }
    assert decisions == {("allow", "ds-chat"): 3.0, ("deny", ""): 1.0}


def test_an_api_key_is_shown_while_it_is_configured_and_no_longer() -> None:
    samples = scrape(filled())
    assert samples["gateway_api_key_last_used_timestamp_seconds"] == [({"key": "k7f3m2qa"}, 8.0)]
    assert samples["gateway_api_key_expiry_timestamp_seconds"] == [({"key": "k7f3m2qa"}, 9.0)]


def test_results_come_from_a_bounded_list() -> None:
    """B128: nothing that a caller invents becomes a label."""
    for status, refusal, result in (
        (200, None, "ok"), (404, None, "invalid"), (429, None, "limited"), (503, None, "upstream_error"),
        (200, Truncated(), "truncated"), (499, ClientGone(), "client_gone"),
    ):  # fmt: skip
        made = Outcome(CALL)
        made.status, made.refusal = status, refusal
        assert result_of(made) == result


def test_a_histogram_counts_at_or_below_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)

    assert histogram.cumulative() == [("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)]
    assert histogram.total == 12.0

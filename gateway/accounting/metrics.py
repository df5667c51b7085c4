"""Every Prometheus metric, declared once; the numbers are read when the page is asked for.

Knows: names, help texts, labels. Must not know: when numbers change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gateway import __version__
from gateway.accounting.tallies import CallSeries, Tallies
from gateway.identity.apikeys.apikey import ApiKey
from gateway.identity.contracts import Standing
from gateway.pools.backends import Pool

CALL_LABELS = ("pool", "model", "operation")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the numbers are, asked at each scrape. Ages in seconds, expiries in UNIX seconds.

    `shadow`: the digest of the policy that is tried; None where none is configured, empty where it cannot be.
    """

    tallies: Tallies
    pools: Callable[[], tuple[Pool, ...]]
    in_flight: Callable[[], Mapping[str, int]]
    jwks_ages: Callable[[], Mapping[str, float]]
    standings: Callable[[], Sequence[Standing]]
    api_keys: Callable[[], Sequence[ApiKey]]
    certificates: Callable[[], Mapping[str, float]]
    connections: Callable[[], Mapping[str, int]]
    places: Callable[[], int]
    handshake_failures: Callable[[], Mapping[str, int]]
    accept_holds: Callable[[], Mapping[str, int]]
    bodies: Callable[[], tuple[int, int]]
    cache_entries: Callable[[], Mapping[str, int]]
    tasks: Callable[[], int]
    generation: Callable[[], int]
    policy: Callable[[], str]
    reload_successful: Callable[[], bool]
    shadow: Callable[[], str | None]
    audit_failing: Callable[[], bool]


class GatewayCollector(Collector):
    """Yields all families of the gateway."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        yield from _calls(self._sources.tallies)
        yield from _decisions(self._sources.tallies)
        yield from _shadow(self._sources)
        yield from _backends(self._sources)
        yield from _state(self._sources)
        yield from _providers(self._sources)
        yield from _api_keys(self._sources)
        yield from _doors(self._sources)


def _calls(tallies: Tallies) -> Iterator[Metric]:
    rows = sorted(tallies.calls.items())
    requests = CounterMetricFamily(
        "gateway_requests", "Calls that ended, by how.", labels=(*CALL_LABELS, "status", "result")
    )
    for key, series in rows:
        for (status, result), count in series.results.items():
            requests.add_metric((*key, str(status), result), count)
    yield requests
    yield _histogram(
        "gateway_request_duration_seconds",
        "From the first byte of a request to the end of its answer.",
        rows,
        "duration",
    )
    yield _histogram(
        "gateway_time_to_first_byte_seconds",
        "From the first byte of a request to the head of its answer.",
        rows,
        "first_byte",
    )
    yield _histogram("gateway_inter_token_seconds", "Between two pieces of a streamed answer.", rows, "gaps")
    tokens = CounterMetricFamily(
        "gateway_tokens", "Tokens as the backends count them.", labels=("pool", "model", "direction")
    )
    unknown = CounterMetricFamily(
        "gateway_usage_unknown", "Answers that told no token count.", labels=("pool", "model")
    )
    for (pool, model), (tokens_in, tokens_out, lost) in _by_model(rows).items():
        tokens.add_metric((pool, model, "input"), tokens_in)
        tokens.add_metric((pool, model, "output"), tokens_out)
        unknown.add_metric((pool, model), lost)
    yield tokens
    yield unknown


def _by_model(rows: list[tuple[tuple[str, str, str], CallSeries]]) -> dict[tuple[str, str], tuple[int, int, int]]:
    sums: dict[tuple[str, str], tuple[int, int, int]] = {}
    for (pool, model, _), series in rows:
        if pool:
            before = sums.get((pool, model), (0, 0, 0))
            sums[(pool, model)] = (
                before[0] + series.tokens_in,
                before[1] + series.tokens_out,
                before[2] + series.usage_unknown,
            )
    return sums


def _histogram(name: str, text: str, rows: list[tuple[tuple[str, str, str], CallSeries]], part: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=CALL_LABELS)
    for key, series in rows:
        histogram = getattr(series, part)
        family.add_metric(key, histogram.cumulative(), histogram.total)
    return family


def _decisions(tallies: Tallies) -> Iterator[Metric]:
    for name, text, labels, counts in (
        ("gateway_authentications", "Credentials looked at.", ("provider", "result"), tallies.authentications),
        ("gateway_authorizations", "Decisions, by rule.", ("decision", "rule"), tallies.authorizations),
        (
            "gateway_auth_throttled",
            "Logins refused unasked, because too many had failed.",
            ("provider", "scope"),
            tallies.throttled_logins,
        ),
        ("gateway_retries", "Calls sent to another backend.", ("pool", "reason"), tallies.retries),
        ("gateway_fallbacks", "Calls sent to another model.", ("model", "target"), tallies.fallbacks),
        (
            "gateway_backend_unsolicited",
            "Idle connections closed because bytes came unasked.",
            ("pool", "backend"),
            tallies.unsolicited,
        ),
    ):
        family = CounterMetricFamily(name, text, labels=labels)
        for key, count in sorted(counts.items()):
            family.add_metric(key, count)
        yield family
    failures = CounterMetricFamily("gateway_auth_failures", "Logins that a directory said no to.", labels=("provider",))
    for provider, count in sorted(tallies.failed_logins.items()):
        failures.add_metric((provider,), count)
    yield failures
    reloads = CounterMetricFamily("gateway_config_reloads", "Reloads tried, by result.", labels=("result",))
    for result in ("success", "failure"):
        reloads.add_metric((result,), tallies.reloads[result])
    yield reloads
    yield CounterMetricFamily(
        "gateway_audit_lines_lost", "Audit lines that could not be written.", value=tallies.audit_lost
    )
    yield CounterMetricFamily(
        "gateway_policies_not_kept",
        "Policies that were put in force and could not be written to policies.history.",
        value=tallies.policies_not_kept,
    )


def _shadow(sources: Sources) -> Iterator[Metric]:
    tallies, digest = sources.tallies, sources.shadow()
    family = CounterMetricFamily(
        "gateway_shadow_decisions",
        "Decisions that the shadow policy was tried on, by what it would change.",
        labels=("result", "rule"),
    )
    for key, count in sorted(tallies.shadow_decisions.items()):
        family.add_metric(key, count)
    yield family
    for name, text, value in (
        ("gateway_shadow_unwritten", "Differences left out of the audit lines.", tallies.shadow_unwritten),
        ("gateway_shadow_failures", "Decisions that the shadow policy failed at.", tallies.shadow_failures),
    ):
        yield CounterMetricFamily(name, text, value=value)
    ready = GaugeMetricFamily("gateway_shadow_ready", "0 while the configured shadow policy is not tried.")
    info = GaugeMetricFamily("gateway_shadow_info", "Always 1.", labels=("digest",))
    if digest is not None:
        ready.add_metric((), bool(digest))
    if digest:
        info.add_metric((digest,), 1)
    yield from (ready, info)


def _backends(sources: Sources) -> Iterator[Metric]:
    labels = ("pool", "backend")
    up = GaugeMetricFamily("gateway_backend_up", "1 while the probes find it ready.", labels=labels)
    flying = GaugeMetricFamily("gateway_backend_in_flight_requests", "Calls on it now.", labels=labels)
    failures = CounterMetricFamily(
        "gateway_backend_failures", "Calls that failed through it.", labels=(*labels, "reason")
    )
    ejections = CounterMetricFamily("gateway_backend_ejections", "Times it was left out for failing.", labels=labels)
    for pool in sources.pools():
        for backend in pool.backends:
            key = (pool.name, backend.name)
            up.add_metric(key, backend.health.value == "up")
            flying.add_metric(key, backend.in_flight)
            ejections.add_metric(key, backend.ejections)
            for reason, count in sorted(backend.failures.items()):
                failures.add_metric((*key, reason.value), count)
    yield from (up, flying, failures, ejections)


def _state(sources: Sources) -> Iterator[Metric]:
    for name, text, label, values in (
        ("gateway_in_flight_requests", "Calls under way.", "pool", sources.in_flight()),
        ("gateway_jwks_age_seconds", "Since the issuer's keys were last fetched.", "issuer", sources.jwks_ages()),
        ("gateway_certificate_expiry_timestamp_seconds", "When a certificate ends.", "file", sources.certificates()),
        ("gateway_cache_entries", "What is remembered, by cache; each is bounded.", "cache", sources.cache_entries()),
    ):
        family = GaugeMetricFamily(name, text, labels=(label,))
        for key, value in sorted(values.items()):
            family.add_metric((key,), value)
        yield family
    yield GaugeMetricFamily("gateway_tasks", "Tasks on the event loop.", value=sources.tasks())
    yield GaugeMetricFamily(
        "gateway_config_generation", "Rises with each reload that took.", value=sources.generation()
    )
    yield GaugeMetricFamily(
        "gateway_config_reload_successful",
        "0 while the files on disk are not what runs.",
        value=sources.reload_successful(),
    )
    policy = GaugeMetricFamily("gateway_policy_info", "Always 1; names the text of the rules.", labels=("digest",))
    policy.add_metric((sources.policy(),), 1)
    yield policy
    yield GaugeMetricFamily(
        "gateway_audit_failing", "1 while the system refuses audit lines.", value=sources.audit_failing()
    )
    build = GaugeMetricFamily("gateway_build_info", "Always 1.", labels=("version",))
    build.add_metric((__version__,), 1)
    yield build


def _providers(sources: Sources) -> Iterator[Metric]:
    label = ("provider",)
    ready = GaugeMetricFamily("gateway_identity_ready", "1 while it could tell who calls.", labels=label)
    outage = GaugeMetricFamily("gateway_identity_outage_seconds", "Since it last answered; else 0.", labels=label)
    bound = GaugeMetricFamily(
        "gateway_identity_outage_bound_seconds", "Outage after which its callers are refused.", labels=label
    )
    for one in sources.standings():
        ready.add_metric((one.provider,), one.ready)
        outage.add_metric((one.provider,), one.outage)
        bound.add_metric((one.provider,), one.bound)
    yield from (ready, outage, bound)


def _api_keys(sources: Sources) -> Iterator[Metric]:
    """Only those that are configured now, by their ids."""
    used = GaugeMetricFamily(
        "gateway_api_key_last_used_timestamp_seconds", "When it last held, since the start.", labels=("key",)
    )
    expiry = GaugeMetricFamily("gateway_api_key_expiry_timestamp_seconds", "When it ends.", labels=("key",))
    for key in sources.api_keys():
        expiry.add_metric((key.id,), key.expires)
        if (at := sources.tallies.keys_used.get(key.id)) is not None:
            used.add_metric((key.id,), at)
    yield from (used, expiry)


def _doors(sources: Sources) -> Iterator[Metric]:
    states = GaugeMetricFamily("gateway_connections", "Client connections, by state.", labels=("state",))
    for state, count in sorted(sources.connections().items()):
        states.add_metric((state,), count)
    yield states
    yield GaugeMetricFamily("gateway_connections_limit", "Client connections there may be.", value=sources.places())
    for name, text, counts in (
        ("gateway_handshake_failures", "TLS handshakes that came to nothing.", sources.handshake_failures()),
        ("gateway_accept_holds", "Times that new callers were left waiting.", sources.accept_holds()),
    ):
        family = CounterMetricFamily(name, text, labels=("reason",))
        for reason, count in sorted(counts.items()):
            family.add_metric((reason,), count)
        yield family
    taken, limit = sources.bodies()
    yield GaugeMetricFamily("gateway_request_bodies_bytes", "Request bodies held in memory.", value=taken)
    yield GaugeMetricFamily("gateway_request_bodies_limit_bytes", "What they may take together.", value=limit)


class MetricsPage:
    """The page that Prometheus scrapes."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, sources: Sources) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(GatewayCollector(sources))
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def render(self) -> bytes:
        """Exposition format, https://prometheus.io/docs/instrumenting/exposition_formats/."""
        return generate_latest(self._registry)

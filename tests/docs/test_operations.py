"""docs/operations.md names every metric, label, audit field and log field there is, and none that there is not."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gateway.accounting.account import result_of
from gateway.accounting.audit import Lines
from gateway.accounting.metrics import MetricsPage, Sources
from gateway.accounting.tallies import Tallies
from gateway.call import Call, Channel, Outcome
from gateway.errors import Refusal
from gateway.identity.apikeys.apikey import ApiKey
from gateway.identity.contracts import Standing
from gateway.logs import JsonLines
from gateway.pools.ejection import FailureReason
from tests.backends.made import up

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md"), *(ROOT / "docs").rglob("*.md")]
METRIC = re.compile(r"\| `(gateway_\w+)` \| (counter|gauge|histogram) \| (?:`([a-z ]+)` )?\| .+ \|")
CALL = Call("0" * 32, Channel.HTTP, "POST", "/v1/chat/completions", None, (), "10.0.0.9", 0.0)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(title: str) -> list[str]:
    """The rows of a section's table, without its head."""
    return [line for line in section(title).splitlines() if line.startswith("| `")]


def documented() -> dict[str, tuple[str, set[str]]]:
    found = [METRIC.fullmatch(row) for row in rows("Metrics")]
    assert all(found), [row for row, match in zip(rows("Metrics"), found, strict=True) if match is None]
    return {match[1]: (match[2], set((match[3] or "").split())) for match in found if match}


def filled() -> Sources:
    """Numbers of which none is left out, so that each metric shows its labels."""
    tallies, pool = Tallies(), up(1)
    series = tallies.series("p", "m", "stream")
    series.results[(200, "ok")] += 1
    for counts in (
        tallies.authentications,
        tallies.authorizations,
        tallies.retries,
        tallies.fallbacks,
        tallies.unsolicited,
        tallies.shadow_decisions,
    ):
        counts[("a", "b")] += 1
    tallies.failed_login("a")
    tallies.throttled_login("a", "b")
    tallies.key_used("k7f3m2qa", 1.0)
    pool.backends[0].failures[FailureReason.CONNECT] += 1
    return Sources(
        tallies=tallies,
        pools=lambda: (pool,),
        in_flight=lambda: {"p": 1},
        jwks_ages=lambda: {"https://idp.test": 1.0},
        standings=lambda: (Standing("corp", ready=True, outage=0.0, bound=60.0),),
        api_keys=lambda: (ApiKey("k7f3m2qa", b"", "batch", frozenset(), 0.0, 9.0),),
        certificates=lambda: {"tls.crt": 1.0},
        connections=lambda: {"active": 1, "idle": 1, "handshake": 1},
        places=lambda: 1,
        handshake_failures=lambda: {"tls": 1},
        accept_holds=lambda: {"full": 1},
        bodies=lambda: (1, 2),
        cache_entries=lambda: {"tokens": 1, "decisions": 1},
        tasks=lambda: 1,
        generation=lambda: 1,
        policy=lambda: "0f",
        reload_successful=lambda: True,
        shadow=lambda: "0f3a",
        audit_failing=lambda: False,
    )


def scraped() -> dict[str, tuple[str, set[str]]]:
    found = {}
    for family in text_string_to_metric_families(MetricsPage(filled()).render().decode()):
        if family.name.startswith("gateway_"):
            name = f"{family.name.removesuffix('_total')}_total" if family.type == "counter" else family.name
            assert family.samples, f"{name} shows no sample; give it one above"
            found[name] = (family.type, {label for sample in family.samples for label in sample.labels} - {"le"})
    return found


def kinds(kind: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    yield kind
    for each in kind.__subclasses__():
        yield from kinds(each)


def answered(status: int) -> Outcome:
    outcome = Outcome(CALL)
    outcome.status = status
    return outcome


def test_the_page_lists_each_metric_there_is_with_its_type_and_labels_and_no_other() -> None:
    assert documented() == scraped()


def test_every_page_speaks_of_metrics_that_exist() -> None:
    named = {page.name: set(re.findall(r"\bgateway_[a-z_]+", page.read_text())) for page in PAGES}
    assert {page: strange for page, names in named.items() if (strange := names - set(documented()))} == {}


def test_the_page_lists_the_results_there_are() -> None:
    listed = re.search(r"`result` is one of `([a-z_ ]+)`", section("Metrics"))
    assert listed is not None
    refused = {kind.result for kind in kinds()}
    assert set(listed[1].split()) == refused | {result_of(answered(status)) for status in (200, 404, 429, 503)}


def test_the_page_lists_the_reasons_a_backend_may_fail_for() -> None:
    (row,) = [row for row in rows("Metrics") if "gateway_backend_failures_total" in row]
    assert set(row.rsplit("|", 2)[1].strip(" `").split()) == {reason.value for reason in FailureReason}


def test_the_page_lists_each_field_of_an_audit_line_once_and_no_other() -> None:
    line = json.loads(Lines().write(answered(200), b"2026-01-02T03:04:05.678Z", 1.0))
    listed = " ".join(row.split("`")[1] for row in rows("The audit file")).split()
    assert sorted(listed) == sorted(line)


def test_the_page_lists_each_field_of_a_log_line() -> None:
    error = ValueError("x")
    record = logging.LogRecord("gateway", logging.ERROR, __file__, 1, "text", None, (ValueError, error, None))
    listed = re.search(r"JSON lines on standard error: `([a-z ]+)`, and `(\w+)`", section("The log"))
    assert listed is not None
    record.left_out = 1
    also = re.search(r"has `(\w+)`", section("The log"))
    assert also is not None
    assert [*listed[1].split(), listed[2], also[1]] == list(json.loads(JsonLines().format(record)))

"""What operators see: metrics by their names, one audit line per decision, pages on the management port only."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.conftest import Token
from tests.e2e.conftest import LOCKED, TINY
from tests.parts.client import Answer
from tests.parts.gateway import Gateway
from tests.parts.process import wait_until

CHAT = "/v1/chat/completions"
METRICS = {
    "gateway_requests_total": {"pool", "model", "operation", "status", "result"},
    "gateway_request_duration_seconds_bucket": {"pool", "model", "operation", "le"},
    "gateway_time_to_first_byte_seconds_bucket": {"pool", "model", "operation", "le"},
    "gateway_inter_token_seconds_bucket": {"pool", "model", "operation", "le"},
    "gateway_in_flight_requests": {"pool"},
    "gateway_backend_up": {"pool", "backend"},
    "gateway_backend_in_flight_requests": {"pool", "backend"},
    "gateway_authentications_total": {"provider", "result"},
    "gateway_authorizations_total": {"decision", "rule"},
    "gateway_tokens_total": {"pool", "model", "direction"},
    "gateway_jwks_age_seconds": {"issuer"},
    "gateway_config_generation": set(),
    "gateway_config_reload_successful": set(),
    "gateway_certificate_expiry_timestamp_seconds": {"file"},
    "gateway_connections": {"state"},
    "gateway_build_info": {"version"},
}
DECLARED = {
    "gateway_backend_failures",
    "gateway_backend_ejections",
    "gateway_retries",
    "gateway_usage_unknown",
    "gateway_config_reloads",
}
FIELDS = {
    "time", "request_id", "subject", "issuer", "groups_used", "client", "model", "operation", "decision", "rule",
    "reason", "backend", "status", "tokens_in", "tokens_out", "bytes", "ttft_ms", "duration_ms", "attempts",
}  # fmt: skip
RESULTS = {"ok", "denied", "invalid", "limited", "upstream_error", "timeout", "truncated", "client_gone", "error"}


def chat(gateway: Gateway, bearer: str | None, model: str = TINY, **more: object) -> Answer:
    body = {"model": model, "messages": [{"role": "user", "content": "a secret prompt"}], "max_tokens": 5, **more}
    return gateway.ask("POST", CHAT, body=body, token=bearer)


@pytest.fixture
def calls(gateway: Gateway, token: Token) -> dict[str, Answer]:
    """One call of each kind."""
    return {
        "ok": chat(gateway, token("alice")),
        "streamed": chat(gateway, token("alice"), stream=True),
        "denied": chat(gateway, token("alice"), LOCKED),
        "unknown": chat(gateway, token("alice"), "an-invented-model"),
        "nobody": chat(gateway, None),
        "forged": chat(gateway, "not-a-token"),
    }


def test_every_metric_of_the_contract_is_there_with_its_labels(gateway: Gateway, calls: dict[str, Answer]) -> None:
    found = gateway.samples()
    for name, labels in METRICS.items():
        assert name in found, name
        assert set(found[name][0][0]) == labels, name
    page = gateway.manage("/metrics").body.decode()
    for name in DECLARED:
        assert f"# TYPE {name}" in page, name


def test_calls_are_counted_by_their_result_and_nothing_a_caller_invents_is_a_label(
    gateway: Gateway, calls: dict[str, Answer]
) -> None:
    rows = [labels for labels, _ in gateway.samples()["gateway_requests_total"]]
    assert {labels["result"] for labels in rows} <= RESULTS
    assert {"ok", "denied", "invalid"} <= {labels["result"] for labels in rows}
    assert "an-invented-model" not in gateway.manage("/metrics").body.decode()


def test_tokens_are_counted_also_where_the_stream_does_not_tell(gateway: Gateway, token: Token) -> None:
    before = gateway.metric("gateway_tokens_total", model=TINY, direction="output")
    assert chat(gateway, token("alice")).status == 200
    wait_until(lambda: gateway.metric("gateway_tokens_total", model=TINY, direction="output") == before + 5)


def test_each_decision_is_one_audit_line_with_every_field(gateway: Gateway, calls: dict[str, Answer]) -> None:
    for name, answer in calls.items():
        record = gateway.audit_of(answer["x-request-id"])
        assert set(record) >= FIELDS, name
        assert record["status"] == answer.status
        assert datetime.fromisoformat(record["time"]).tzinfo is not None
    allowed = gateway.audit_of(calls["ok"]["x-request-id"])
    assert (allowed["decision"], allowed["rule"], allowed["subject"]) == ("allow", "data-science", "alice")
    assert allowed["groups_used"] == ["data-science"]
    assert allowed["client"] == "app"
    assert allowed["operation"] == "infer"
    assert (allowed["tokens_out"], allowed["attempts"]) == (5, 1)
    assert gateway.audit_of(calls["streamed"]["x-request-id"])["operation"] == "stream"
    denied = gateway.audit_of(calls["denied"]["x-request-id"])
    assert (denied["decision"], denied["model"]) == ("deny", LOCKED)
    assert denied["backend"] is None


def test_neither_prompts_nor_tokens_are_written_anywhere(
    gateway: Gateway, calls: dict[str, Answer], token: Token
) -> None:
    gateway.audit_of(calls["forged"]["x-request-id"])
    written = gateway.process.stdout.read_text() + gateway.process.stderr.read_text()
    for secret in ("a secret prompt", token("alice"), token("alice").split(".")[2], "not-a-token"):
        assert secret not in written


def test_control_characters_of_a_caller_cannot_forge_an_audit_line(gateway: Gateway, token: Token) -> None:
    answer = chat(gateway, token("alice"), 'm\n{"decision":"allow"}\x1b[2J' + "x" * 10_000)
    record = gateway.audit_of(answer["x-request-id"])
    line = next(text for text in gateway.process.stdout.read_text().splitlines() if str(record["request_id"]) in text)
    assert json.loads(line)["decision"] == "deny"
    assert "\x1b" not in line
    assert len(line) < 6000


def test_operators_pages_are_on_the_management_port_only(gateway: Gateway, token: Token) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/status"):
        assert gateway.manage(path).status == 200, path
        assert gateway.ask("GET", path, token=token("alice")).status == 404, path
    assert gateway.manage("/v1/models").status == 404


def test_the_status_page_tells_pools_and_generation(gateway: Gateway) -> None:
    text = json.dumps(gateway.status())
    for word in ("llama", "triton", "generation"):
        assert word in text

"""Which fields reach a backend, and which reach the caller."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import AnswerHead, Call, Channel, Fields, Principal
from gateway.headers import AnswerCrossing, RequestCrossing, client_address

ALICE = Principal("alice", "https://idp.test", "corp", frozenset({"ds", "a,b"}))
IDENTIFIER = "0123456789abcdef0000000000000001"


def sent(*fields: tuple[bytes, bytes], name_caller: bool = False) -> Fields:
    call = Call(IDENTIFIER, Channel.HTTP, "POST", "/v1/x", None, ((b"host", b"gw.test"), *fields), "10.0.0.9", 0.0)
    shared, own = RequestCrossing().outbound(call, ALICE, name_caller=name_caller)
    return (*shared.fields, *own)


@pytest.mark.parametrize(
    "name",
    [
        b"authorization", b"cookie", b"x-api-key", b"api-key", b"x_goog_api_key", b"x-auth-token",
        b"x-forwarded-user", b"x_forwarded_user", b"x-forwarded_user", b"x_forwarded-user",
        b"x-gateway-subject", b"x-request-id", b"x_request_id", b"forwarded", b"client-cert",
        b"x-forwarded-client-cert", b"x-ssl-client-verify", b"ssl-client-subject-dn",
        b"x-amzn-sagemaker-target-model", b"x-vertex-ai-triton-redirect", b"x-vllm-priority",
        b"x-data-parallel-rank", b"nvcf-asset-dir", b"triton-grpc-protocol-admin-key", b"x-override-bootstrap-host",
        b"te", b"transfer-encoding", b"content-length", b"upgrade", b"expect", b"proxy-authorization",
        b"x-http-method-override", b"endpoint-load-metrics-format", b"dpop",
        # credentials
        b"x-access-token", b"ocp-apim-subscription-key", b"x-amz-security-token", b"x-id-token",
        b"private-token", b"x-token", b"token", b"x-authorization", b"x-nv-api-key", b"x-client-secret",
        b"x-functions-key", b"x-amz-credential",
        # who a proxy says it is
        b"x-authenticated-user", b"x-authenticated-user-id", b"x-authenticated-userid", b"x-authenticated-user-email",
        b"x-authenticated-groups", b"x-webauth-user", b"x-webauth-groups", b"x-ms-client-principal",
        b"x-ms-client-principal-name", b"x-ms-token-aad-id-token", b"cf-access-jwt-assertion",
        b"cf-access-authenticated-user-email", b"x-goog-authenticated-user-email", b"x-goog-iap-jwt-assertion",
        b"x-consumer-username", b"x-consumer-custom-id", b"x-credential-identifier", b"x-anonymous-consumer",
        b"x-amzn-oidc-identity", b"x-amzn-oidc-data", b"remote-user", b"remote-groups", b"oidc_claim_email",
        b"x-jwt-payload", b"x-forwarded", b"true-client-ip", b"cf-connecting-ip",
        # another path or method than the one that was authorized
        b"x-original-url", b"x-original-uri", b"x-original-method", b"x-rewrite-url", b"x-http-method",
        b"x-method-override", b"x-envoy-original-path", b"x-envoy-original-dst-host", b"x-script-name",
        # engines and their routers
        b"x-session-params", b"x-smg-routing-key", b"x-smg-target-worker", b"x-worker-id", b"x-vllm-anything",
        b"x-data-parallel-host-port", b"x-prefiller-host-port", b"x-dp-rank", b"x-routing-key", b"x-request-priority",
        b"x-dynamo-priority", b"x-dynamo-anything", b"x-tenant-id", b"x-engine-target-worker",
    ],
)  # fmt: skip
def test_what_the_caller_must_not_tell_a_backend_never_gets_there(name: bytes) -> None:
    """B035, B049, B113."""
    for spelled in (name, name.replace(b"-", b"_")):
        assert all(value != b"from-outside" for _, value in sent((spelled, b"from-outside")))


@pytest.mark.parametrize(
    "name",
    [
        b"inference-header-content-length", b"x-stainless-lang", b"x-stainless-retry-count", b"openai-organization",
        b"openai-project", b"openai-beta", b"anthropic-version", b"anthropic-beta", b"accept", b"accept-encoding",
        b"content-type", b"content-encoding", b"user-agent", b"idempotency-key", b"x-correlation-id", b"baggage",
        b"x-amzn-trace-id", b"cache-control", b"last-event-id", b"mcp-session-id", b"x-custom", b"priority",
    ],
)  # fmt: skip
def test_what_clients_and_engines_say_to_each_other_passes(name: bytes) -> None:
    assert (name, b"from-outside") in sent((name, b"from-outside"))


@pytest.mark.parametrize("name", [b"content_type", b"content_encoding", b"inference-header_content_length"])
def test_a_twin_of_a_field_by_which_a_body_is_read_does_not_pass(name: bytes) -> None:
    """B035, B050."""
    fields = sent((name, b"from-outside"), (name.replace(b"_", b"-"), b"looked-at"))
    assert fields[0] == (name.replace(b"_", b"-"), b"looked-at")
    assert name not in dict(fields)


def test_ordinary_fields_pass_in_order_with_repeats() -> None:
    fields = sent(
        (b"accept", b"a"), (b"inference-header-content-length", b"187"), (b"accept", b"b"), (b"x-stainless-os", b"L")
    )

    assert fields[:4] == (
        (b"accept", b"a"), (b"inference-header-content-length", b"187"), (b"accept", b"b"), (b"x-stainless-os", b"L")
    )  # fmt: skip


def test_fields_named_by_connection_end_here_and_ours_are_added_after() -> None:
    """B036."""
    fields = dict(
        sent(
            (b"connection", b"keep-alive, X-Hop, X-Request-Id, x-gateway-subject"),
            (b"x-hop", b"1"),
            (b"x-end", b"2"),
            name_caller=True,
        )
    )

    assert b"x-hop" not in fields
    assert b"connection" not in fields
    assert (fields[b"x-end"], fields[b"x-request-id"], fields[b"x-gateway-subject"]) == (
        b"2",
        IDENTIFIER.encode(),
        b"alice",
    )


def test_ours_say_who_asked_and_by_which_way() -> None:
    fields = dict(sent(name_caller=True))

    assert fields[b"x-forwarded-for"] == b"10.0.0.9"
    assert fields[b"x-forwarded-proto"] == b"https"
    assert fields[b"x-forwarded-host"] == b"gw.test"
    assert fields[b"via"] == b"1.1 nim-gateway"
    assert fields[b"x-gateway-groups"] == b"a%2Cb,ds"


def test_the_caller_is_named_only_where_the_pool_asks() -> None:
    assert not any(name.startswith(b"x-gateway-") for name, _ in sent())


def test_a_trace_goes_on_and_one_is_begun_where_there_is_none() -> None:
    given_trace = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"

    assert dict(sent((b"traceparent", given_trace)))[b"traceparent"] == given_trace
    begun = dict(sent((b"traceparent", b"nonsense"), (b"tracestate", b"x=1")))
    assert begun[b"traceparent"] == b"00-%b-%b-00" % (IDENTIFIER.encode(), IDENTIFIER[16:].encode())
    assert b"tracestate" not in begun


@given(st.text(max_size=30), st.frozensets(st.text(max_size=10), max_size=4))
def test_no_name_of_a_caller_can_break_a_field(subject: str, groups: frozenset[str]) -> None:
    subject, groups = (
        subject.encode("utf-8", "replace").decode(),
        frozenset(g.encode("utf-8", "replace").decode() for g in groups),
    )
    call = Call(IDENTIFIER, Channel.HTTP, "GET", "/", None, (), "::1", 0.0)
    fields = dict(RequestCrossing().outbound(call, Principal(subject, "i", "p", groups), name_caller=True)[1])

    for value in (fields[b"x-gateway-subject"], fields[b"x-gateway-groups"]):
        assert all(32 < byte < 127 for byte in value)
    assert fields[b"x-gateway-groups"].count(b",") == max(0, len(groups) - 1)


def test_cookies_and_reports_of_a_backend_stay_behind() -> None:
    """B046."""
    head = AnswerHead(
        200,
        (
            (b"content-type", b"a"), (b"set-cookie", b"sid=A"), (b"endpoint-load-metrics", b"x"),
            (b"x-request-id", b"theirs"), (b"x-decision-id", b"theirs"), (b"connection", b"X-Hop, close"),
            (b"x-hop", b"1"), (b"transfer-encoding", b"chunked"), (b"keep-alive", b"timeout=5"),
            (b"access-control-allow-origin", b"*"), (b"link", b"1"), (b"link", b"2"), (b"retry-after", b"2"),
        ),
        None,
    )  # fmt: skip
    passed = AnswerCrossing().outbound(head).fields

    assert passed == ((b"content-type", b"a"), (b"link", b"1"), (b"link", b"2"), (b"retry-after", b"2"))


def test_what_says_how_a_body_is_to_be_read_cannot_be_taken_away() -> None:
    typed = (b"content-type", b"application/json")
    fields = (typed, (b"connection", b"close, Content-Type, x-other"), (b"x-other", b"1"))
    assert typed in sent(*fields)
    assert b"x-other" not in dict(sent(*fields))
    head = AnswerHead(200, fields, 2)
    assert AnswerCrossing().outbound(head).fields == (typed,)


def test_two_traces_are_none() -> None:
    trace = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
    assert dict(sent((b"traceparent", trace)))[b"traceparent"] == trace
    told = [value for name, value in sent((b"traceparent", trace), (b"traceparent", trace)) if name == b"traceparent"]
    assert len(told) == 1
    assert told != [trace]


TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7, nonsense", "10.0.0.1"),
        ("10.0.0.1", "fe80::1%é", "10.0.0.1"),
        ("10.0.0.1", '198.51.100.7, fe80::1%a"b c', "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9:4711", "203.0.113.9"),
        ("10.0.0.1", "[2001:db8::9]:4711", "2001:db8::9"),
        ("10.0.0.1", "[2001:db8::9]", "2001:db8::9"),
        ("10.0.0.1", "203.0.113.9:4711:1", "10.0.0.1"),
        ("10.0.0.1", "[203.0.113.9", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9:", "10.0.0.1"),
    ],
)
def test_a_forwarded_address_is_believed_of_trusted_proxies_only(peer: str, forwarded: str, address: str) -> None:
    fields = ((b"x-forwarded-for", forwarded.encode()),) if forwarded else ()

    assert client_address(peer, fields, TRUSTED) == address
    assert client_address(peer, fields, ()) == peer


def test_a_callers_field_never_stands_beside_the_pools_credential() -> None:
    given = ((b"x-nim-key", b"mine"), (b"x_nim_key", b"mine"), (b"x-other", b"1"))
    call = Call(IDENTIFIER, Channel.HTTP, "GET", "/", None, given, "::1", 0.0)
    shared, _ = RequestCrossing(b"X-NIM-Key").outbound(call, ALICE, name_caller=False)

    assert [name for name, value in shared.fields if value == b"mine"] == []
    assert (b"x-other", b"1") in shared.fields


@pytest.mark.parametrize(
    ("told", "passed"),
    [
        (b"http://10.0.0.11:8000/v1/other?a=b", b"/v1/other?a=b"),
        (b"HTTPS://inside", b"/"),
        (b"//inside:8000/x", b"/x"),
        (b"http://inside?x", b"/?x"),
        (b"/v1/other", b"/v1/other"),
        (b"other", b"other"),
    ],
)
def test_an_answer_does_not_tell_where_the_backend_lives(told: bytes, passed: bytes) -> None:
    """B047."""
    assert AnswerCrossing().outbound(AnswerHead(307, ((b"location", told),), 0)).fields == ((b"location", passed),)

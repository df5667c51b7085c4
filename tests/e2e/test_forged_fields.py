"""What a caller says of itself, of the path or to the engine stays outside, however it is spelled; ours stands once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.recorded import Site
from tests.parts.stub import Request

#: Ours, other proxies', and those by which engines and their routers are steered.
FORGED = [
    *("X-Gateway-Subject", "X-Gateway-Groups", "X-Request-Id", "Via", "Forwarded", "X-Forwarded", "X-Real-IP"),
    *("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-User", "X-Forwarded-Email"),
    *("X-Forwarded-Groups", "X-Forwarded-Access-Token", "X-Forwarded-Preferred-Username", "X-Forwarded-Prefix"),
    *("X-Remote-User", "Remote-User", "X-Auth-Request-User", "X-User", "X-Groups", "X-WebAuth-User", "X-JWT-Assertion"),
    *("X-Forwarded-Client-Cert", "X-SSL-Client-Verify", "SSL-Client-Subject-DN", "Client-Cert", "X-API-Key", "Api-Key"),
    *(
        "X-Decision-Id",
        "Cookie",
        "Proxy-Authorization",
        "Proxy-Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "X-Amz-Security-Token",
    ),
    *("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"),
    *("X-Envoy-Original-Path", "X-Script-Name", "X-Vertex-Ai-Triton-Redirect", "X-Amzn-SageMaker-Target-Model"),
    *("X-Amzn-SageMaker-Adapter-Identifier", "X-Vllm-Priority", "X-data-parallel-rank", "NVCF-ASSET-DIR"),
    *("NVCF-Function-Asset-Ids", "triton-grpc-protocol-infer-header", "X-SMG-Target-Worker", "X-Session-Id"),
]
#: Fields that the gateway reads: their twins would say something else to a backend that folds names.
READ = ["Content-Type", "Content-Encoding", "Content-Length", "Transfer-Encoding", "Inference-Header-Content-Length"]

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in lower case": str.lower,
    "in upper case": str.upper,
    "with underscores": lambda name: name.replace("-", "_"),
    "with one underscore": lambda name: name.replace("-", "_", 1),
    "in upper case with underscores": lambda name: name.upper().replace("-", "_"),
}
OURS = {
    "x-gateway-subject": ["alice"],
    "x-gateway-groups": ["data-science,llm-users"],
    "x-forwarded-for": ["127.0.0.1"],
    "x-forwarded-proto": ["https"],
    "x-forwarded-host": ["gw.test"],
    "via": ["1.1 nim-gateway"],
}
LINE = "POST /v1/chat/completions HTTP/1.1"
BODY = b'{"model":"small","messages":[]}'


def relayed(site: Site, *fields: str) -> Request:
    answer, got = site.ask(site.request(LINE, *fields, body=BODY))
    assert answer.status == 200
    (request,) = got
    assert request.body == BODY
    assert {name: request.values(name) for name in OURS} == OURS
    assert request.values("x-request-id") == [answer["x-request-id"]]
    assert request.values("content-type") == ["application/json"]
    return request


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_no_spelling_of_a_forged_field_reaches_a_backend(site: Site, spelled: Callable[[str], str]) -> None:
    """B035, B038, B049, B113: twice each, with values that `check` of the site finds."""
    twins = [name for name in READ if spelled(name) not in {name, name.lower(), name.upper()}]
    fields = [f"{spelled(name)}: root" for name in (*FORGED, *twins)]
    assert b"root" not in relayed(site, *fields, "X-Kept: 1", *fields).head


@pytest.mark.parametrize(
    "connection",
    [
        ("Connection: keep-alive, Authorization, X-Gateway-Subject, X-Request-Id, Content-Length, Host, Cookie",),
        ("Connection: X-Gateway-Subject", "Connection: X-Gateway-Groups, Via"),
        ("cOnnECTION: aUTHORIZATION,x-gateway-SUBJECT,,traceparent",),
        ("Connection: transfer-encoding, content-length",),
        ("Connection: X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host",),
        ('Connection: "X-Gateway-Subject", *, x-gateway-*',),
    ],
)
def test_nothing_that_connection_nominates_takes_away_what_the_gateway_says(
    site: Site, connection: tuple[str, ...]
) -> None:
    """B036."""
    request = relayed(site, *connection, "X-Forwarded-User: root", "Cookie: a=root")
    assert len(request.values("traceparent")) == 1
    assert request.values("content-length") == [str(len(BODY))]


def test_a_nominated_field_of_the_caller_ends_here_in_any_case(site: Site) -> None:
    """B036."""
    request = relayed(site, "Connection: X-Hop", "connection: x-STEP", "x-hop: 1", "X-Step: 2", "X-Kept: 3")
    assert [request.values(name) for name in ("x-hop", "x-step", "x-kept")] == [[], [], ["3"]]


def test_a_space_before_the_colon_of_a_forged_field_is_refused(site: Site) -> None:
    """B035."""
    answer, got = site.ask(site.request(LINE, "X-Forwarded-User : root", body=BODY))
    assert (answer.status, got) == (400, [])

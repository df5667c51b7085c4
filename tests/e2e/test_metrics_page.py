"""The metrics page, whatever callers and files do to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcerts import Paths
from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import raw, read_all
from tests.parts.gateway import Gateway, pool
from tests.parts.process import wait_until
from tests.parts.stub import Stub


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}")) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, stub: Stub) -> Gateway:
    running = start_shared_gateway([pool("nim", ["small"], stub.url)])
    running.backends_up("nim", 1)
    return running


STRANGE = {
    "a lone surrogate": b'{"model":"a\\ud800b"}',
    "a raw surrogate": b'{"model":"a\xed\xa0\x80b"}',
    "a quote and a line end": json.dumps({"model": 'x"\n} 1\n'}).encode(),
    "a mebibyte": json.dumps({"model": "m" * 1024 * 1024}).encode(),
    "a format": json.dumps({"model": "%s%n{0}${jndi:x}"}).encode(),
    "no UTF-8": b'{"model":"\xff"}',
    "a null byte": b'{"model":"a\\u0000b"}',
}


@pytest.mark.parametrize("body", STRANGE.values(), ids=STRANGE)
def test_a_strange_model_name_is_refused_and_leaves_the_page_as_it_was(
    gateway: Gateway, token: Token, body: bytes
) -> None:
    """B127, B128."""
    answer = gateway.ask(
        "POST", "/v1/chat/completions", body=body, token=token("alice"), headers={"Content-Type": "application/json"}
    )
    assert answer.status in (400, 404)
    _whole(gateway)


STRANGE_HEADS = {
    "a request id": b"GET /v1/models HTTP/1.1\r\nX-Request-Id: \xff\r\n",
    "a path": b"GET /v1/models/%ED%A0%80 HTTP/1.1\r\n",
    "raw bytes in a path": b"GET /v1/models/\xff\xfe HTTP/1.1\r\n",
    "a method": b"BREW\xff /v1/models HTTP/1.1\r\n",
    "a user agent": b'GET /v1/models HTTP/1.1\r\nUser-Agent: a"b\\c\xff\r\n',
}


@pytest.mark.parametrize("head", STRANGE_HEADS.values(), ids=STRANGE_HEADS)
def test_strange_bytes_in_a_head_leave_the_page_as_it_was(gateway: Gateway, token: Token, head: bytes) -> None:
    """B127."""
    bearer = f"Host: a\r\nConnection: close\r\nAuthorization: Bearer {token('alice')}\r\n\r\n".encode()
    with raw(gateway.port, gateway.ca) as line:
        line.sendall(head + bearer)
        assert read_all(line).startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 405"))
    _whole(gateway)


def _whole(gateway: Gateway) -> None:
    """The page can be read, and no label says what no file says."""
    assert gateway.manage("/metrics").status == 200
    rows = gateway.samples()["gateway_requests_total"]
    assert {labels["model"] for labels, _ in rows} <= {"", "small"}
    assert {labels["pool"] for labels, _ in rows} <= {"", "nim"}


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/metrics/",
        "//metrics",
        "/v1/metrics",
        "/v1/../metrics",
        "/%6detrics",
        "/METRICS",
        "/status",
        "/readyz",
    ],
)
@pytest.mark.parametrize("user", [None, "alice"])
def test_no_page_of_the_operators_is_to_be_had_on_the_client_port(
    gateway: Gateway, token: Token, path: str, user: str | None
) -> None:
    """B131."""
    answer = gateway.ask("GET", path, token=token(user) if user else None)
    assert answer.status in (400, 401, 404)
    for word in (b"gateway_", b"small", b"nim", b"process_"):
        assert word not in answer.body


def test_a_certificate_that_is_broken_on_disk_takes_only_its_own_number_from_the_page(
    start_gateway: StartGateway, stub: Stub, certificates: Paths, tmp_path: Path
) -> None:
    broken = tmp_path / "tls.crt"
    broken.write_bytes(certificates.certificate.read_bytes())
    gateway = start_gateway([pool("nim", ["small"], stub.url)], start=False)
    gateway.config["listen"]["tls"]["certificate"] = str(broken)
    gateway.write_config()
    gateway.start()
    assert gateway.metric("gateway_certificate_expiry_timestamp_seconds") > 0
    broken.write_bytes(certificates.certificate.read_bytes()[:100])
    wait_until(lambda: gateway.metric("gateway_certificate_expiry_timestamp_seconds") == 0, 10, "the number being gone")
    assert gateway.manage("/metrics").status == 200
    assert gateway.ask("GET", "/v1/health/live").status == 200

"""curl, as in every example of the documentation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Token
from tests.e2e.conftest import TINY
from tests.parts.gateway import Gateway

CHAT = {"model": TINY, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


def curl(gateway: Gateway, path: str, *words: str | Path, token: str | None = None) -> tuple[int, str]:
    """Status and body. Fails when the certificate does not hold or the answer is cut."""
    bearer = ["-H", f"Authorization: Bearer {token}"] if token else []
    command = ["curl", "-sS", "--cacert", gateway.ca, "-w", "\n%{http_code}", *bearer, *words, f"{gateway.url}{path}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def as_json(body: object) -> list[str]:
    return ["-H", "Content-Type: application/json", "-d", json.dumps(body)]


def test_a_chat(gateway: Gateway, token: Token) -> None:
    status, body = curl(gateway, "/v1/chat/completions", *as_json(CHAT), token=token("alice"))
    assert status == 200
    assert json.loads(body)["choices"]


def test_a_stream(gateway: Gateway, token: Token) -> None:
    words = ["-N", *as_json({**CHAT, "stream": True})]
    status, body = curl(gateway, "/v1/chat/completions", *words, token=token("alice"))
    assert status == 200
    assert body.rstrip().endswith("data: [DONE]")


def test_no_token(gateway: Gateway) -> None:
    status, body = curl(gateway, "/v1/chat/completions", *as_json(CHAT))
    assert status == 401
    assert json.loads(body)["error"]["code"] == "invalid_api_key"


def test_a_large_upload_with_expect(gateway: Gateway, token: Token, tmp_path: Path) -> None:
    """Beyond a megabyte curl asks first: `Expect: 100-continue`."""
    head = json.dumps(
        {
            "inputs": [
                {"name": "X", "shape": [500_000], "datatype": "FP32", "parameters": {"binary_data_size": 2_000_000}}
            ],
            "outputs": [{"name": "TOTAL", "parameters": {"binary_data": False}}],
        }
    ).encode()
    (tmp_path / "tensor").write_bytes(head + bytes(2_000_000))
    words = ["-H", f"Inference-Header-Content-Length: {len(head)}", "--expect100-timeout", "30"]
    words += ["-H", "Content-Type: application/octet-stream", "--data-binary", f"@{tmp_path / 'tensor'}"]
    status, body = curl(gateway, "/v2/models/echo/infer", *words, token=token("alice"))
    assert status == 200, body
    assert json.loads(body)["outputs"][0]["data"] == [0.0]


def test_old_http_gets_an_answer_too(gateway: Gateway, token: Token) -> None:
    status, _ = curl(gateway, "/v1/models", "--http1.0", token=token("alice"))
    assert status == 200


@pytest.mark.parametrize("version", ["--http2", "--http2-prior-knowledge", "--http1.1", "--no-alpn"])
def test_a_caller_who_would_rather_speak_http_2_gets_an_answer(gateway: Gateway, token: Token, version: str) -> None:
    """B114, B143: ALPN settles on HTTP/1.1; over TLS, prior knowledge is about what is offered there."""
    status, _ = curl(gateway, "/v1/models", version, token=token("alice"))
    assert status == 200


def test_old_tls_is_refused(gateway: Gateway) -> None:
    """B114."""
    command = ["curl", "-sS", "--cacert", str(gateway.ca), "--tls-max", "1.1", f"{gateway.url}/v1/health/live"]
    assert subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 35

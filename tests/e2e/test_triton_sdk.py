"""`tritonclient.http` against a real Triton, through the gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tritonclient import http as tritonhttp
from tritonclient.utils import InferenceServerException

from tests.conftest import Token
from tests.parts.client import streaming
from tests.parts.gateway import Gateway
from tests.parts.triton import Triton

ROW = np.arange(4, dtype=np.float32)


@pytest.fixture
def alice(gateway: Gateway) -> Iterator[Any]:
    address = gateway.url.removeprefix("https://")
    client = tritonhttp.InferenceServerClient(
        address, ssl=True, ssl_context_factory=lambda: gateway.trust, network_timeout=120, connection_timeout=60
    )
    yield client
    client.close()


@pytest.fixture
def bearer(token: Token) -> dict[str, str]:
    return {"Authorization": f"Bearer {token('alice')}"}


def tensor(name: str, values: np.ndarray, *, binary: bool) -> Any:
    made = tritonhttp.InferInput(name, list(values.shape), "FP32")
    made.set_data_from_numpy(values, binary_data=binary)
    return made


def pair(*, binary: bool) -> list[Any]:
    return [tensor("A", ROW, binary=binary), tensor("B", ROW, binary=binary)]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_tensors_go_and_come_as_json_and_as_bytes(
    alice: Any, bearer: dict[str, str], binary_in: bool, binary_out: bool
) -> None:
    wanted = [tritonhttp.InferRequestedOutput(name, binary_data=binary_out) for name in ("SUM", "DIFF")]
    inputs = pair(binary=binary_in)
    result = alice.infer("addsub", inputs, outputs=wanted, request_id="r-1", headers=bearer)
    assert result.as_numpy("SUM").tolist() == [0.0, 2.0, 4.0, 6.0]
    assert result.as_numpy("DIFF").tolist() == [0.0] * 4
    assert result.get_response()["id"] == "r-1"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_request_and_answer_survive(alice: Any, bearer: dict[str, str], coding: str) -> None:
    values = np.arange(50_000, dtype=np.float32)
    result = alice.infer(
        "echo",
        [tensor("X", values, binary=True)],
        headers=bearer,
        request_compression_algorithm=coding,
        response_compression_algorithm=coding,
    )
    assert np.array_equal(result.as_numpy("Y"), values)


def test_a_tensor_of_64_mib_comes_back_unchanged(alice: Any, bearer: dict[str, str]) -> None:
    values = np.random.default_rng(3).standard_normal(16 * 1024 * 1024, dtype=np.float32)
    result = alice.infer("echo", [tensor("X", values, binary=True)], headers=bearer)
    assert np.array_equal(result.as_numpy("Y"), values)


def test_a_version_may_be_named(alice: Any, bearer: dict[str, str]) -> None:
    assert alice.infer("addsub", pair(binary=True), model_version="1", headers=bearer).as_numpy("SUM") is not None
    with pytest.raises(InferenceServerException, match="version"):
        alice.infer("addsub", pair(binary=True), model_version="9", headers=bearer)


def test_a_model_may_have_another_name_at_the_backend(alice: Any, bearer: dict[str, str]) -> None:
    wait = tritonhttp.InferInput("MS", [1], "INT32")
    wait.set_data_from_numpy(np.array([1], np.int32))
    assert alice.infer("sleepy", [wait], headers=bearer).as_numpy("OK").tolist() == [1]


def test_an_error_of_the_model_reaches_the_caller(alice: Any, bearer: dict[str, str]) -> None:
    wait = tritonhttp.InferInput("MS", [1], "INT32")
    wait.set_data_from_numpy(np.array([-1], np.int32))
    with pytest.raises(InferenceServerException, match="must not be negative"):
        alice.infer("sleepy", [wait], headers=bearer)


def test_health_of_the_server_needs_no_credential(alice: Any) -> None:
    assert alice.is_server_live()
    assert alice.is_server_ready()


def test_a_model_is_ready_for_who_may_use_it_only(alice: Any, bearer: dict[str, str]) -> None:
    assert alice.is_model_ready("addsub", headers=bearer)
    assert not alice.is_model_ready("locked", headers=bearer)
    assert not alice.is_model_ready("absent", headers=bearer)
    assert not alice.is_model_ready("addsub")


def test_metadata_and_configuration_follow_the_grant(alice: Any, bearer: dict[str, str]) -> None:
    assert alice.get_model_metadata("addsub", headers=bearer)["name"] == "addsub"
    with pytest.raises(InferenceServerException) as refused:
        alice.get_model_metadata("locked", headers=bearer)
    assert refused.value.status() in {"403", "404"}


def test_a_model_that_nobody_serves_is_404_in_kserve_words(alice: Any, bearer: dict[str, str]) -> None:
    with pytest.raises(InferenceServerException) as refused:
        alice.infer("absent", pair(binary=True), headers=bearer)
    assert refused.value.status() == "404"
    assert "absent" in refused.value.message() or "model" in refused.value.message()


def test_a_model_that_is_not_granted_is_403_in_kserve_words(alice: Any, bearer: dict[str, str]) -> None:
    with pytest.raises(InferenceServerException) as refused:
        alice.infer("locked", pair(binary=True), headers=bearer)
    assert refused.value.status() == "403"


def test_without_a_credential_nothing_is_inferred(alice: Any, triton: Triton) -> None:
    with pytest.raises(InferenceServerException) as refused:
        alice.infer("addsub", pair(binary=True))
    assert refused.value.status() == "401"


@pytest.mark.parametrize(
    "call",
    [
        lambda client, headers: client.load_model("addsub", headers=headers),
        lambda client, headers: client.unload_model("addsub", headers=headers),
        lambda client, headers: client.register_system_shared_memory("region", "/region", 64, headers=headers),
        lambda client, headers: client.get_system_shared_memory_status(headers=headers),
        lambda client, headers: client.get_trace_settings(headers=headers),
        lambda client, headers: client.get_log_settings(headers=headers),
        lambda client, headers: client.get_inference_statistics("addsub", headers=headers),
    ],
)
def test_dangerous_calls_are_closed(alice: Any, bearer: dict[str, str], call: Any) -> None:
    with pytest.raises(InferenceServerException) as refused:
        call(alice, bearer)
    assert refused.value.status() in {"403", "404"}


def test_the_repository_index_names_granted_models_only(alice: Any, bearer: dict[str, str]) -> None:
    names = {row["name"] for row in alice.get_model_repository_index(headers=bearer)}
    assert names == {"addsub", "echo", "repeat", "sleepy"}


def test_generate_stream_gives_each_token_as_it_comes(gateway: Gateway, token: Token) -> None:
    body = {"PROMPT": "tok", "N": 5, "DELAY_MS": 150}
    path = "/v2/models/repeat/generate_stream"
    with streaming(gateway.url, "POST", path, body=body, token=token("alice"), ca=gateway.ca) as answer:
        assert answer.status == 200
        assert answer.fields["content-type"].startswith("text/event-stream")
        arrivals = list(answer.pieces())
    text = b"".join(arrival.piece for arrival in arrivals).decode()
    tokens = [json.loads(line)["TOKEN"] for line in re.findall(r"data: (.*)", text)]
    assert tokens == [f"tok-{number}" for number in range(5)]
    assert (
        arrivals[-1].at - arrivals[0].at > 0.3
    )  # five tokens 150 ms apart; all at once would mean that they were held

"""A simulated Triton, asked over a socket by a plain client."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.simulate.conftest import Server
from tests.simulate.test_triton_codec import body_of

A, B = [1.0, 2.0, 3.0, 4.0], [10.0, 10.0, 10.0, 10.0]
SUM = [11.0, 12.0, 13.0, 14.0]
LENGTH = "Inference-Header-Content-Length"
INFER = "/v2/models/addsub/infer"


def tensor(name: str, data: list[float]) -> dict[str, Any]:
    return {"name": name, "datatype": "FP32", "shape": [len(data)], "data": data}


BODY = {"id": "7", "inputs": [tensor("A", A), tensor("B", B)]}


async def test_tensors_go_in_and_come_out_as_json(triton_server: Server) -> None:
    status, answer = await triton_server.post(INFER, BODY)
    assert status == 200
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("addsub", "1", "7")
    assert [(row["name"], row["data"]) for row in answer["outputs"]] == [
        ("SUM", SUM),
        ("DIFF", [-9.0, -8.0, -7.0, -6.0]),
    ]


async def test_only_the_outputs_that_were_asked_for_come_back(triton_server: Server) -> None:
    _, answer = await triton_server.post(INFER, {**BODY, "outputs": [{"name": "DIFF"}]})
    assert [row["name"] for row in answer["outputs"]] == ["DIFF"]


async def test_an_output_may_come_as_bytes_beside_one_in_json(triton_server: Server) -> None:
    outputs = [{"name": "SUM", "parameters": {"binary_data": True}}, {"name": "DIFF"}]
    async with triton_server.session.post(triton_server.url + INFER, json={**BODY, "outputs": outputs}) as answer:
        assert answer.content_type == "application/octet-stream"
        body, length = await answer.read(), int(answer.headers[LENGTH])
    header = json.loads(body[:length])
    assert header["outputs"][0]["parameters"] == {"binary_data_size": 16}
    assert "data" in header["outputs"][1]
    assert list(struct.unpack("<4f", body[length:])) == SUM


@pytest.mark.parametrize("binary", [[True, True], [True, False], [False, True]])
@pytest.mark.parametrize(("coding", "pack"), [("", bytes), ("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_binary_and_compressed_inputs_are_understood(
    triton_server: Server, binary: list[bool], coding: str, pack: Callable[[bytes], bytes]
) -> None:
    content, length = body_of([A, B], binary)
    assert length is not None
    content = content.replace(b'"I0"', b'"A"').replace(b'"I1"', b'"B"')
    headers = {LENGTH: str(int(length) - 2), **({"Content-Encoding": coding} if coding else {})}
    url = triton_server.url + INFER
    async with triton_server.session.post(url, data=pack(content), headers=headers) as answer:
        assert answer.status == 200
        assert (await answer.json())["outputs"][0]["data"] == SUM


@pytest.mark.parametrize(("coding", "unpack"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
async def test_answers_are_compressed_for_who_takes_it(
    triton_server: Server, coding: str, unpack: Callable[[bytes], bytes]
) -> None:
    wanted = {**BODY, "parameters": {"binary_data_output": True}}
    async with (
        aiohttp.ClientSession(auto_decompress=False, headers={"Accept-Encoding": coding}) as session,
        session.post(triton_server.url + INFER, json=wanted) as answer,
    ):
        assert answer.headers["Content-Encoding"] == coding
        body, length = unpack(await answer.read()), int(answer.headers[LENGTH])
    assert json.loads(body[:length])["outputs"][0]["name"] == "SUM"
    assert len(body) - length == 32


async def test_echo_gives_back_any_length(triton_server: Server) -> None:
    _, answer = await triton_server.post("/v2/models/echo/infer", {"inputs": [tensor("X", A + B)]})
    assert answer["outputs"] == [{"name": "Y", "datatype": "FP32", "shape": [8], "data": A + B}]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v2/models/none/infer", BODY, 404, "unknown model: 'none'"),
        ("/v2/models/addsub/versions/2/infer", BODY, 404, "version 2"),
        (INFER, {"inputs": [tensor("A", A)]}, 400, "expected 2 inputs"),
        (INFER, {"inputs": [tensor("A", A), tensor("C", B)]}, 400, "input 'B' is missing"),
        (INFER, {"inputs": [tensor("A", A), tensor("B", [1.0])]}, 400, "unexpected shape"),
        (INFER, {**BODY, "outputs": [{"name": "PRODUCT"}]}, 400, "unexpected inference output 'PRODUCT'"),
        (INFER, [], 400, "not an object"),
        (INFER, {}, 400, "inputs"),
        ("/v2/models/text/infer", BODY, 501, "decoupled"),
        ("/v2/models/text/generate", {}, 400, "text_input"),
        ("/v2/models/addsub/generate", {"text_input": "x"}, 400, "infer"),
        ("/v2/nothing", {}, 404, "Not Found"),
        ("/v2/models/addsub", {}, 405, "Not Allowed"),
    ],
)
async def test_errors_are_one_string(triton_server: Server, path: str, body: object, status: int, said: str) -> None:
    got, answer = await triton_server.post(path, body)
    assert got == status
    assert answer.keys() == {"error"}
    assert said in answer["error"]


@pytest.mark.parametrize(
    "body", [{"text_input": "x", "max_tokens": 3}, {"text_input": "x", "parameters": {"max_tokens": 3}}]
)
async def test_generated_text_is_the_same_whole_and_streamed(triton_server: Server, body: dict[str, Any]) -> None:
    _, whole = await triton_server.post("/v2/models/text/generate", body)
    url = triton_server.url + "/v2/models/text/versions/1/generate_stream"
    async with triton_server.session.post(url, json=body) as answer:
        assert answer.content_type == "text/event-stream"
        events = (await answer.text()).split("\n\n")[:-1]
    frames = [json.loads(event.removeprefix("data: ")) for event in events]
    assert len(frames) == 3
    assert {(frame["model_name"], frame["model_version"]) for frame in frames} == {("text", "1")}
    assert "".join(frame["text_output"] for frame in frames) == whole["text_output"]


async def test_what_is_loaded_is_told(triton_server: Server) -> None:
    assert "binary_tensor_data" in (await triton_server.get("/v2"))[1]["extensions"]
    _, metadata = await triton_server.get("/v2/models/addsub")
    assert metadata["inputs"][0] == {"name": "A", "datatype": "FP32", "shape": [4]}
    _, config = await triton_server.get("/v2/models/echo/versions/1/config")
    assert config["input"] == [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1]}]
    _, index = await triton_server.post("/v2/repository/index", {})
    assert {row["name"]: row["state"] for row in index} == {"addsub": "READY", "echo": "READY", "text": "READY"}


async def test_statistics_count_inferences(triton_server: Server) -> None:
    await triton_server.post(INFER, BODY)
    _, one = await triton_server.get("/v2/models/addsub/stats")
    _, every = await triton_server.get("/v2/models/stats")
    assert one["model_stats"][0]["inference_count"] == 1
    assert {row["name"]: row["inference_count"] for row in every["model_stats"]} == {"addsub": 1, "echo": 0, "text": 0}


@pytest.mark.parametrize("path", ["/v2/health/ready", "/v2/models/addsub/ready"])
async def test_not_ready_is_a_400(triton_server: Server, path: str) -> None:
    assert (await triton_server.get(path))[0] == 200
    await triton_server.post("/sim/knobs", {"ready": False})
    assert (await triton_server.get(path))[0] == 400
    assert (await triton_server.get("/v2/health/live"))[0] == 200


@pytest.mark.parametrize(("failure", "status"), [("500", 500), ("503", 503)])
async def test_failures_speak_tritons_dialect(triton_server: Server, failure: str, status: int) -> None:
    await triton_server.post("/sim/knobs", {"failure_rate": 1, "failure": failure})
    got, answer = await triton_server.post(INFER, BODY)
    assert (got, list(answer)) == (status, ["error"])


@pytest.mark.parametrize(("path", "body"), [(INFER, BODY), ("/v2/models/text/generate_stream", {"text_input": "x"})])
async def test_reset_and_cut_break_the_connection(triton_server: Server, path: str, body: dict[str, Any]) -> None:
    await triton_server.post("/sim/knobs", {"failure_rate": 1, "failure": "reset"})
    with pytest.raises(aiohttp.ClientOSError):
        await triton_server.post(path, body)
    await triton_server.post("/sim/knobs", {"failure": "cut"})
    async with triton_server.session.post(triton_server.url + path, json=body) as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()

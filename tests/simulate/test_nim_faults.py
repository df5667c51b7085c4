"""A simulated NIM that is slow, full, broken or left by its clients."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from gateway.simulate.knobs import changed
from tests.simulate.conftest import Server, until

CHAT = {"messages": [{"role": "user", "content": "hello"}]}
STREAM = {**CHAT, "stream": True}
PATH = "/v1/chat/completions"
FOREVER = 600


async def read_into(received: bytearray, answer: aiohttp.ClientResponse) -> None:
    """Append the body as it comes, so that what came before an error is kept."""
    while piece := await answer.content.readany():
        received += piece


async def turn(server: Server, **knobs: object) -> None:
    status, _ = await server.post("/sim/knobs", knobs)
    assert status == 200


@pytest.mark.parametrize("body", [CHAT, STREAM])
@pytest.mark.parametrize(("failure", "status", "after"), [("500", 500, None), ("503", 503, "1")])
async def test_failures_that_are_answers_come_before_any_token(
    nim_server: Server, body: dict[str, object], failure: str, status: int, after: str | None
) -> None:
    await turn(nim_server, failure_rate=1.0, failure=failure)
    async with nim_server.session.post(nim_server.url + PATH, json=body) as answer:
        assert answer.status == status
        assert answer.headers.get("Retry-After") == after
        assert (await answer.json())["error"]["code"] == status


@pytest.mark.parametrize("body", [CHAT, STREAM])
async def test_a_reset_leaves_no_answer_at_all(nim_server: Server, body: dict[str, object]) -> None:
    await turn(nim_server, failure_rate=1.0, failure="reset")
    with pytest.raises(aiohttp.ClientOSError):
        await nim_server.post(PATH, body)


async def test_a_cut_stream_has_tokens_but_no_end(nim_server: Server) -> None:
    await turn(nim_server, failure_rate=1.0, failure="cut")
    async with nim_server.session.post(nim_server.url + PATH, json=STREAM) as answer:
        received = bytearray()
        with pytest.raises(aiohttp.ClientPayloadError):
            await read_into(received, answer)
    assert received.count(b'"content":') >= 2
    assert b"[DONE]" not in received


async def test_a_cut_answer_is_shorter_than_announced(nim_server: Server) -> None:
    await turn(nim_server, failure_rate=1.0, failure="cut")
    async with nim_server.session.post(nim_server.url + PATH, json=CHAT) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_at_a_rate_of_a_half_every_second_call_fails(nim_server: Server) -> None:
    await turn(nim_server, failure_rate=0.5)
    assert [(await nim_server.post(PATH, CHAT))[0] for _ in range(4)] == [200, 500, 200, 500]


async def test_not_ready_fails_the_probe_and_nothing_else(nim_server: Server) -> None:
    await turn(nim_server, ready=False)
    assert (await nim_server.get("/v1/health/ready"))[0] == 503
    assert (await nim_server.get("/v1/health/live"))[0] == 200
    assert (await nim_server.post(PATH, CHAT))[0] == 200


@pytest.mark.parametrize("body", [CHAT, STREAM])
async def test_a_client_that_leaves_frees_its_place_and_is_counted(nim_server: Server, body: dict[str, object]) -> None:
    await turn(nim_server, first_token=FOREVER)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(nim_server.post(PATH, body))
        await until(lambda: nim_server.load.running == 1)
        call.cancel()
        await until(lambda: nim_server.load.running == 0)
    _, state = await nim_server.get("/sim/state")
    assert (state["cancelled"], state["succeeded"], state["running"]) == (1, 0, 0)


async def test_calls_beyond_the_limit_wait_and_metrics_show_it(nim_server: Server) -> None:
    await turn(nim_server, first_token=FOREVER, max_concurrency=2)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(nim_server.post(PATH, CHAT)) for _ in range(5)]
        await until(lambda: nim_server.load.waiting == 3)
        text = await nim_server.text("/v1/metrics")
        for call in calls:
            call.cancel()
    label = '{engine="0",model_name="meta/chat"}'
    assert f"vllm:num_requests_running{label} 2\n" in text
    assert f"vllm:num_requests_waiting{label} 3\n" in text
    assert f"vllm:kv_cache_usage_perc{label} 1.0\n" in text


async def test_the_first_token_is_sent_before_the_second_is_due(nim_server: Server) -> None:
    await turn(nim_server, token_delay=FOREVER)
    async with nim_server.session.post(nim_server.url + PATH, json=STREAM) as answer:
        received = b""
        while received.count(b"\n\n") < 2:
            received += await answer.content.readany()
    assert b'finish_reason":"stop' not in received


async def test_a_knob_that_does_not_exist_is_refused_and_changes_nothing(nim_server: Server) -> None:
    before = nim_server.load.knobs
    status, answer = await nim_server.post("/sim/knobs", {"ready": False, "nonsense": 1})
    assert (status, "nonsense" in answer["error"]) == (400, True)
    assert nim_server.load.knobs == before


async def test_fewer_knobs_than_all_may_be_turned(nim_server: Server) -> None:
    before = nim_server.load.knobs
    await turn(nim_server, tokens=2)
    assert nim_server.load.knobs == changed(before, {"tokens": 2})

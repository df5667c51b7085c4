"""A simulated NIM, asked over a socket by a plain client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulate.conftest import Server

CHAT = {"model": "meta/chat", "messages": [{"role": "user", "content": "Tell me something"}]}


async def events(server: Server, path: str, body: dict[str, Any]) -> list[str]:
    async with server.session.post(server.url + path, json={**body, "stream": True}) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        text = await answer.text()
    assert text.endswith("\n\n")
    return [event.removeprefix("data: ") for event in text.split("\n\n")[:-1]]


async def test_a_chat_is_answered_with_text_and_counts(nim_server: Server) -> None:
    status, answer = await nim_server.post("/v1/chat/completions", CHAT)
    assert (status, answer["object"], answer["model"]) == (200, "chat.completion", "meta/chat")
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert len(choice["message"]["content"].split()) == 6
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}
    assert answer["created"] == 1_700_000_000


async def test_the_same_question_gets_the_same_words_and_another_one_others(nim_server: Server) -> None:
    async def said(content: str) -> str:
        body = {"messages": [{"role": "user", "content": content}]}
        _, answer = await nim_server.post("/v1/chat/completions", body)
        return str(answer["choices"][0]["message"]["content"])

    assert await said("one") == await said("one")
    assert await said("one") != await said("two")


async def test_a_stream_is_role_then_tokens_then_reason_then_done(nim_server: Server) -> None:
    *chunks, done = await events(nim_server, "/v1/chat/completions", CHAT)
    assert done == "[DONE]"
    choices = [json.loads(chunk)["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in choices] == [None] * 7 + ["stop"]
    _, whole = await nim_server.post("/v1/chat/completions", CHAT)
    streamed = "".join(choice["delta"].get("content", "") for choice in choices)
    assert streamed == whole["choices"][0]["message"]["content"]
    assert all("usage" not in json.loads(chunk) for chunk in chunks)


async def test_the_counts_come_last_for_who_asked_for_them(nim_server: Server) -> None:
    chunks = await events(nim_server, "/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True}})
    last = json.loads(chunks[-2])
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 6)
    assert all(json.loads(chunk)["usage"] is None for chunk in chunks[:-2])


async def test_several_choices_are_streamed_side_by_side(nim_server: Server) -> None:
    chunks = await events(nim_server, "/v1/chat/completions", {**CHAT, "n": 2, "max_tokens": 2})
    indices = [json.loads(chunk)["choices"][0]["index"] for chunk in chunks[:-1]]
    assert indices == [0, 1] * 4


async def test_a_limit_on_tokens_is_kept_and_named_as_the_reason(nim_server: Server) -> None:
    _, answer = await nim_server.post("/v1/chat/completions", {**CHAT, "max_completion_tokens": 2})
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(("prompt", "choices"), [("one", 1), (["one", "two"], 2), ([1, 2, 3], 1), ([[1], [2], [3]], 3)])
async def test_completions_take_texts_and_token_ids(nim_server: Server, prompt: object, choices: int) -> None:
    status, answer = await nim_server.post("/v1/completions", {"model": "meta/chat", "prompt": prompt})
    assert (status, len(answer["choices"])) == (200, choices)


async def test_completions_stream_text(nim_server: Server) -> None:
    *chunks, done = await events(nim_server, "/v1/completions", {"prompt": "one", "max_tokens": 3})
    assert done == "[DONE]"
    assert [json.loads(chunk)["object"] for chunk in chunks] == ["text_completion"] * 4
    assert all("text" in json.loads(chunk)["choices"][0] for chunk in chunks)


async def test_without_a_model_the_first_one_answers(nim_server: Server) -> None:
    _, answer = await nim_server.post("/v1/chat/completions", {"messages": CHAT["messages"]})
    assert answer["model"] == "meta/chat"


async def test_an_unknown_model_is_a_nested_404(nim_server: Server) -> None:
    status, answer = await nim_server.post("/v1/chat/completions", {**CHAT, "model": "meta/none"})
    assert status == 404
    assert answer["error"]["type"] == "NotFoundError"
    assert (answer["error"]["param"], answer["error"]["code"]) == ("model", 404)


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/chat/completions", {"model": "meta/chat"}, 400, "messages"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "king", "content": "x"}]}, 400, "messages"),
        ("/v1/chat/completions", {**CHAT, "max_tokens": 0}, 400, "max_tokens"),
        ("/v1/chat/completions", {**CHAT, "n": 1000}, 400, "n"),
        ("/v1/chat/completions", {**CHAT, "temperature": 9}, 400, "temperature"),
        ("/v1/completions", {"prompt": []}, 400, "prompt"),
        ("/v1/embeddings", {"model": "nvidia/embed"}, 422, "input"),
        ("/v1/embeddings", {"input": "x"}, 422, "model"),
        ("/v1/embeddings", {"model": "nvidia/embed", "input": "x", "dimensions": 0}, 422, "dimensions"),
        ("/v1/ranking", {"model": "nvidia/embed", "query": {"text": "x"}, "passages": []}, 422, "passages"),
        ("/v1/chat/completions", [], 400, None),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_by_field(
    nim_server: Server, path: str, body: object, status: int, param: str | None
) -> None:
    got, answer = await nim_server.post(path, body)
    assert (got, answer["error"]["param"]) == (status, param)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff"])
async def test_what_is_no_json_is_a_400(nim_server: Server, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    url = nim_server.url + "/v1/chat/completions"
    async with nim_server.session.post(url, data=content, headers=headers) as answer:
        assert answer.status == 400
        assert "error" in await answer.json()


async def test_a_form_is_not_taken_for_json(nim_server: Server) -> None:
    async with nim_server.session.post(nim_server.url + "/v1/chat/completions", data={"a": "b"}) as answer:
        assert answer.status == 400


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/nothing", 404), ("GET", "/v1/embeddings", 405)])
async def test_other_routes_and_methods_are_refused_in_json(
    nim_server: Server, method: str, path: str, status: int
) -> None:
    async with nim_server.session.request(method, nim_server.url + path) as answer:
        assert answer.status == status
        assert "detail" in await answer.json()


async def test_models_version_metadata_and_health_are_told(nim_server: Server) -> None:
    _, models = await nim_server.get("/v1/models")
    assert [row["id"] for row in models["data"]] == ["meta/chat", "nvidia/embed"]
    assert (await nim_server.get("/v1/version"))[1].keys() == {"release", "api"}
    assert len((await nim_server.get("/v1/metadata"))[1]["modelInfo"]) == 2
    assert (await nim_server.get("/v1/health/live"))[0] == 200
    assert (await nim_server.get("/v1/health/ready"))[0] == 200


async def test_metrics_count_tokens_under_the_engines_names(nim_server: Server) -> None:
    await nim_server.post("/v1/chat/completions", CHAT)
    await events(nim_server, "/v1/chat/completions", CHAT)
    text = await nim_server.text("/v1/metrics")
    label = '{engine="0",model_name="meta/chat"}'
    for line in (
        f"vllm:prompt_tokens_total{label} 8", f"vllm:generation_tokens_total{label} 12",
        f"vllm:num_requests_running{label} 0", f"vllm:num_requests_waiting{label} 0",
        f"vllm:kv_cache_usage_perc{label} 0.0", f"vllm:request_success_total{label} 2",
    ):  # fmt: skip
        assert f"{line}\n" in text

"""Vectors and rankings of a simulated NIM."""

from __future__ import annotations

import base64
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.simulate import nim_text
from tests.simulate.conftest import Server


@pytest.mark.parametrize(("given_input", "count"), [("one", 1), (["one", "two"], 2), ([5, 6], 1), ([[5], [6]], 2)])
async def test_each_input_gets_a_vector(nim_server: Server, given_input: object, count: int) -> None:
    body = {"model": "nvidia/embed", "input": given_input, "dimensions": 8}
    status, answer = await nim_server.post("/v1/embeddings", body)
    assert status == 200
    assert [row["index"] for row in answer["data"]] == list(range(count))
    assert all(len(row["embedding"]) == 8 for row in answer["data"])


async def test_packed_vectors_are_the_same_numbers(nim_server: Server) -> None:
    body = {"model": "nvidia/embed", "input": "one", "dimensions": 8}
    _, plain = await nim_server.post("/v1/embeddings", body)
    _, packed = await nim_server.post("/v1/embeddings", {**body, "encoding_format": "base64"})
    numbers = struct.unpack("<8f", base64.b64decode(packed["data"][0]["embedding"]))
    assert numbers == pytest.approx(plain["data"][0]["embedding"], abs=1e-6)


async def test_the_passage_with_the_words_of_the_query_ranks_first(nim_server: Server) -> None:
    passages = [{"text": "cats sleep"}, {"text": "The gateway relays streams."}, {"text": "a gateway"}]
    body = {"model": "nvidia/embed", "query": {"text": "Does the gateway relay streams?"}, "passages": passages}
    status, answer = await nim_server.post("/v1/ranking", body)
    assert status == 200
    assert [row["index"] for row in answer["rankings"]] == [1, 2, 0]
    logits = [row["logit"] for row in answer["rankings"]]
    assert logits == sorted(logits, reverse=True)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/ranking"])
async def test_an_unknown_model_is_a_404(nim_server: Server, path: str) -> None:
    body = {"model": "none", "input": "x", "query": {"text": "x"}, "passages": [{"text": "x"}]}
    assert (await nim_server.post(path, body))[0] == 404


@given(st.text(), st.integers(1, 64))
def test_every_text_has_one_vector_of_length_one(text: str, size: int) -> None:
    vector = nim_text.embedding(text, size)
    assert vector == nim_text.embedding(text, size)
    assert len(vector) == size
    assert math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-9)


@given(st.text(), st.integers(0, 50))
def test_an_answer_has_as_many_tokens_as_asked_for(prompt: str, count: int) -> None:
    words = nim_text.answer(prompt, count)
    assert len(words) == count == nim_text.tokens_of("".join(words))

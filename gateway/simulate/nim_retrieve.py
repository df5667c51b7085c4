"""`/v1/embeddings` and `/v1/ranking` of a simulated NIM.

Knows: the JSON of both. Must not know: how vectors and scores come about.
"""

from __future__ import annotations

from aiohttp import web

import gateway.simulate.nim_text as sim_text
import gateway.simulate.web as sim_web
from gateway.simulate.nim_bodies import Embeddings, Ranking, as_texts
from gateway.simulate.nim_calls import Served, answer, body_of, failing
from gateway.simulate.nim_shapes import Json


async def embeddings(served: Served, request: web.Request) -> web.StreamResponse:
    """A vector for each input, as numbers or packed."""
    body = await body_of(request, Embeddings, 422)
    model = served.model_of(body.model)
    texts = as_texts(body.input)
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(text, body)} for index, text in enumerate(texts)
    ]
    tokens = sum(sim_text.tokens_of(text) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return await _answer(served, request, tokens, {"object": "list", "data": data, "model": model, "usage": usage})


async def ranking(served: Served, request: web.Request) -> web.StreamResponse:
    """The passages, best first."""
    body = await body_of(request, Ranking, 422)
    served.model_of(body.model)
    scored = [
        {"index": index, "logit": sim_text.logit(body.query.text, passage.text)}
        for index, passage in enumerate(body.passages)
    ]
    scored.sort(key=lambda row: (-row["logit"], row["index"]))
    tokens = sim_text.tokens_of(body.query.text) + sum(sim_text.tokens_of(passage.text) for passage in body.passages)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return await _answer(served, request, tokens, {"rankings": scored, "usage": usage})


async def _answer(served: Served, request: web.Request, tokens: int, body: Json) -> web.StreamResponse:
    load = served.load
    failure = failing(load)
    async with load.place():
        with load.counted():
            load.prompt_tokens += tokens
            await sim_web.pause(load.knobs.first_token)
            return await answer(request, failure, body)


def _vector(text: str, body: Embeddings) -> list[float] | str:
    vector = sim_text.embedding(text, body.dimensions)
    return sim_text.packed(vector) if body.encoding_format == "base64" else vector

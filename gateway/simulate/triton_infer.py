"""Inference on a simulated Triton: `infer`, `generate`, `generate_stream`.

Knows: aiohttp, timing, content codings. Must not know: routes, how tensors are laid out.
Sources: KServe v2; Triton's `extension_binary_data.md` and `extension_generate.md`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from aiohttp import web

import gateway.simulate.nim_text as sim_text
import gateway.simulate.triton_codec as codec
import gateway.simulate.web as sim_web
from gateway.simulate.knobs import Failure
from gateway.simulate.load import Load
from gateway.simulate.triton_codec import CODINGS, Encoded, Malformed
from gateway.simulate.triton_models import MODELS, TritonModel, run

LENGTH = "Inference-Header-Content-Length"
FAILURES = {
    Failure.ERROR: (500, "the simulated model failed"),
    Failure.BUSY: (503, "the simulated server is overloaded"),
}


class Failed(Exception):  # noqa: N818  named for what happened, as the refusals are
    """A call that ends in an error answer of this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Served:
    """One simulated Triton; `inferences` counts per model."""

    load: Load
    inferences: dict[str, int]


def model_of(request: web.Request) -> TritonModel:
    """The model and version that the path names. Raises `Failed` 404."""
    name = request.match_info["model"]
    model = MODELS.get(name)
    if model is None:
        raise Failed(404, f"Request for unknown model: '{name}' is not found")
    version = request.match_info.get("version", model.version)
    if version != model.version:
        raise Failed(404, f"Request for unknown model: '{name}' version {version} is not found")
    return model


async def infer(served: Served, request: web.Request) -> web.StreamResponse:
    """Tensors in, tensors out."""
    model = model_of(request)
    if model.compute is None:
        raise Failed(501, "ModelInfer RPC doesn't support models with decoupled transaction policy")
    asked = codec.decode(await request.read(), request.headers.get(LENGTH))
    outputs = run(model, model.compute, asked.inputs)
    head = {"model_name": model.name, "model_version": model.version, **({"id": asked.id} if asked.id else {})}
    encoded = codec.encode(head, outputs, asked.wanted)
    failure = _failing(served.load)
    async with served.load.place():
        with served.load.counted():
            await sim_web.pause(served.load.knobs.first_token)
            served.inferences[model.name] += 1
            return await _answer(request, failure, encoded)


async def generate(served: Served, request: web.Request) -> web.StreamResponse:
    """Text in, the whole text out."""
    model, words = await _generation(served, request)
    failure = _failing(served.load)
    knobs = served.load.knobs
    async with served.load.place():
        with served.load.counted():
            await sim_web.pause(knobs.first_token + knobs.token_delay * len(words))
            served.inferences[model.name] += 1
            return await _answer(request, failure, Encoded(_frame(model, "".join(words)), None))


async def generate_stream(served: Served, request: web.Request) -> web.StreamResponse:
    """Text in, an event for each token out; the end of the body is the end of the stream."""
    model, words = await _generation(served, request)
    failure = _failing(served.load)
    if failure is Failure.RESET:
        return sim_web.reset(request)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    if failure is Failure.CUT:
        half = words[: max(1, len(words) // 2)]
        return await sim_web.cut(request, response, b"".join(_event(model, word) for word in half))
    async with served.load.place():
        with served.load.counted():
            served.inferences[model.name] += 1
            await response.prepare(request)
            for place, word in enumerate(words):
                await sim_web.pause(served.load.knobs.token_delay if place else served.load.knobs.first_token)
                await response.write(_event(model, word))
    return response


async def _generation(served: Served, request: web.Request) -> tuple[TritonModel, list[str]]:
    """The model and the tokens of its answer."""
    model = model_of(request)
    if not model.decoupled:
        raise Malformed(f"model '{model.name}' takes tensors: use infer")
    body = codec.parsed(await request.read())
    text = body.get("text_input")
    if not isinstance(text, str):
        raise Malformed("expected number of inputs between 1 and 1 but got 0 inputs: 'text_input' is needed")
    parameters = body.get("parameters")
    named = {**body, **parameters} if isinstance(parameters, dict) else body
    limit = named.get("max_tokens")
    count = served.load.knobs.tokens
    if type(limit) is int and limit > 0:
        count = min(count, limit)
    return model, sim_text.answer(text, count)


def _failing(load: Load) -> Failure | None:
    if not load.arrived_to_fail():
        return None
    failure = load.knobs.failure
    if failure in FAILURES:
        raise Failed(*FAILURES[failure])
    return failure


async def _answer(request: web.Request, failure: Failure | None, encoded: Encoded) -> web.StreamResponse:
    if failure is Failure.RESET:
        return sim_web.reset(request)
    binary = encoded.header_length is not None
    headers = {"Content-Type": "application/octet-stream" if binary else "application/json"}
    if binary:
        headers[LENGTH] = str(encoded.header_length)
    body = encoded.body
    coding = codec.coding_for(request.headers.get("Accept-Encoding", ""))
    if coding is not None:
        body = CODINGS[coding](body)
        headers["Content-Encoding"] = coding
    if failure is Failure.CUT:
        response = web.StreamResponse(headers={**headers, "Content-Length": str(len(body))})
        return await sim_web.cut(request, response, body[: len(body) // 2])
    return web.Response(body=body, headers=headers)


def _frame(model: TritonModel, text: str) -> bytes:
    return json.dumps({"model_name": model.name, "model_version": model.version, "text_output": text}).encode()


def _event(model: TritonModel, text: str) -> bytes:
    return b"data: " + _frame(model, text) + b"\n\n"

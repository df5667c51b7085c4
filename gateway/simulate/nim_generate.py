"""`/v1/chat/completions` and `/v1/completions` of a simulated NIM, whole and streamed.

Knows: timing, event streams. Must not know: the JSON of the answers, the words in them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
from aiohttp import web

import gateway.simulate.nim_shapes as shapes
import gateway.simulate.nim_text as sim_text
import gateway.simulate.web as sim_web
from gateway.simulate.knobs import Failure
from gateway.simulate.nim_bodies import Chat, Completion
from gateway.simulate.nim_calls import Served, answer, body_of, failing

STREAM_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
DONE = b"data: [DONE]\n\n"


async def chat(served: Served, request: web.Request) -> web.StreamResponse:
    """Answer a conversation."""
    return await _generate(served, request, await body_of(request, Chat, 400))


async def completion(served: Served, request: web.Request) -> web.StreamResponse:
    """Continue texts."""
    return await _generate(served, request, await body_of(request, Completion, 400))


async def _generate(served: Served, request: web.Request, body: Chat | Completion) -> web.StreamResponse:
    load = served.load
    job = _job(served, body)
    failure = failing(load)
    if failure is Failure.RESET:
        return sim_web.reset(request)
    async with load.place():
        load.prompt_tokens += job.prompt_tokens
        if failure is Failure.CUT and body.stream:
            return await _cut_stream(request, job)
        with load.counted():
            if body.stream:
                return await _stream(served, request, job)
            return await _whole(served, request, job, failure)


def _job(served: Served, body: Chat | Completion) -> shapes.Job:
    """Everything about the answer, before the first token of it."""
    model = served.model_of(body.model)
    prompts = body.prompts()
    wanted, limit = served.load.knobs.tokens, body.limit()
    count = wanted if limit is None else min(wanted, limit)
    chat_call = isinstance(body, Chat)
    return shapes.Job(
        chat=chat_call,
        id=f"{'chatcmpl' if chat_call else 'cmpl'}-{served.name}-{served.next_id()}",
        model=model,
        created=int(served.clock()),
        server=served.name,
        prompt_tokens=sum(sim_text.tokens_of(prompt) for prompt in prompts),
        choices=tuple(
            tuple(sim_text.answer(f"{model}\n{number}\n{prompt}", count))
            for prompt in prompts
            for number in range(body.n)
        ),
        finish="length" if count < wanted else "stop",
        usage_chunk=body.usage_chunk,
    )


async def _whole(served: Served, request: web.Request, job: shapes.Job, failure: Failure | None) -> web.StreamResponse:
    knobs = served.load.knobs
    longest = max(len(words) for words in job.choices)
    await sim_web.pause(knobs.first_token + knobs.token_delay * max(0, longest - 1))
    served.load.generation_tokens += job.generated
    return await answer(request, failure, shapes.whole(job))


async def _stream(served: Served, request: web.Request, job: shapes.Job) -> web.StreamResponse:
    response = web.StreamResponse(headers=STREAM_HEADERS)
    await response.prepare(request)
    for chunk in shapes.opening(job):
        await response.write(_event(chunk))
    async for chunk in _pieces(served, job):
        await response.write(_event(chunk))
    for chunk in shapes.closing(job):
        await response.write(_event(chunk))
    await response.write(DONE)
    return response


async def _pieces(served: Served, job: shapes.Job) -> AsyncIterator[shapes.Json]:
    """The tokens, each when it is due; the knobs are read anew for each, so that a test may turn them on the way."""
    for place in range(max(len(words) for words in job.choices)):
        await sim_web.pause(served.load.knobs.token_delay if place else served.load.knobs.first_token)
        for index, words in enumerate(job.choices):
            served.load.generation_tokens += 1
            yield shapes.piece(job, index, words[place])


async def _cut_stream(request: web.Request, job: shapes.Job) -> web.StreamResponse:
    """Half of the first answer, then the end of the connection."""
    words = job.choices[0]
    chunks = [*shapes.opening(job), *(shapes.piece(job, 0, word) for word in words[: max(1, len(words) // 2)])]
    return await sim_web.cut(request, web.StreamResponse(headers=STREAM_HEADERS), b"".join(map(_event, chunks)))


def _event(chunk: shapes.Json) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"

"""The callers who behave: whatever else goes on, each of them is answered well, and with what is its own.

Each is a function from an actor to the word its act is counted under, and raises `Wrong`.
Must not know: what goes on beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping

from soak.lines import Broken, Pace, call
from soak.lines import request as post
from soak.site import (
    CHAT,
    ECHO,
    GOOD,
    KEEP_ALIVE,
    LLAMA,
    REUSE_WITHIN,
    SIMULATED,
    TENSOR,
    Actor,
    Wrong,
    must_be_ok,
    own,
    well_answered,
)

Act = Callable[[Actor], Awaitable[str]]
MOST_PIPELINED = 16
CLOSED_WITHIN = KEEP_ALIVE + 60  # seconds; generous, since a busy machine is slow


async def json_call(me: Actor) -> str:
    """A chat call on a kept connection."""
    marker = me.marker()
    async with me.keeping() as line:
        await line.send(me.request(call(GOOD, marker)))
        await well_answered(line, marker)
    return "200"


async def event_stream(me: Actor) -> str:
    """A streamed chat call, read to its `[DONE]`."""
    marker, count = me.marker(), me.chance.randrange(1, 40)
    every = me.chance.choice((0, 0.005, 0.03))
    async with me.keeping() as line:
        await line.send(me.request(call(GOOD, marker, stream=True, events=count, every=every)))
        got = await well_answered(line, marker)
    if got.body.count(marker.encode()) != count or not got.body.endswith(b"data: [DONE]\n\n"):
        raise Wrong(f"{got.body.count(marker.encode())} of {count} events: {got.body[-200:]!r}")
    return "200"


async def upload(me: Actor) -> str:
    """A tensor of up to 4 MB, with a length or in chunks; what arrives behind is what was sent."""
    marker = me.marker()
    tensor = marker.encode() + me.chance.randbytes(int(2 ** me.chance.uniform(8, 22)))
    path = f"/v2/models/{TENSOR}/infer"
    chunks = me.chance.choice((0, 0, 1, 20))
    more = me.chance.choice(("", "", "Expect: 100-continue\r\n"))
    asked = post(path, me.token, tensor, chunks=chunks, kind="application/octet-stream", more=more)
    async with me.keeping() as line:
        await line.send(asked)
        got = await well_answered(line, marker)
    if json.loads(got.body)["sha256"] != hashlib.sha256(tensor).hexdigest():
        raise Wrong("a tensor arrived changed")
    return "200"


async def pipelined(me: Actor) -> str:
    """Up to 16 calls sent at once; the answers come in their order."""
    markers = [me.marker() for _ in range(me.chance.randrange(2, MOST_PIPELINED + 1))]
    async with me.keeping() as line:
        await line.send(b"".join(me.request(call(GOOD, each, stream=me.chance.random() < 0.3)) for each in markers))
        for marker in markers:
            await well_answered(line, marker)
    return "200"


async def slow_reader(me: Actor) -> str:
    """A big answer, read slowly: more than all buffers on the way hold."""
    marker = me.marker()
    async with me.fresh() as line:
        await line.send(me.request(call(GOOD, marker, big=me.chance.randrange(8, 32))))
        try:
            got = await line.answer(Pace(32 * 1024, me.chance.uniform(0, 0.02)))
        except Broken as broken:
            raise Wrong(f"a slow reader was cut: {broken}") from broken
        must_be_ok(got)
        own(got.body, marker, needed=True)
    return "200"


async def resting(me: Actor) -> str:
    """A call, a rest, and another on the same connection; or a rest until the gateway closes it."""
    async with me.fresh() as line:
        for rest in (0.0, me.chance.uniform(0, REUSE_WITHIN)):
            await asyncio.sleep(rest)
            marker = me.marker()
            await line.send(me.request(call(GOOD, marker)))
            await well_answered(line, marker)
        if me.chance.random() < 0.5:
            return "200, left"
        async with asyncio.timeout(CLOSED_WITHIN):
            if strange := await line.rest():
                raise Wrong(f"bytes that nobody asked for: {strange[:100]!r}")
    return "200, closed at rest"


async def newcomer(me: Actor) -> str:
    """A caller with a token that was never seen, half of them RSA."""
    name = f"{me.name}-{me.chance.randrange(10**9)}"
    token = (me.site.tokens.good if me.chance.random() < 0.5 else me.site.tokens.rsa)(name)
    marker = me.marker()
    async with me.keeping() as line:
        await line.send(post(CHAT, token, call(GOOD, marker)))
        await well_answered(line, marker)
    return "200"


async def lister(me: Actor) -> str:
    """Asks which models there are."""
    async with me.keeping() as line:
        await line.send(f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {me.token}\r\n\r\n".encode())
        try:
            got = await line.answer()
        except Broken as broken:
            raise Wrong(f"a list broke off: {broken}") from broken
    must_be_ok(got)
    if GOOD not in {model["id"] for model in json.loads(got.body)["data"]}:
        raise Wrong(f"a list without a model that is served: {got.body[:300]!r}")
    return "200"


async def simulated_nim(me: Actor) -> str:
    """The simulated NIM, whole or streamed."""
    return await _engine(me, SIMULATED)


async def llama(me: Actor) -> str:
    """The real engine, whole or streamed."""
    return await _engine(me, LLAMA)


async def _engine(me: Actor, model: str) -> str:
    """An engine says no markers; its answer has to be whole, and of the kind asked for."""
    streamed = me.chance.random() < 0.5
    async with me.keeping() as line:
        await line.send(me.request(call(model, me.marker(), stream=streamed)))
        try:
            got = await line.answer()
        except Broken as broken:
            raise Wrong(f"a good call broke off: {broken}") from broken
    must_be_ok(got)
    if streamed and not got.body.rstrip().endswith(b"data: [DONE]"):
        raise Wrong(f"a stream without its end: {got.body[-200:]!r}")
    if not streamed:
        json.loads(got.body)["choices"]
    return "200"


async def triton(me: Actor) -> str:
    """The real Triton gives a tensor back."""
    numbers = [float(me.chance.randrange(1000)) for _ in range(me.chance.randrange(1, 500))]
    tensor = {"name": "X", "datatype": "FP32", "shape": [len(numbers)], "data": numbers}
    async with me.keeping() as line:
        await line.send(me.request(json.dumps({"inputs": [tensor]}).encode(), f"/v2/models/{ECHO}/infer"))
        try:
            got = await line.answer()
        except Broken as broken:
            raise Wrong(f"a good call broke off: {broken}") from broken
    must_be_ok(got)
    (given,) = [each["data"] for each in json.loads(got.body)["outputs"] if each["name"] == "Y"]
    if given != numbers:
        raise Wrong("Triton's tensor is another caller's")
    return "200"


#: By name: the act, how many do it at once, seconds between two acts of one (mean).
CALLERS: dict[str, tuple[Act, int, float]] = {
    "json": (json_call, 4, 0.02),
    "stream": (event_stream, 4, 0.05),
    "upload": (upload, 2, 0.2),
    "pipelined": (pipelined, 2, 0.2),
    "slow reader": (slow_reader, 2, 0.2),
    "resting": (resting, 4, 0.5),
    "newcomer": (newcomer, 2, 0.05),
    "lister": (lister, 1, 0.2),
    "simulated NIM": (simulated_nim, 2, 0.1),
}
REAL: Mapping[str, tuple[str, Act, int, float]] = {
    "llama": (LLAMA, llama, 1, 0.5),
    "Triton": (ECHO, triton, 1, 0.3),
}

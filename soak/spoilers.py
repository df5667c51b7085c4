"""The callers who do not behave: they break off, hold on, forge, and speak no TLS; and those whose backends fail them.

Each is a function from an actor to the word its act is counted under. Raises `Wrong` for answers it must not get.
Must not know: what goes on beside it.
"""

from __future__ import annotations

import asyncio
import ssl

from soak.callers import Act
from soak.lines import Broken, Got, Line, call
from soak.lines import request as post
from soak.site import CHAT, GOOD, ILL, TENSOR, Actor, Wrong, must_be_ok, own

#: What a caller of failing backends may be told: their own 500, and what the gateway says for them.
FAILURES = frozenset({500, 502, 503, 504})
#: For a token that does not hold: 503 where the provider could not be asked about a key nobody knows.
REFUSED = frozenset({401, 503})
LONGEST_HOLD = 8.0  # seconds that a spoiler holds on without a word
CLOSED_WITHIN = 60.0


def _some_request(me: Actor, marker: str) -> bytes:
    """Any request that a well-behaved caller makes."""
    model = me.chance.choice((GOOD, GOOD, ILL))
    kind = me.chance.randrange(4)
    if kind == 0:
        tensor = marker.encode() + me.chance.randbytes(me.chance.randrange(300_000))
        return me.request(tensor, f"/v2/models/{TENSOR}/infer", chunks=me.chance.choice((0, 7)))
    if kind == 1:
        return me.request(call(model, marker, big=me.chance.randrange(1, 20)))
    if kind == 2:
        return me.request(call(model, marker, stream=True, events=50, every=0.01))
    return me.request(call(model, marker))


async def leaves_while_asking(me: Actor) -> str:
    """Sends a part of a request and goes, in order or not."""
    asked = _some_request(me, me.marker())
    async with me.fresh(reset=me.chance.random() < 0.5) as line:
        await line.send(asked[: me.chance.randrange(len(asked))])
        await asyncio.sleep(me.chance.choice((0, 0.001, 0.1)))
    return "left"


async def leaves_while_answered(me: Actor) -> str:
    """Reads a part of an answer and goes."""
    marker = me.marker()
    got = b""
    async with me.fresh(reset=me.chance.random() < 0.5) as line:
        await line.send(_some_request(me, marker))
        wanted = int(2 ** me.chance.uniform(0, 20))
        while len(got) < wanted and (piece := await line.some(wanted - len(got))):
            got += piece
    own(got, marker, needed=False)
    return "left"


async def leaves_at_some_time(me: Actor) -> str:
    """Goes after a while, wherever its call stands then; some had asked for several things at once."""
    marker = me.marker()
    async with me.fresh(reset=me.chance.random() < 0.5) as line:
        await line.send(b"".join(_some_request(me, marker) for _ in range(me.chance.choice((1, 1, 2, 8)))))
        await asyncio.sleep(me.chance.uniform(0, 0.2))
    return "left"


async def never_reads(me: Actor) -> str:
    """Asks for a big answer and reads nothing of it; the gateway cuts it, or it goes."""
    async with me.fresh(reset=me.chance.random() < 0.5) as line:
        await line.send(me.request(call(GOOD, me.marker(), big=200)))
        await asyncio.sleep(me.chance.uniform(0, LONGEST_HOLD))
    return "left"


async def never_ends_its_request(me: Actor) -> str:
    """Stops in the middle of its head or body and holds on: the gateway ends that."""
    asked = _some_request(me, me.marker())
    async with me.fresh() as line:
        await line.send(asked[: me.chance.randrange(1, len(asked) - 1)])
        async with asyncio.timeout(CLOSED_WITHIN):
            got = await line.rest()
    if got and not got.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 100 ", b"HTTP/1.1 5")):
        raise Wrong(f"half a request was answered {got[:200]!r}")
    return "408" if got else "closed"


async def speaks_nonsense(me: Actor) -> str:
    """Noise inside TLS, behind a good request or alone."""
    marker = me.marker()
    before = me.request(call(GOOD, marker)) if me.chance.random() < 0.5 else b""
    async with me.fresh() as line:
        await line.send(before + me.chance.randbytes(me.chance.randrange(1, 2000)) + b"\r\n\r\n")
        async with asyncio.timeout(CLOSED_WITHIN):
            got = await line.rest()
    own(got, marker, needed=False)
    if got.count(b"HTTP/1.1 200 ") > bool(before):
        raise Wrong(f"nonsense was answered {got[-200:]!r}")
    return "closed"


async def bad_handshake(me: Actor) -> str:
    """Garbage, half a hello, no hello, plain HTTP; then it holds on, or goes, or resets."""
    hello = _hello(me)
    said = me.chance.choice(
        (
            b"",
            me.chance.randbytes(me.chance.randrange(1, 500)),
            hello[: me.chance.randrange(1, len(hello))],
            hello,
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )
    )
    line = await Line.open(me.site.port, None)
    try:
        if said:
            await line.send(said)
        async with asyncio.timeout(me.chance.choice((0.001, 0.1, LONGEST_HOLD))):
            got = await line.rest()
        if b"HTTP/" in got:
            raise Wrong(f"an answer without TLS: {got[:100]!r}")
    except (TimeoutError, Broken):
        pass
    finally:
        line.leave(reset=me.chance.random() < 0.5)
    return "no TLS"


def _hello(me: Actor) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = me.site.tls.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        talk.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise Wrong("a handshake without an answer")


async def says_nothing(me: Actor) -> str:
    """Many connections at once that say nothing, with TLS or without."""
    count = me.chance.randrange(1, 30)
    tls = me.chance.choice((None, me.site.tls))
    lines = await asyncio.gather(*(Line.open(me.site.port, tls) for _ in range(count)))
    await asyncio.sleep(me.chance.choice((0, 0, me.chance.uniform(0, LONGEST_HOLD))))
    for line in lines:
        line.leave(reset=me.chance.random() < 0.5)
    return "left"


async def bad_token(me: Actor) -> str:
    """A token that must not hold, of every kind, many with a key id that nobody knows."""
    kind, token = me.site.tokens.bad(me.chance)
    marker = me.marker()
    async with me.keeping() as line:
        await line.send(post(CHAT, token, call(GOOD, marker)))
        got = await _answer(line, kind)
    if got.status not in REFUSED:
        raise Wrong(f"a token ({kind}) was answered {got.status}")
    return str(got.status)


async def not_allowed(me: Actor) -> str:
    """Asks for models that are not its own, of which no two have the same name."""
    async with me.keeping() as line:
        await line.send(me.request(call(f"other/{me.marker()}", me.marker())))
        got = await _answer(line, "another model")
    if got.status not in (403, 404):
        raise Wrong(f"another model was answered {got.status}")
    return str(got.status)


async def of_failing_backends(me: Actor) -> str:
    """A call to backends that fail in every way: it ends, as what it is, and never with what is another's."""
    marker = me.marker()
    async with me.fresh() as line:
        await line.send(me.request(call(ILL, marker, stream=me.chance.random() < 0.5)))
        try:
            got = await line.answer()
        except Broken as broken:
            return "cut" if broken.started else _unanswered(broken)
    if got.status in FAILURES:
        own(got.body, marker, needed=False)
        return str(got.status)
    must_be_ok(got)
    own(got.body, marker, needed=True)
    if got.fields.get("content-type") == "text/event-stream" and not got.body.endswith(b"data: [DONE]\n\n"):
        return "200 with an error event"
    return "200"


def _unanswered(broken: Broken) -> str:
    raise Wrong(f"not a byte of an answer: {broken}") from broken


async def _answer(line: Line, what: str) -> Got:
    try:
        return await line.answer()
    except Broken as broken:
        raise Wrong(f"{what}: not answered: {broken}") from broken


#: By name: the act, how many do it at once, seconds between two acts of one (mean).
SPOILERS: dict[str, tuple[Act, int, float]] = {
    "leaves while asking": (leaves_while_asking, 3, 0.05),
    "leaves while answered": (leaves_while_answered, 3, 0.05),
    "leaves at some time": (leaves_at_some_time, 3, 0.05),
    "never reads": (never_reads, 2, 0.5),
    "never ends its request": (never_ends_its_request, 3, 0.5),
    "speaks nonsense": (speaks_nonsense, 1, 0.2),
    "bad handshake": (bad_handshake, 4, 0.1),
    "says nothing": (says_nothing, 1, 0.5),
    "bad token": (bad_token, 3, 0.03),
    "not allowed": (not_allowed, 1, 0.05),
    "failing backends": (of_failing_backends, 6, 0.05),
}

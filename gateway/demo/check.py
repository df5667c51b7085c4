"""Make the printed calls and say of each whether it did what it should.

Knows: running a tool, the same request by hand. Must not know: how the demo was started, what the calls mean.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shutil
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from gateway.demo.calls import Call, Desk, Request

#: How long one call may take, in seconds; importing a client library takes most of it on a busy machine.
CALL_WITHIN = 20.0
#: Calls made at the same time: client libraries take long to import, and a small machine has two cores.
AT_ONCE = 3
#: How much of an answer that is not as it should be is shown, in characters.
SHOWN = 400
#: Answers in the demo are small; nobody has to read more than this, in bytes.
MOST = 1024 * 1024

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`how` is the tool, or that the request was made by hand; `lacks` is the first pattern that was not found."""

    how: str
    output: str
    lacks: str | None


def has(tool: str) -> bool:
    """Whether a tool is on this machine, for this Python."""
    return shutil.which("curl") is not None if tool == "curl" else importlib.util.find_spec(tool) is not None


async def check(calls: list[Call], desk: Desk, say: Say, has: Callable[[str], bool] = has) -> bool:
    """Make all calls, a few at a time, and report in their order; True if each did what it should."""
    places = asyncio.Semaphore(AT_ONCE)

    async def in_turn(call: Call) -> Verdict:
        async with places:
            return await judge(call, desk, by_hand=not has(call.tool))

    good = True
    async with asyncio.TaskGroup() as group:
        judged = [(call, group.create_task(in_turn(call))) for call in calls]
        for call, verdict in judged:
            good = _reported(call, await verdict, say) and good
    return good


def _reported(call: Call, verdict: Verdict, say: Say) -> bool:
    word = "ok    " if verdict.lacks is None else "FAILED"
    say(f"  {word} {call.title} ({verdict.how})")
    if verdict.lacks is not None:
        say(f"         missing /{verdict.lacks}/ in: {verdict.output[-SHOWN:]!r}")
    return verdict.lacks is None


async def judge(call: Call, desk: Desk, *, by_hand: bool) -> Verdict:
    """Make one call and compare."""
    try:
        async with asyncio.timeout(CALL_WITHIN):
            output = await (_by_hand(call.request, desk) if by_hand else _with_tool(call))
    except TimeoutError:
        output = f"no answer within {CALL_WITHIN:.0f} s"
    except (aiohttp.ClientError, OSError) as error:
        output = f"{type(error).__name__}: {error}"
    how = f"by hand, as {call.tool} is not installed here" if by_hand else call.tool
    patterns = call.answers if by_hand else call.shows
    lacks = next((pattern for pattern in patterns if not re.search(pattern, output, re.MULTILINE)), None)
    return Verdict(how, output, lacks)


async def _with_tool(call: Call) -> str:
    """What the printed text prints when it is run."""
    command = ("sh", "-c", call.text) if call.tool == "curl" else (sys.executable, "-c", call.text)
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output[:MOST].decode("utf-8", "replace").replace("\r\n", "\n")
    return text if process.returncode == 0 else f"exit code {process.returncode}: {text[-SHOWN:]}"


async def _by_hand(request: Request, desk: Desk) -> str:
    """Status line, fields and body of the answer, as `curl -i` shows them."""
    trust = ssl.create_default_context(cafile=desk.ca)
    headers = {} if request.token is None else {"Authorization": f"Bearer {request.token.read_text(encoding='ascii')}"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(request.method, request.url, json=request.body, headers=headers, ssl=trust) as answer,
    ):
        fields = "".join(f"{name}: {value}\n" for name, value in answer.headers.items())
        body = (await answer.content.read(MOST)).decode("utf-8", "replace")
        while piece := await answer.content.read(MOST):
            body = (body + piece.decode("utf-8", "replace"))[:MOST]
        return f"HTTP/1.1 {answer.status}\n{fields}\n{body}"

"""The demo from start to end: bring everything up, print the calls, then wait or check.

Knows: the order of things. Must not know: how any of them is done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gateway import devcerts
from gateway.demo.calls import ALLOWED, REFUSED, Desk, all_calls, as_printed
from gateway.demo.check import check, has
from gateway.demo.children import Child, Family, PartFailed, family
from gateway.demo.layout import MODELS, Parts, Places, keep_token, places, write
from gateway.demo.ready import token_for, until_ready
from gateway.simulate.idp_accounts import kept

HOST = "127.0.0.1"
CLIENT = "demo-client"
#: Tokens of the demo last a working day, in seconds, so that what was pasted once works until the evening.
TOKEN_LIFETIME = 12 * 3600
COULD_NOT, FAILED = 2, 1

Say = Callable[[str], None]
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for. `seconds`: check the printed calls within that time and end; None: run until stopped."""

    port: int
    seconds: float | None
    here: Path


def run(wish: Wish, say: Say, complain: Say) -> int:
    """Run the demo. 0: stopped, or all checked well; 1: a call or a part failed; 2: it could not start."""
    try:
        return asyncio.run(_demo(wish, say))
    except PartFailed as failed:
        complain(f"demo: {failed}")
        return FAILED
    except OSError as error:
        complain(f"demo: {error}")
        return COULD_NOT


async def _demo(wish: Wish, say: Say) -> int:
    main = asyncio.current_task()
    assert main is not None  # noqa: S101  asyncio.run gave this coroutine a task

    def stop() -> None:
        if not main.cancelling():  # a second Ctrl-C must not interrupt the stopping
            main.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    port = _free(wish.port)
    where = places(wish.here, port)
    try:
        async with family() as children:
            desk = await _started(children, where, port, say)
            for line in printed(desk):
                say(line)
            return await _watched(children.members, lambda: _rest(wish, desk, say))
    except asyncio.CancelledError:
        say("\nstopped")
        return 0 if wish.seconds is None else FAILED


async def _started(children: Family, where: Places, port: int, say: Say) -> Desk:
    """Start all parts, the gateway last, and wait until it is ready."""
    paths = devcerts.make(where.certificates)
    say(f"certificates in {where.certificates} (authority: {paths.ca})")
    where.accounts.unlink(missing_ok=True)  # fresh secrets each time
    where.audit.unlink(missing_ok=True)  # as the logs
    simulated = {
        name: await children.start(name, where.log(name), "simulate", *arguments, "--host", HOST, "--port", "0")
        for name, arguments in _simulated(where).items()
    }
    urls = {name: await child.address() for name, child in simulated.items()}
    for name, url in urls.items():
        say(f"simulated {name} at {url}")
    nims = tuple(url for name, url in urls.items() if name.startswith("nim"))
    parts = Parts(nims, urls["triton"], urls["idp"], port, _free(0))
    await _sign_in(where, parts.issuer)
    write(where, parts, paths.certificate, paths.key)
    say(f"configuration in {where.config}, audit lines in {where.audit}")
    config = str(where.config)
    gateway = await children.start("gateway", where.log("gateway"), "serve", "--config", config, announces=False)
    base = f"https://localhost:{port}"
    await _watched([gateway], lambda: until_ready(base, paths.ca))
    say(f"gateway ready at {base}; its management pages are at http://{HOST}:{parts.management}")
    return Desk(base, paths.ca, where)


def _simulated(where: Places) -> dict[str, tuple[str, ...]]:
    """Each simulated part and its arguments."""
    models = tuple(word for model in MODELS for word in ("--model", model))
    return {
        "nim-1": ("nim", "--name", "nim-1", *models),
        "nim-2": ("nim", "--name", "nim-2", *models),
        "triton": ("triton",),
        "idp": ("idp", "--accounts", str(where.accounts), "--lifetime", str(TOKEN_LIFETIME)),
    }


async def _sign_in(where: Places, issuer: str) -> None:
    accounts = kept(where.accounts)
    client = accounts.clients[CLIENT]
    for name in (ALLOWED, REFUSED):
        user = accounts.users[name]
        token = await token_for(issuer, (client.name, client.secret), (user.name, user.secret))
        keep_token(where, name, token)


def printed(desk: Desk) -> list[str]:
    """The calls, ready to paste, under a heading for each tool."""
    lines = [
        "",
        f"{ALLOWED} (data-science) may use every model, {REFUSED} (guests) may only embed;",
        f"their tokens are in {desk.token(ALLOWED)} and {desk.token(REFUSED)}.",
    ]
    tool = ""
    for call in all_calls(desk):
        if call.tool != tool:
            tool = call.tool
            lines += ["", f"----- {_heading(tool)}"]
        lines += ["", f"# {call.title}", as_printed(call, _python(tool))]
    return lines


def _heading(tool: str) -> str:
    if tool == "curl" or has(tool):
        return tool
    wanted = {"tritonclient": "'tritonclient[http]'"}.get(tool, tool)
    return f"{tool} (first: pip install {wanted})"


def _python(tool: str) -> str:
    return sys.executable if has(tool) else "python3"


async def _rest(wish: Wish, desk: Desk, say: Say) -> int:
    if wish.seconds is None:
        say("\nCtrl-C stops it all.")
        await asyncio.Event().wait()  # the one wait without a limit: the user ends it
    say("\nchecking the calls above:")
    try:
        async with asyncio.timeout(wish.seconds):
            good = await check(all_calls(desk), desk, say)
    except TimeoutError:
        say(f"FAILED: not done within {wish.seconds:g} s")
        return FAILED
    say("all did what they should" if good else "FAILED: see above")
    return 0 if good else FAILED


async def _watched(children: list[Child], work: Callable[[], Awaitable[Done]]) -> Done:
    """Do `work` while the children live. Raises `PartFailed` when one of them ends."""
    try:
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(child.watch()) for child in children]
            result = await work()
            for watcher in watchers:
                watcher.cancel()
    except* PartFailed as failed:
        raise failed.exceptions[0] from None
    return result


def _free(port: int) -> int:
    """`port` if nobody has it, any free one for 0. Raises OSError in words for a user."""
    try:
        with socket.create_server((HOST, port)) as probe:
            return int(probe.getsockname()[1])
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise OSError(f"port {port}: {why}; choose another one with DEMO_PORT=8444 or --port 8444") from None

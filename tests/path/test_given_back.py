"""What is over is given back at once. Left to the collector it would pile up, each with a quarter of a MiB for TLS.

Only what refers to itself in a circle waits for the collector, which is off here, and comes seldom in service.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvloop

from gateway import app, generation
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.devcerts import Paths
from gateway.doors.body import IncomingBody
from gateway.doors.connection import ClientConnection
from gateway.doors.reply import HttpReply
from gateway.fetch import Fetch
from gateway.generation import Lasting
from gateway.http1.answers import AnswerReader
from gateway.http1.requests import RequestReader
from gateway.identity.passwords.throttle import Throttle
from gateway.policy.engine import Policy
from gateway.pools.backends import Backend
from gateway.resolve.resolver import HttpResolver
from gateway.wires.connection import Connection
from tests.identity.provider import Provider
from tests.identity.signers import ec_signer
from tests.parts import scripts
from tests.parts.client import trusting
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.process import wait_until
from tests.parts.scripts import Script, Then
from tests.parts.stub import Request, Stub

OF_A_CALL = (ClientConnection, RequestReader, IncomingBody, HttpReply, Connection, AnswerReader)
OF_A_GENERATION = (Policy, HttpResolver, Backend)
BODY = b'{"model":"m","user":"%s"}'
#: What the stub does, by the word that a body has for it.
SCRIPTS: dict[bytes, Script] = {
    b"whole": scripts.sized(b"{}", 200, "Connection: close"),
    b"kept": scripts.sized(b"{}"),
    b"chunks": scripts.chunked([b"a", b"b"], end=(scripts.LAST_CHUNK, Then.CLOSE)),
    b"reset": (Then.RESET,),
    b"truncated": scripts.cut(b"{", 9),
    b"events": scripts.sse(scripts.events(1000), 0.01),
    b"nonsense": (b"nonsense\r\n\r\n", Then.CLOSE),
}


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alive(kinds: tuple[type, ...]) -> Counter[str]:
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in kinds)


def answer(request: Request) -> Script:
    return next((script for word, script in SCRIPTS.items() if word in request.body), SCRIPTS[b"whole"])


def asked(token: str, word: bytes) -> bytes:
    body = BODY % word
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def ways(token: str) -> dict[str, tuple[bytes, int]]:
    """What a caller sends, and after how many bytes of the answer he leaves."""
    ways = {word.decode(): (asked(token, word), 1) for word in SCRIPTS}
    return ways | {
        "leaves in his head": (asked(token, b"whole")[:40], 0),
        "leaves in his body": (asked(token, b"whole")[:-3], 0),
        "a bad token": (asked(f"{token[:-9]}AAAAAAAAA", b"whole"), 1),
        "another model": (asked(token, b"whole").replace(b'"m"', b'"n"'), 1),
        "no HTTP": (b"what is this?\r\n\r\n", 1),
        "no bytes": (b"\x00\r\n\r\n", 1),
        "two at once": (asked(token, b"chunks") + asked(token, b"events"), 1),
    }


async def call(port: int, tls: ssl.SSLContext, sent: bytes, wanted: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
    writer.write(sent)
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await reader.readexactly(wanted)
    writer.transport.abort()


async def no_more_than(before: Counter[str], kinds: tuple[type, ...], name: str) -> None:
    end = time.monotonic() + 20
    while not alive(kinds) <= before:
        assert time.monotonic() < end, f"{name}: left is {alive(kinds)}"
        await asyncio.sleep(0.05)


async def serving(folder: Path, certificates: Paths, story: Callable[[Gateway, str], Awaitable[None]]) -> None:
    """The gateway on this loop, and the story of its callers."""
    key = ec_signer("given-back")
    async with Provider(key.jwk()) as provider:
        with Stub(answer) as stub:
            rules = [allow("all", ["m"])]
            gateway = Gateway(
                folder, certificates, [oidc(provider.issuer)], [pool("p", ["m"], stub.url)], rules, start=False,
                audit={"file": str(folder / "audit.jsonl")}, limits={"timeouts": {"pre_stop": "1ms", "drain": "1s"}},
            )  # fmt: skip
            claims = {"iss": provider.issuer, "sub": "a", "aud": "nim-gateway", "exp": int(time.time()) + 900}
            service = asyncio.create_task(app.serve(gateway.config_file, None))
            try:
                await asyncio.to_thread(
                    wait_until, lambda: service.done() or gateway.readiness() == 200, 30, "readiness"
                )
                await story(gateway, key.sign(claims | {"groups": ["data-science"]}, typ="at+jwt"))
            finally:
                os.kill(os.getpid(), signal.SIGTERM)  # to the loop's handler, which the gateway has set
                await service


def test_a_call_and_its_connections_leave_nothing_behind_however_they_end(tmp_path: Path, certificates: Paths) -> None:
    async def story(gateway: Gateway, token: str) -> None:
        tls = trusting(gateway.ca)
        before = alive(OF_A_CALL)
        for name, (sent, wanted) in ways(token).items():
            for _ in range(3):
                await call(gateway.port, tls, sent, wanted)
            await no_more_than(before, OF_A_CALL, name)

    with no_collector():
        uvloop.run(serving(tmp_path, certificates, story))


def test_a_backend_that_a_reload_replaced_is_gone_with_its_last_connection(tmp_path: Path, certificates: Paths) -> None:
    """Also where the last connection to it broke: what was kept of it then is an empty list."""

    async def story(gateway: Gateway, token: str) -> None:
        tls = trusting(gateway.ca)
        counts = []
        for number in range(4):
            for word in (b"kept", b"reset"):
                await call(gateway.port, tls, asked(token, word), 1)
            status = await asyncio.to_thread(gateway.status)
            gateway.write_rules([allow("all", ["m"]), allow(f"more-{number}", ["m"])])
            await asyncio.to_thread(reloaded, gateway, status["generation"])
            gc.collect()  # what the tasks of the probes hold goes in a circle when they are cancelled
            counts.append(alive(OF_A_GENERATION)["Backend"])
        assert counts[-1] <= counts[0] + 1, counts

    with no_collector():
        uvloop.run(serving(tmp_path, certificates, story))


def reloaded(gateway: Gateway, generation: int) -> None:
    wait_until(lambda: gateway.status()["generation"] > generation, 20, "a reload")


async def test_what_a_reload_replaced_is_gone(tmp_path: Path, certificates: Paths) -> None:
    gateway = Gateway(
        tmp_path, certificates, [oidc("http://127.0.0.1:9")], [pool("p", ["m"], "http://127.0.0.1:9")],
        [allow("all", ["m"])], start=False,
    )  # fmt: skip
    with no_collector():
        async with Fetch() as fetch:
            throttle = Throttle(time.monotonic, lambda _: None, lambda *_: None)
            lasting = Lasting(fetch, Tallies(), Admission(), throttle, {}, lambda _: None, lambda: True, lambda _: None)
            now = generation.build(generation.read(gateway.config_file, None), lasting, None)
            one = alive(OF_A_GENERATION)
            for _ in range(3):
                now = generation.build(generation.read(gateway.config_file, None), lasting, now)
            assert alive(OF_A_GENERATION) == one

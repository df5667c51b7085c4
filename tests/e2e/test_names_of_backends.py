"""Backends that are known by a name: one that moves, one with several addresses, one in IPv6."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway import generation
from gateway.devcerts import Paths
from gateway.wires import connection
from tests.conftest import StartGateway, Token
from tests.e2e.here import here, until
from tests.parts import scripts
from tests.parts.client import Answer
from tests.parts.gateway import Config, Gateway, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.scripts import Then
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
NAME = "nim.test"
OLD, NEW, DEAD = "127.0.0.2", "127.0.0.3", "127.0.0.4"


class Resolver:
    """The system's, but `NAME` has the addresses that the test says."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0
        self._system: Callable[..., Any] = loop.getaddrinfo

    async def getaddrinfo(self, host: str, port: int, **more: Any) -> Any:
        if host != NAME:
            return await self._system(host, port, **more)
        self.asked += 1
        return [_found(address, port) for address in self.addresses]


def _found(address: str, port: int) -> tuple[object, ...]:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


@pytest.fixture
async def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    loop = asyncio.get_running_loop()
    made = Resolver(loop)
    monkeypatch.setattr(loop, "getaddrinfo", made.getaddrinfo)
    return made


Asking = Callable[[], Any]


@pytest.fixture
def behind(tmp_path: Path, certificates: Paths, openid: OpenIdProvider, token: Token) -> Callable[[Config], Any]:
    """`async with behind(pool) as ask`: a gateway in this process; `await ask()` is a call of alice's."""

    @asynccontextmanager
    async def run(wanted: Config) -> AsyncIterator[Asking]:
        timeouts = {"timeouts": {"connect": "1s", "pre_stop": "1ms", "drain": "1ms"}}
        audit = {"file": str(tmp_path / "audit.jsonl")}
        issuers, rules = (
            [oidc(openid.issuer)],
            [{"id": "all", "effect": "allow", "subjects": {"users": ["alice"]}, "models": ["**"]}],
        )
        files = Gateway(tmp_path, certificates, issuers, [wanted], rules, start=False, limits=timeouts, audit=audit)

        async def ask() -> Answer:
            bearer = await asyncio.to_thread(token, "alice")
            return await asyncio.to_thread(files.ask, "POST", CHAT, body={"model": "m"}, token=bearer)

        async with here(generation.read(files.config_file, None), files.config_file) as running:
            await until(lambda: running.status()["pools"]["nim"][0]["health"] == "up", 10)
            yield ask

    return run


async def test_a_backend_that_moved_is_followed_while_its_old_address_still_answers(
    resolver: Resolver, behind: Callable[[Config], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B021: under constant traffic a connection is never idle, so its age has a limit."""
    monkeypatch.setattr(connection, "AGE_LIMIT", 0.5)
    resolver.addresses = (OLD,)
    with Stub(host=OLD) as before, Stub(host=NEW, port=before.port) as after:
        async with behind(pool("nim", ["m"], f"http://{NAME}:{before.port}")) as ask:
            for _ in range(10):
                assert (await ask()).status == 200
            assert (len(before.requests), len(after.requests)) == (10, 0)
            assert before.connections - len(before.probes) < 10  # they are kept
            resolver.addresses = (NEW,)
            async with asyncio.timeout(20):
                while not after.requests:
                    assert (await ask()).status == 200
            stayed = len(before.requests)
            for _ in range(10):
                assert (await ask()).status == 200
    assert len(before.requests) == stayed


@pytest.mark.parametrize("order", [(DEAD, NEW), (NEW, DEAD)])
async def test_a_refused_address_costs_no_caller_an_error_where_the_name_has_another(
    resolver: Resolver, behind: Callable[[Config], Any], order: tuple[str, str]
) -> None:
    """B021."""
    resolver.addresses = order
    with Stub(host=NEW) as stub:
        async with behind(pool("nim", ["m"], f"http://{NAME}:{stub.port}")) as ask:
            assert [(await ask()).status for _ in range(3)] == [200] * 3
    assert {request.values("host")[0] for request in stub.requests} == {f"{NAME}:{stub.port}"}


async def test_a_silent_address_costs_no_caller_an_error_where_the_name_has_others(
    resolver: Resolver, behind: Callable[[Config], Any], certificates: Paths
) -> None:
    """B021: a machine that hangs takes part of the time for connecting, not all; and only once in a while."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    with (
        Stub((*scripts.sized(), Then.CLOSE), host=NEW, tls=context) as stub,
        socket.create_server((DEAD, stub.port)) as silent,
    ):
        tls = {"ca": str(certificates.ca), "server_name": "localhost"}
        backends = [{"url": f"https://{NAME}:{stub.port}", "tls": tls}]
        resolver.addresses = (NEW,)
        async with behind(pool("nim", ["m"], backends=backends, health={"interval": "1h", "fall": 100})) as ask:
            resolver.addresses = (DEAD, NEW)
            assert [(await ask()).status for _ in range(5)] == [200] * 5
        silent.setblocking(False)
        assert count_of(silent) == 1


def count_of(server: socket.socket) -> int:
    """How many connections wait to be accepted."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


def test_a_backend_in_ipv6_is_reached_and_named_in_brackets(start_gateway: StartGateway, token: Token) -> None:
    """B021, RFC 3986 §3.2.2."""
    with Stub(host="::1") as stub:
        gateway = start_gateway([pool("nim", ["m"], f"http://[::1]:{stub.port}")])
        gateway.backends_up("nim", 1)
        assert gateway.ask("POST", CHAT, body={"model": "m"}, token=token("alice")).status == 200
    for request in (*stub.requests, stub.probes[0]):
        assert request.values("host") == [f"[::1]:{stub.port}"]


async def test_a_name_with_an_address_in_ipv6_alone_is_reached(
    resolver: Resolver, behind: Callable[[Config], Any]
) -> None:
    """B021."""
    resolver.addresses = ("::1",)
    with Stub(host="::1") as stub:
        async with behind(pool("nim", ["m"], f"http://{NAME}:{stub.port}")) as ask:
            assert (await ask()).status == 200
    assert stub.requests[0].values("host") == [f"{NAME}:{stub.port}"]

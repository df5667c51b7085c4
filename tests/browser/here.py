"""The pages behind TLS, with all that they ask of a gateway in the hands of a test.

Knows: the application, its services. Must not know: a gateway; the tests in `tests/e2e` have the whole.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import urlencode

from aiohttp import web

from gateway.call import Principal
from gateway.devcerts import Paths
from gateway.errors import LoginThrottled
from gateway.identity.contracts import BrowserLogin, Directory
from gateway.identity.refused import BadLogin, Result
from gateway.identity.tokens.own import Minted, NotMinted
from gateway.portal import application
from gateway.portal.services import Granted
from tests.parts.client import Answer, ask
from tests.parts.process import free_port

START_LIMIT = 20.0
#: What Chromium says of a form that a page of ours sends.
FROM_HERE = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}


@dataclass
class People:
    """A directory of people, by name: password and groups. `trouble` is raised instead of an answer."""

    people: dict[str, tuple[str, frozenset[str]]]
    name: str = "staff"
    trouble: Exception | None = None
    asked: list[str] = field(default_factory=list)

    async def log_in(self, name: str, password: str, peer: str) -> Principal:
        self.asked.append(peer)
        if self.trouble is not None:
            raise self.trouble
        if (known := self.people.get(name)) is None or known[0] != password:
            raise BadLogin(Result.BAD_PASSWORD)
        return Principal(name, f"ldap:{self.name}", self.name, known[1])

    async def log_in_if_known(self, name: str, password: str, peer: str) -> Principal | None:
        return await self.log_in(name, password, peer) if name in self.people else None

    async def groups_of(self, subject: str) -> frozenset[str]:
        return self.people[subject][1]

    async def renewed(self, principal: Principal) -> Principal:
        if self.trouble is not None:
            raise self.trouble
        if principal.subject not in self.people:
            raise BadLogin(Result.REFUSED_ACCOUNT)
        return replace(principal, groups=self.people[principal.subject][1])


@dataclass
class Around:
    """The services of the pages, as a test wants them."""

    public_url: str = ""
    directories: Sequence[Directory] = ()
    logins: Sequence[BrowserLogin] = ()
    secrets: Sequence[bytes] = (b"s" * 32,)
    models: Sequence[Granted] = ()
    mints: bool = True
    revoked: set[str] = field(default_factory=set)
    minted: list[Principal] = field(default_factory=list)

    def still(self, principal: Principal) -> bool:
        return principal.subject not in self.revoked

    async def renewed(self, principal: Principal) -> Principal:
        for directory in self.directories:
            principal = await directory.renewed(principal)
        return principal

    def mint(self, principal: Principal) -> Minted:
        if not principal.groups_known:
            raise NotMinted("Your groups are not known, so no token can carry them.")
        self.minted.append(principal)
        return Minted(f"token-{len(self.minted)}-of-{principal.subject}", 3600.0, f"jti-{len(self.minted)}")

    def key_set(self) -> dict[str, object]:
        return {"keys": []}

    def granted(self, principal: Principal, peer: str) -> Sequence[Granted]:
        return self.models if "data-science" in principal.groups else ()


class Site:
    """The application on a TLS port of this machine, in a loop of its own beside the test; `closing` ends with it."""

    def __init__(self, services: Around, certificates: Paths) -> None:
        self.services = services
        self.ca = certificates.ca
        self.port = free_port()
        self.url = services.public_url = f"https://localhost:{self.port}"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates.certificate, certificates.key)
        self.closing: Sequence[Callable[[], Awaitable[None]]] = ()
        self._started: Future[None] = Future()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(START_LIMIT)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join(START_LIMIT)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(over.set)
        runner = web.AppRunner(application.make(self.services), shutdown_timeout=0.1)
        try:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._context).start()
            self._started.set_result(None)
            await over.wait()
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise
        finally:
            await _end(runner)
            for close in self.closing:
                await close()

    def ask(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        return ask(self.url, method, path, body=body, headers=headers, ca=self.ca)


async def _end(runner: web.AppRunner) -> None:
    """Without waiting for browsers, which keep their connections open and do not say goodbye in TLS."""
    lines = [each.transport for each in runner.server.connections] if runner.server else []
    await runner.cleanup()
    for line in lines:
        if line is not None:
            line.abort()
    await asyncio.sleep(0)


class Visitor:
    """A browser as far as cookies and forms go, for what no real one would do."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Answer:
        return self._kept(self.site.ask("GET", path, headers=self._headers(headers)))

    def post(self, path: str, form: Mapping[str, str], headers: Mapping[str, str] = FROM_HERE) -> Answer:
        return self._kept(self.site.ask("POST", path, body=urlencode(form).encode(), headers=self._headers(headers)))

    def guard(self, path: str = "/ui/") -> str:
        """What the forms of a page carry."""
        return self.get(path).body.decode().split('name="guard" value="')[1].split('"')[0]

    def log_in(self, name: str, password: str) -> Answer:
        return self.post("/auth/login", {"guard": self.guard(), "name": name, "password": password})

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {**more, **({"Cookie": cookies} if cookies else {})}

    def _kept(self, answer: Answer) -> Answer:
        for name, value in answer.fields:
            if name == "set-cookie":
                pair, *_ = value.split(";")
                key, _, content = pair.partition("=")
                self.cookies[key] = content
                if "max-age=0" in value.lower().replace(" ", ""):
                    del self.cookies[key]
        return answer


def throttled(seconds: int) -> LoginThrottled:
    return LoginThrottled(retry_after=seconds)

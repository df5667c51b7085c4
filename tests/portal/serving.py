"""The pages, as the relay asks them; behind them services with people in a table."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from gateway.call import Principal
from gateway.errors import Refusal
from gateway.identity.contracts import BrowserLogin
from gateway.identity.refused import BadLogin, Result
from gateway.identity.signatures.signing import own_keys
from gateway.identity.tokens.own import Minted, OwnTokens
from gateway.portal.application import make
from gateway.portal.listening import Listening
from gateway.portal.services import Granted
from tests.identity.pems import pem, private

EPOCH = 1_900_000_000.0
URL = "https://gw.test"
#: Bytes of a request's head that a gateway takes as it comes.
HEADER = 32 * 1024


class People:
    """A directory for a test: who it knows, or what it raises instead. The real ones are in tests/identity."""

    def __init__(self, name: str, passwords: Mapping[str, str], raises: Callable[[], Refusal] | None = None) -> None:
        self._name = name
        self.passwords = dict(passwords)
        self.raises = raises
        self.groups = frozenset({f"of-{name}"})
        self.asked: list[tuple[str, str]] = []

    @property
    def name(self) -> str:
        return self._name

    async def log_in(self, name: str, password: str, peer: str) -> Principal:
        self.asked.append((name, peer))
        if self.raises is not None:
            raise self.raises()
        if self.passwords.get(name) != password:
            raise BadLogin(Result.BAD_PASSWORD)
        return Principal(name.lower(), f"ldap:{self.name}", self.name, self.groups)

    async def log_in_if_known(self, name: str, password: str, peer: str) -> Principal | None:
        if self.raises is None and name not in self.passwords:
            return None
        return await self.log_in(name, password, peer)

    async def groups_of(self, subject: str) -> frozenset[str]:
        return frozenset()

    async def renewed(self, principal: Principal) -> Principal:
        return principal


@dataclass
class Site:
    """What the pages ask for. `now` is the clock of the tokens."""

    directories: Sequence[People] = ()
    mints: bool = True
    public_url: str = URL
    now: float = EPOCH
    lifetime: float = 3600.0
    logins: Sequence[BrowserLogin] = ()
    secrets: Sequence[bytes] = (b"of a test",)
    own: OwnTokens = field(init=False)

    def __post_init__(self) -> None:
        providers = {f"ldap:{one.name}": one.name for one in self.directories}
        keys = own_keys(pem(private("ES256")) + pem(private("EdDSA")))
        self.own = OwnTokens(keys, self.public_url, self.lifetime, providers, lambda: self.now, lambda who: who)

    async def renewed(self, principal: Principal) -> Principal:
        return principal

    def mint(self, principal: Principal) -> Minted:
        return self.own.mint(principal)

    def key_set(self) -> dict[str, object]:
        return self.own.key_set()

    def still(self, principal: Principal) -> bool:
        return True

    def granted(self, principal: Principal, peer: str) -> Sequence[Granted]:
        return ()


@dataclass(frozen=True)
class Page:
    """An answer. `fields` by lower-case name."""

    status: int
    fields: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Relay:
    """Asks the application as the gateway's relay does."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(
        self, method: str, path: str, body: bytes = b"", also: Sequence[tuple[str, str]] = (), **fields: str
    ) -> Page:
        """`fields` by name with `_` for `-`; `also`: more of them, which may repeat a name."""
        named = [(name.replace("_", "-"), value) for name, value in fields.items()]
        fixed = [("X-Forwarded-For", "10.1.2.3"), ("X-Request-Id", "0" * 31 + "7")]
        url, sent = f"http://pages{path}", [*fixed, *named, *also]
        async with self._session.request(method, url, data=body or None, headers=sent) as answer:
            answered = {name.lower(): value for name, value in answer.headers.items()}
            return Page(answer.status, answered, await answer.read())


class Pairs(aiohttp.BaseConnector):
    """Connections that the pages open themselves, since no name leads to them."""

    def __init__(self, listening: Listening) -> None:
        super().__init__()
        self._listening = listening

    async def _create_connection(self, *_given: object) -> ResponseHandler:
        sock = await self._listening.dial()
        made = await self._loop.create_connection(lambda: ResponseHandler(self._loop), sock=sock)
        return made[1]


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[Relay]:
    """The pages of `site`, listening."""
    listening = Listening(make(site), HEADER)
    await listening.open()
    try:
        async with aiohttp.ClientSession(connector=Pairs(listening)) as session:
            yield Relay(session)
    finally:
        await listening.close()

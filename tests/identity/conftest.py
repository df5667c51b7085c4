"""The bench of the identity tests: a provider on loopback, clocks that move when told, and all that is behind them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.address import own_urls
from gateway.call import Call, Channel, Fields, Principal
from gateway.errors import Unidentified
from gateway.fetch import Fetch
from gateway.identity.provider.keys import KeySet
from gateway.identity.tokens.dpop import Proofs, Seen
from gateway.identity.tokens.identity import BearerIdentity
from gateway.identity.tokens.oidc import OidcBearer
from gateway.identity.tokens.possession import Possession
from gateway.settings import Listen, OidcIssuer, ServerTls
from tests.identity.proofs import NAMES
from tests.identity.provider import Provider
from tests.identity.signers import Mint, rsa_signer

EPOCH = 1_900_000_000.0

_TLS = ServerTls(Path("certificate"), Path("key"))
#: Where the gateway is reached: what its certificate names.
GATEWAY = own_urls(Listen(_TLS), NAMES)
#: The same where it is configured.
CONFIGURED = own_urls(Listen(_TLS, public_url="https://ai.example.com/gw"), NAMES)


def call_with(*fields: tuple[bytes, bytes]) -> Call:
    return Call("1", Channel.HTTP, "POST", "/v1/chat/completions", None, tuple(fields), "127.0.0.1", 0.0)


def bearing(token: str) -> Call:
    return call_with((b"host", b"gw.test"), (b"authorization", b"Bearer " + token.encode("latin-1")))


class Clock:
    """Seconds that pass when told."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


class Bench(Mint):
    """One provider, one gateway-side identity; `wall` and `steady` are their clocks."""

    def __init__(self, provider: Provider, fetch: Fetch) -> None:
        super().__init__(provider.issuer, rsa_signer("k1"), EPOCH)
        self.provider = provider
        self.fetch = fetch
        self.wall = Clock(EPOCH)
        self.steady = Clock(1000.0)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.settings = OidcIssuer(name="corp", issuer=provider.issuer, audience=("gw",))
        self.rebuild()

    def rebuild(self, remembered: int = 10_000, **settings: Any) -> None:
        """Start anew with other settings, as a reload does."""
        self.settings = replace(self.settings, **settings)
        self.keys = KeySet(self.settings, self.fetch, self.steady, chance=lambda: 0.0)
        self.issuer = OidcBearer(self.settings, self.keys, self.wall)
        self.possession = Possession(Proofs(Seen(self.steady), self.wall, GATEWAY))
        self.identity = BearerIdentity(
            [self.issuer], self.wall, self.count, possession=self.possession, remembered=remembered
        )

    def count(self, provider: str, result: str) -> None:
        self.counts[provider, result] += 1

    async def identify(self, token: str) -> Principal:
        principal = await self.identity.identify(bearing(token))
        assert principal is not None
        return principal

    async def refused(self, token: str) -> str:
        """The reason why the token is refused, as counted. Fails if it is not refused the way clients rely on."""
        with pytest.raises(Unidentified) as caught:
            await self.identity.identify(bearing(token))
        assert caught.value.status == 401
        assert b'error="invalid_token"' in challenge(caught.value.headers)
        return caught.value.detail.split(" ")[0]

    @property
    def fetches(self) -> int:
        return self.provider.hits["keys"]


def challenge(headers: Fields) -> bytes:
    return b", ".join(value for name, value in headers if name == b"www-authenticate")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A provider that publishes `k1`, fetched once."""
    async with Provider(rsa_signer("k1").jwk()) as provider, Fetch() as fetch:
        bench = Bench(provider, fetch)
        await bench.keys.refresh()
        yield bench


@pytest.fixture
async def cold() -> AsyncIterator[Bench]:
    """A gateway that has not asked its provider yet."""
    async with Provider(rsa_signer("k1").jwk()) as provider, Fetch() as fetch:
        yield Bench(provider, fetch)


Start = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Run something beside the test, and end it with the test."""
    tasks: list[asyncio.Task[None]] = []

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.create_task(coroutine))

    yield run
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(true: Callable[[], bool]) -> None:
    """Wait until something has become so, with a deadline."""
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.002)

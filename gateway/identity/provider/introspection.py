"""Asking a provider about tokens (RFC 7662): each token once at a time, however many calls show it; and looking whether
it can be asked at all, once it told nothing about one of them.

Knows: when to ask, how many at once, what an outage is. Must not know: what claims mean, what is remembered.

The asking is done in tasks of the application; a call waits for a plain future, because its path is not a task
(docs/decisions/0001).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from gateway.errors import IdentityUnavailable
from gateway.fetch import Fetch, FetchFailed
from gateway.identity.contracts import Standing
from gateway.identity.provider.discovery import Discovery, Unusable
from gateway.identity.provider.oauth import Client, OddAnswer, introspected, introspection
from gateway.identity.signatures.jwt import Claims
from gateway.settings import KIB, OidcIssuer

# Discovery, waiting for a place and the question together; a caller waits a second longer at most.
ASK_SECONDS = 4.0
# Questions under way. Each has a connection of its own; real providers answer hundreds a second over as many.
AT_ONCE = 32
# Tokens that wait for an answer, and calls that wait for one; more are told to come back.
TOKENS_LIMIT = 1024
CALLS_LIMIT = 1024
ANSWER_LIMIT = 64 * KIB  # somebody in very many groups
# Looks in a row without an answer from which on only one caller at a time waits to see it for themselves.
TOLERATED = 2
# Seconds between two looks, and in which nobody asks again where to ask, once that could not be told.
PAUSE = 1.0
# The most between two looks; a provider that does not take the gateway for a client may lock it out for asking often.
LONG_PAUSE = 30.0
RETRY_SECONDS = 5

# What is looked with. Callers choose their tokens, and so which answers those get: none of them is an outage.
NOBODYS = "nim-gateway-asks-whether-it-may-ask"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the provider said: `claims` of an active token, None for another. `why`: it said nothing. `ours`: because it
    does not take the gateway for a client, which waiting does not mend."""

    claims: Claims | None = field(default=None, repr=False)
    why: str = ""
    ours: bool = False


class Introspector:
    """Asks the provider of `settings`; `key` is the content of the `private_key` there. `spawn` runs a task of the
    application, `steady` is a monotonic clock in seconds, `patience` bounds one question in seconds.

    Raises `ValueError` where the settings name nobody to ask, or the key cannot be used.
    """

    def __init__(
        self,
        settings: OidcIssuer,
        key: bytes | None,
        fetch: Fetch,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        steady: Callable[[], float],
        *,
        tls: ssl.SSLContext | None = None,
        patience: float = ASK_SECONDS,
    ) -> None:
        self.name = settings.name
        if settings.introspection is None:
            raise ValueError(f"nobody can be asked about tokens of {settings.name}: it has no introspection")
        self.asking = settings.introspection
        self._client = Client(settings.introspection, key)
        self._fetch = fetch
        self._spawn = spawn
        self._steady = steady
        self._tls = tls
        self._patience = patience
        self._discovery = Discovery(settings, fetch, tls, patience)
        self._endpoint: str | None = None
        self._finding = asyncio.Lock()
        self._lost = ""
        self._lost_until = float("-inf")
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting: dict[str, set[asyncio.Future[_Told]]] = {}
        self._calls = 0
        self._doubt = asyncio.Event()
        self._odd = ""
        self._odd_told = ""
        self._failures = 0
        self._reason = ""
        self._answered = steady()

    async def ask(self, token: str) -> Claims | None:
        """What the provider says of an active token, None for one that is not. May be awaited on the path of a call.

        Raises `IdentityUnavailable` when it cannot be asked, or says nothing of use.
        """
        told = await self._future(token)
        if told.why:
            raise self._unavailable(told.why)
        return told.claims

    async def try_out(self) -> str:
        """Asks about a token that nobody has. Why that told nothing, in a line; empty if all is well."""
        return (await self._look()).why

    async def _look(self) -> _Told:
        """As `try_out`; it counts as a failure of the provider unless somebody was answered meanwhile."""
        before = self._answered
        told = await self._question(NOBODYS, nullcontext())
        if told.why and self._answered == before:
            self._failed(told)
        return told

    async def run(self) -> None:
        """Once a question told nothing, look whether that was the provider or the token, until the provider answers.

        Until cancelled. Never raises for what a provider does.
        """
        while True:
            await self._doubt.wait()
            self._doubt.clear()
            told = await self._look()
            if self._failures:
                self._doubt.set()
            elif not told.why and self._odd != self._odd_told:
                self._odd_told = self._odd
                _log.warning("identity.introspection.odd issuer=%s reason=%r", self.name, self._odd)
            await asyncio.sleep(self._pause(told))

    def _pause(self, told: _Told) -> float:
        """Seconds to the next look: longer each time, and long where waiting does not mend it."""
        return LONG_PAUSE if told.ours else min(PAUSE * 2 ** max(0, self._failures - TOLERATED), LONG_PAUSE)

    def standing(self) -> Standing:
        """What it vouched for is asked about again after `positive` seconds."""
        outage = self._steady() - self._answered if self._failures else 0.0
        return Standing(self.name, self._failures < TOLERATED, outage, self.asking.positive)

    def _future(self, token: str) -> asyncio.Future[_Told]:
        if self._calls >= CALLS_LIMIT:
            raise self._unavailable("too many calls wait for introspection")
        calls = self._waiting.get(token)
        if calls is None:
            limit = 1 if self._failures >= TOLERATED else TOKENS_LIMIT
            if len(self._waiting) >= limit:
                raise self._unavailable(self._reason or "too many tokens are asked about")
            calls = self._waiting[token] = set()
            self._spawn(self._find_out(token))
        return self._joined(calls)

    def _joined(self, calls: set[asyncio.Future[_Told]]) -> asyncio.Future[_Told]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Told] = loop.create_future()
        # The task answers in time; the timer is for the case that it never ran.
        timer = loop.call_later(self._patience + 1, _settle, future, _Told(why="no answer in time"))
        calls.add(future)
        self._calls += 1

        def left(_: object) -> None:
            timer.cancel()
            calls.discard(future)
            self._calls -= 1

        future.add_done_callback(left)
        return future

    def _unavailable(self, why: str) -> IdentityUnavailable:
        return IdentityUnavailable(retry_after=RETRY_SECONDS, detail=f"introspection at {self.name}: {why}")

    async def _find_out(self, token: str) -> None:
        """Whatever happens, nobody is left waiting."""
        told = _Told(why="the question was given up")
        try:
            told = await self._question(token, self._places)
        finally:
            if told.why:
                self._odd = told.why
                self._doubt.set()
            for future in tuple(self._waiting.pop(token, ())):
                _settle(future, told)

    async def _question(self, token: str, place: AbstractAsyncContextManager[object]) -> _Told:
        """Never raises for what a provider does."""
        try:
            async with asyncio.timeout(self._patience), place:
                return await self._told(token)
        except TimeoutError:
            return _Told(why="no complete answer in time")
        except (FetchFailed, Unusable, OddAnswer) as error:
            return _Told(why=str(error), ours=isinstance(error, OddAnswer) and error.ours)
        except Exception:  # noqa: BLE001  a fault here would end the gateway for what a provider sent
            _log.exception("identity.introspection.fault issuer=%s", self.name)
            return _Told(why="a fault in reading the answer")

    async def _told(self, token: str) -> _Told:
        request = introspection(self._client, await self._place(), token)
        answer = await self._fetch.post(
            request.url, request.body, timeout=self._patience, limit=ANSWER_LIMIT, fields=request.fields, tls=self._tls
        )
        claims = introspected(answer)
        if self._failures:
            _log.info("identity.introspection.answers issuer=%s failures=%d", self.name, self._failures)
        self._failures, self._reason, self._answered = 0, "", self._steady()
        return _Told(claims)

    async def _place(self) -> str:
        """Where to ask; one question at a time finds that out. Raises `Unusable` or `FetchFailed`."""
        async with self._finding:
            if self._endpoint is None:
                if self._steady() < self._lost_until:
                    raise Unusable(self._lost)
                self._lost = "no complete answer in time"
                try:
                    self._endpoint = await self._discovery.address("introspection_endpoint", self.asking.endpoint)
                except (FetchFailed, Unusable) as error:
                    self._lost = str(error)
                    raise
                finally:
                    if self._endpoint is None:
                        self._lost_until = self._steady() + PAUSE
            return self._endpoint

    def _failed(self, told: _Told) -> None:
        """It could not even be asked about a token that nobody has."""
        if told.why != self._reason:
            level = logging.ERROR if told.ours else logging.WARNING
            _log.log(level, "identity.introspection.failed issuer=%s reason=%r", self.name, told.why)
        self._failures += 1
        self._reason = told.why
        self._endpoint = None  # it may have moved


def _settle(future: asyncio.Future[_Told], told: _Told) -> None:
    if not future.done():
        future.set_result(told)

"""The signing keys of one issuer: found by discovery, fetched in the background, kept while the provider is away.

Knows: when to fetch and when not, how long keys may serve. Must not know: tokens, claims.

The fetching is done by `run`, a task of the application. A call that needs news gets a plain future, because the path
of a call is not a task (docs/decisions/0001).
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.errors import IdentityUnavailable
from gateway.fetch import Fetch, FetchFailed
from gateway.identity.basis import Basis
from gateway.identity.contracts import Standing
from gateway.identity.provider.discovery import Discovery, Unusable
from gateway.identity.signatures.jwk import SigningKey, signing_keys
from gateway.settings import OidcIssuer

# Discovery and keys together. A caller with a new key waits for them, so they must stay well under a client's patience.
FETCH_SECONDS = 5.0
# Calls that wait for one fetch at a time; more are told to come back. Each holds its connection meanwhile.
WAITING_LIMIT = 1024
# Keys of one kid, or all keys when the token names none: each costs one check of a signature, about 30 microseconds.
TRIES_LIMIT = 8
FIRST_BACKOFF = 1.0  # a provider that starts together with the gateway is found soon
RETRY_SECONDS = 5  # what a caller is told while the provider is away: a fetch or two later
JITTER = 0.1  # gateways that started together must not ask together for ever

_log = logging.getLogger(__name__)


class _Empty(Unusable):
    """A proper set without one usable key."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A fetched set; `at` is the moment of the last fetch that confirmed it, in seconds of the given clock."""

    keys: tuple[SigningKey, ...]
    at: float


class KeySet:
    """The keys of `settings.issuer`. `now` is a monotonic clock in seconds, `chance` gives numbers from 0 to 1,
    `patience` bounds one fetch (discovery and keys together) in seconds."""

    def __init__(
        self,
        settings: OidcIssuer,
        fetch: Fetch,
        now: Callable[[], float],
        *,
        tls: ssl.SSLContext | None = None,
        chance: Callable[[], float] = random.random,
        patience: float = FETCH_SECONDS,
    ) -> None:
        self.name = settings.name
        #: What was verified with the keys rests on this; whenever they change, another takes its place.
        self.basis = Basis()
        self._settings = settings
        self._discovery = Discovery(settings, fetch, tls, patience)
        self._now = now
        self._chance = chance
        self._patience = patience
        self._held: _Held | None = None
        self._jwks_url: str | None = None
        self._complaints: tuple[str, ...] = ()
        self._failures = 0
        self._empty = False
        self._reason = ""
        self._coming = True  # the first fetch is
        self._last_early = float("-inf")
        self._wake = asyncio.Event()
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def ready(self) -> bool:
        """True while there are keys young enough to be believed."""
        return self.seconds_left() > 0

    @property
    def reason(self) -> str:
        """Why the last fetch failed, "" if it did not."""
        return self._reason

    @property
    def failing(self) -> bool:
        """True while the last fetch failed, so that an unknown key may be a new one."""
        return self._failures > 0

    def age(self) -> float | None:
        """Seconds since the last good fetch, None before it: the metric `gateway_jwks_age_seconds`."""
        return None if self._held is None else max(0.0, self._now() - self._held.at)

    def seconds_left(self) -> float:
        """How long the keys may still serve if no fetch succeeds; 0 or less when they may not."""
        age = self.age()
        return 0.0 if age is None else self._settings.stale - age

    def standing(self) -> Standing:
        """Keys serve on for `stale` seconds after the last good fetch."""
        age = self.age()
        outage = 0.0 if not self._failures else self._settings.stale if age is None else age
        return Standing(self.name, self.ready, outage, self._settings.stale)

    def candidates(self, kid: str | None, algorithm: str) -> tuple[SigningKey, ...]:
        """The keys that may have signed, best first, at most `TRIES_LIMIT`; none when the set is too old.

        A key without a kid may fit any token, and a token without a kid any key (RFC 7515 section 4.1.4: optional).
        """
        if self._held is None or not self.ready:
            return ()
        fitting = (key for key in self._held.keys if algorithm in key.algorithms)
        named = [key for key in fitting if kid is None or key.kid is None or key.kid == kid]
        named.sort(key=lambda key: key.kid is None)
        return tuple(named[:TRIES_LIMIT])

    def knows(self, kid: str | None) -> bool:
        """True when a key of exactly this kid is there: a signature that fails is then no question of newer keys."""
        return kid is not None and self._held is not None and any(key.kid == kid for key in self._held.keys)

    def news(self) -> asyncio.Future[None] | None:
        """A future that is done when the fetch under way is; starts one if the cool-down allows. None: none is coming.

        While the provider fails nothing is started: the background's own back-off is the only one that asks.
        Raises `IdentityUnavailable` when too many calls wait already.
        """
        if not self._coming and not self._ask():
            return None
        if len(self._waiting) >= WAITING_LIMIT:
            raise IdentityUnavailable(retry_after=RETRY_SECONDS, detail="too many calls wait for signing keys")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        # `run` answers in time; the timer is for the case that it was never started or has died.
        timer = loop.call_later(self._patience + 1, _settle, future)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def adopt(self, other: KeySet) -> None:
        """Begin with the keys of `other`, if they were fetched under the same rules: a reload needs no provider."""
        if _rules(self._settings) == _rules(other._settings) and other._held is not None:
            self._held = other._held
            self._shake()

    async def run(self) -> None:
        """Fetch again and again until cancelled. Never raises for what a provider does."""
        while True:
            await self.refresh()
            self._wake.clear()
            try:
                async with asyncio.timeout(self.pause()):
                    await self._wake.wait()
            except TimeoutError:
                self._jwks_url = None  # on schedule: the discovery document is looked at again too
            self._coming = True

    def pause(self) -> float:
        """Seconds from the end of one fetch to the next scheduled one."""
        settings = self._settings
        if not self._failures:
            span = settings.refresh
        elif self._empty:
            span = settings.cooldown  # it is up and well, and has nothing for us
        else:
            doubled = FIRST_BACKOFF * 2 ** min(self._failures - 1, 16)
            span = min(doubled, settings.cooldown, settings.refresh)
        return span * (1 - JITTER * self._chance())

    async def refresh(self) -> None:
        """One fetch, within `patience` seconds. A failed one changes no key."""
        self._coming = True
        try:
            async with asyncio.timeout(self._patience):
                keys, left_out = await self._load()
        except TimeoutError:
            self._failed("no complete answer in time", empty=False)
        except (FetchFailed, Unusable) as error:
            self._failed(str(error), empty=isinstance(error, _Empty))
        except Exception:  # noqa: BLE001  a fault here would end the task, and the gateway, for what a provider sent
            _log.exception("identity.keys.fault issuer=%s", self.name)
            self._failed("a fault in reading the answer", empty=False)
        else:
            self._succeeded(keys, left_out)
        finally:
            self._coming = False
            for future in tuple(self._waiting):
                _settle(future)

    def _ask(self) -> bool:
        now = self._now()
        if self._failures or now - self._last_early < self._settings.cooldown:
            return False
        self._last_early = now
        self._coming = True
        self._wake.set()
        return True

    async def _load(self) -> tuple[Sequence[SigningKey], tuple[str, ...]]:
        if self._jwks_url is None:
            self._jwks_url = await self._discovery.address("jwks_uri", self._settings.jwks_uri)
        document = await self._discovery.document(self._jwks_url, "the key set")
        try:
            keys, left_out = signing_keys(document, self._settings.algorithms)
        except ValueError as error:
            raise Unusable(f"the key set is refused: {error}") from error
        self._complain(left_out)
        if not keys:
            raise _Empty("the key set holds no usable key")
        return keys, left_out

    def _shake(self) -> None:
        """What was verified until now has to be verified again."""
        self.basis.stands = False
        self.basis = Basis()

    def _succeeded(self, keys: Sequence[SigningKey], left_out: tuple[str, ...]) -> None:
        changed = self._held is None or set(self._held.keys) != set(keys)
        if changed:
            self._shake()
        if changed or self._failures:
            _log.info("identity.keys.fetched issuer=%s keys=%d left_out=%d", self.name, len(keys), len(left_out))
        self._held = _Held(tuple(keys), self._now())
        self._failures, self._empty, self._reason = 0, False, ""

    def _failed(self, reason: str, *, empty: bool) -> None:
        if reason != self._reason:
            _log.warning("identity.keys.failed issuer=%s reason=%r held=%s", self.name, reason, self.ready)
        self._failures += 1
        self._empty, self._reason = empty, reason
        self._jwks_url = None

    def _complain(self, left_out: tuple[str, ...]) -> None:
        """One warning for each key that is left out, until the reasons change."""
        for line in left_out:
            if line not in self._complaints:
                _log.warning("identity.keys.left_out issuer=%s %s", self.name, line)
        self._complaints = left_out


def _rules(settings: OidcIssuer) -> tuple[object, ...]:
    """What decides which keys are believed."""
    return settings.issuer, settings.jwks_uri, settings.algorithms, settings.allow_insecure, settings.ca


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

"""Questions to one directory that are under way: each asked once however many wait, in threads, each wait with an end.

Logins and look-ups wait in places of their own: a flood of passwords must not stop callers who are already identified.
Knows: who waits for what, and how long; when nobody is to be asked. Must not know: what is remembered, throttles.
The path of a call is not a task (docs/decisions/0001): it waits here on plain futures, with timers of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from gateway.errors import IdentityUnavailable, LoginThrottled
from gateway.identity.ldap.line import ServerFailed
from gateway.identity.ldap.outage import Outage
from gateway.identity.ldap.people import Person, Refused
from gateway.identity.ldap.servers import Link, Servers
from gateway.identity.ldap.workers import Workers
from gateway.settings import Ldap

# Questions that wait for a thread, by threads: those further behind would wait longer than their time.
QUEUED: Final = 4
# Calls that wait for one kind of answer of this directory; more are told to come back. Each holds its connection.
WAITING_LIMIT: Final = 1024
RETRY_SECONDS: Final = 5  # what a caller is told while the directory is away
BUSY_SECONDS: Final = 1  # and while it is only slow

log = logging.getLogger(__name__)


class Kind(Enum):
    """What is asked: by strangers with a password, or for callers who are known, and by the gateway for itself."""

    LOGIN = "logins"
    LOOK_UP = "look-ups"


@dataclass(frozen=True, slots=True)
class Away:
    """No answer. `asked` False: that says nothing of the directory, since no time was left to ask it. `one_account`: it
    answers, but not about this one."""

    reason: str
    own_account: bool = False
    asked: bool = True
    one_account: bool = False


@dataclass(frozen=True, slots=True)
class Late:
    """The directory was asked whose name it is, and that person is tried too often: come back after `seconds`."""

    seconds: int
    detail: str


Answer = Person | Refused | None  # None: it is there, which was all that was asked
Ended = Answer | Away | Late
Work = Callable[[Link], Answer]
Settled = Callable[[Ended], None]
_Waiting = asyncio.Future[Ended]
_NO_TIME: Final = Away("no answer in time", asked=False)


@dataclass(eq=False, slots=True)
class _Flight:
    """One question under way since `since`, all who wait for its answer, and what else it is good for."""

    since: float
    settled: Settled
    waiting: set[_Waiting] = field(default_factory=set)


class _Places:
    """Threads of one kind of questions, and how many calls wait for them."""

    def __init__(self, name: str, threads: int) -> None:
        self.workers = Workers(name, threads, threads * QUEUED)
        self.waiting = 0


class Questions:
    """Asks `servers` under the limits of `settings`, and tells `outage` how that went. `now` is its clock."""

    def __init__(self, settings: Ldap, servers: Servers, outage: Outage, now: Callable[[], float]) -> None:
        self._name = settings.name
        self._timeout = settings.timeout
        self._servers = servers
        self._outage = outage
        self._now = now
        self._places = {kind: _Places(f"ldap-{settings.name}-{kind.value}", settings.connections) for kind in Kind}
        self._flights: dict[bytes, _Flight] = {}

    @property
    def under_way(self) -> int:
        """Questions that nobody has answered yet."""
        return len(self._flights)

    @property
    def waiting(self) -> int:
        """Calls that wait for an answer."""
        return sum(places.waiting for places in self._places.values())

    def close(self) -> None:
        """No more questions; threads end when those that wait are answered."""
        for places in self._places.values():
            places.workers.close()

    async def ask(self, kind: Kind, digest: bytes, work: Work, admit: Callable[[], None], settled: Settled) -> Answer:
        """What everybody who asks this now is answered; the first of them asks, after `admit`, and `settled` is told
        how it ended. Raises `IdentityUnavailable`, `LoginThrottled`, and what `admit` raises."""
        places = self._places[kind]
        if places.waiting >= WAITING_LIMIT:
            raise IdentityUnavailable(retry_after=BUSY_SECONDS, detail=f"too many wait for {self._name}")
        flight = self._flights.get(digest)
        if flight is None:
            admit()
            flight = self._begin(places, digest, work, settled)
        answer = await self._ended(places, flight)
        if isinstance(answer, Away):
            raise IdentityUnavailable(retry_after=RETRY_SECONDS, detail=f"{self._name}: {answer.reason}")
        if isinstance(answer, Late):
            raise LoginThrottled(retry_after=answer.seconds, detail=answer.detail)
        return answer

    async def _ended(self, places: _Places, flight: _Flight) -> Ended:
        loop = asyncio.get_running_loop()
        future: _Waiting = loop.create_future()
        timer = loop.call_later(self._timeout, _give_up, future)
        flight.waiting.add(future)
        places.waiting += 1
        try:
            return await future
        finally:
            timer.cancel()
            flight.waiting.discard(future)
            places.waiting -= 1

    def _begin(self, places: _Places, digest: bytes, work: Work, settled: Settled) -> _Flight:
        now = self._now()
        if not self._outage.may_ask(now):
            settled(_NO_TIME)
            raise IdentityUnavailable(retry_after=RETRY_SECONDS, detail=f"{self._name}: {self._outage.reason}")
        flight, until = _Flight(now, settled), time.monotonic() + self._timeout
        loop = asyncio.get_running_loop()

        def job() -> None:
            answer = self._asked(work, until)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._settle, digest, flight, answer)

        if not places.workers.submit(job):
            settled(_NO_TIME)
            raise IdentityUnavailable(retry_after=BUSY_SECONDS, detail=f"{self._name}: too many at once")
        self._flights[digest] = flight
        return flight

    def _asked(self, work: Work, until: float) -> Ended:
        """In a worker thread: how it ended."""
        if time.monotonic() >= until:
            return _NO_TIME
        try:
            return self._servers.ask(until, work)
        except ServerFailed as error:
            return Away(str(error), error.own_account, one_account=error.one_account)
        except LoginThrottled as error:
            return Late(error.retry_after or BUSY_SECONDS, error.detail)
        except Exception:  # a fault of ours must leave nobody waiting
            log.exception("identity.directory.fault name=%s", self._name)
            return Away("a fault in asking it", asked=False)

    def _settle(self, digest: bytes, flight: _Flight, answer: Ended) -> None:
        """The one place where an answer is taken: states, whoever waits."""
        now = self._now()
        del self._flights[digest]
        if not isinstance(answer, Away) or answer.one_account:
            self._outage.answered(now)
        elif answer.asked:
            self._outage.failed(now, flight.since, answer.reason, own_account=answer.own_account)
        flight.settled(answer)
        for future in flight.waiting:
            if not future.done():
                future.set_result(answer)


def on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None], seconds: float) -> None:
    """From a worker thread: have `call` made on the loop, and raise what it raises. Raises `ServerFailed` when it was
    not made within `seconds`, and then it never is."""
    done: Future[None] = Future()

    def made() -> None:
        if done.set_running_or_notify_cancel():
            try:
                call()
            except Exception as error:  # noqa: BLE001  it is the thread's
                done.set_exception(error)
            else:
                done.set_result(None)

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(made)
    try:
        done.result(seconds)
    except TimeoutError:
        if done.cancel():
            raise ServerFailed("the gateway itself had no time", one_account=True) from None
        done.result()


def _give_up(future: _Waiting) -> None:
    if not future.done():
        future.set_result(_NO_TIME)

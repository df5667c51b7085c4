"""One LDAP directory on the side of the event loop: logins and look-ups, each pair asked about once.

Knows: what is remembered, who waits for whom and how long. Must not know: LDAP, HTTP, policies.
The path of a call is not a task (docs/decisions/0001): it waits here on plain futures, with timers of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from gateway.call import Principal
from gateway.errors import GroupsUnknown, IdentityUnavailable, LoginThrottled
from gateway.identity.contracts import Standing
from gateway.identity.ldap.line import ServerFailed
from gateway.identity.ldap.outage import Outage
from gateway.identity.ldap.people import People, Person, Refused
from gateway.identity.ldap.servers import Link, Servers
from gateway.identity.ldap.workers import Workers
from gateway.identity.names import GroupNames, plain
from gateway.identity.refused import BadLogin, Result
from gateway.identity.remembered import Digests, Held, Remembered
from gateway.settings import Ldap

# Logins that wait for a thread, by threads: those further behind would wait longer than their time.
QUEUED: Final = 4
# Calls that wait for this directory; more are told to come back. Each holds its connection meanwhile.
WAITING_LIMIT: Final = 1024
NAME_LIMIT: Final = 256  # characters; a mail address has at most 254
PASSWORD_LIMIT: Final = 4096
MALFORMED: Final = Refused(Result.MALFORMED, "no name, no password, or one that is none")
RETRY_SECONDS: Final = 5  # what a caller is told while the directory is away
BUSY_SECONDS: Final = 1  # and while it is only slow
# Seconds for which an answer is remembered that says nothing of the password: it may be a setting of the server.
ODD_SECONDS: Final = 1.0
# Seconds between two looks whether it is there, while nobody asks it, and while it fails.
LOOK: Final = 30.0
LOOK_FAILING: Final = 5.0

log = logging.getLogger(__name__)


class Throttle(Protocol):
    """Slows down whoever guesses passwords of this directory. Asked before it is, and not for what is remembered; each
    `admit` is followed by exactly one of the others."""

    def admit(self, account: str, peer: str) -> None:
        """Raises `LoginThrottled` for an account or address that has to wait; then nothing is to be asked."""
        ...

    def failed(self, account: str, peer: str) -> None: ...

    def succeeded(self, account: str, peer: str) -> None: ...

    def unanswered(self, account: str, peer: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Away:
    """No answer. `asked` False: that says nothing of the directory, since no time was left to ask it. `one_account`: it
    answers, but not about this one."""

    reason: str
    own_account: bool = False
    asked: bool = True
    one_account: bool = False


_Answer = Principal | Refused | None  # None: it is there, which was all that was asked
_Waiting = asyncio.Future[_Answer | _Away]
_Work = Callable[[Link], Person | Refused | None]
_Settled = Callable[[_Answer | _Away], None]
_NO_TIME: Final = _Away("no answer in time", asked=False)


@dataclass(eq=False, slots=True)
class _Flight:
    """One question under way since `since`, all who wait for its answer, and what else it is good for."""

    since: float
    settled: _Settled
    waiting: set[_Waiting] = field(default_factory=set)


class LdapDirectory:
    """The directory of `settings`; fits `Directory` and `Provider`. It outlives reloads while its settings stay equal.

    `tls` is needed unless all its servers are plain. `count` gets its name and a `Result` for each credential that was
    looked at. `now` is a monotonic clock, `wall` gives UNIX time, both in seconds. Raises `ValueError`.
    """

    def __init__(
        self,
        settings: Ldap,
        tls: ssl.SSLContext | None,
        count: Callable[[str, str], None],
        throttle: Throttle,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = settings.name
        self.issuer = f"ldap:{settings.name}"
        self._settings = settings
        self._count = count
        self._throttle = throttle
        self._now = now
        self._named = GroupNames(settings.group_prefix, settings.group_map, settings.groups_allowed)
        self._people = People(settings, wall)
        self._servers = Servers(settings, tls)
        self._workers = Workers(f"ldap-{settings.name}", settings.connections, settings.connections * QUEUED)
        self._outage = Outage(settings.name, settings.timeout, now())
        self._digests = Digests()
        self._good: Remembered[Principal] = Remembered()
        self._bad: Remembered[Refused] = Remembered()
        self._flights: dict[bytes, _Flight] = {}
        self._waiting = 0

    @property
    def entries(self) -> int:
        """Logins and look-ups remembered."""
        return len(self._good) + len(self._bad)

    def standing(self) -> Standing:
        """How the directory does; logins that held are remembered as long as the settings say, and no longer."""
        outage = self._outage.seconds(self._now())
        return Standing(self.name, self._outage.ready, outage, self._settings.cache.positive)

    def close(self) -> None:
        """Hang up. Blocks for no longer than a farewell takes to send."""
        self._workers.close()
        self._servers.close()

    # -- logins

    def held(self, name: str, password: str) -> Held[Principal] | None:
        """A login that held a moment ago, without waiting and without counting it."""
        return self._good.get(self._digests.of("login", name, password), self._now())

    async def log_in(self, name: str, password: str, peer: str) -> Principal:
        """The person whose name and password these are. Raises `BadLogin`, `LoginThrottled`, `IdentityUnavailable`."""
        answer = await self._counted(name, password, peer, last=True)
        if answer is None:
            raise BadLogin(Result.BAD_PASSWORD)
        return answer

    async def log_in_if_known(self, name: str, password: str, peer: str) -> Principal | None:
        """The same, and None for a name that this directory does not know: another one may."""
        return await self._counted(name, password, peer, last=False)

    async def groups_of(self, subject: str) -> frozenset[str]:
        """The groups of the person with this subject, as finally named; none for somebody who is not there.

        Raises `BadLogin` for an account that is not to be used, `GroupsUnknown` where there are too many groups or the
        person may be where only a reference leads, `IdentityUnavailable`.
        """
        answer = await self._looked_up(subject)
        if isinstance(answer, Refused):
            if answer.unknown:
                return frozenset()
            raise BadLogin(Result.REFUSED_ACCOUNT, answer.detail)
        if answer is None or not answer.groups_known:
            raise GroupsUnknown(detail=f"not all groups can be known from {self.name}")
        return answer.groups

    async def renewed(self, principal: Principal) -> Principal:
        """Somebody who logged in here before, as they are known now: see `contracts.Directory`."""
        users = self._settings.users
        if not users.base or (users.dn_template and self._settings.bind is None):
            return principal  # who is bound at once may be nowhere to be searched, or by nobody else
        answer = await self._looked_up(principal.subject)
        if isinstance(answer, Refused):
            raise BadLogin(Result.REFUSED_ACCOUNT, answer.detail)
        if answer is None or not answer.groups_known:
            return replace(principal, groups=frozenset(), groups_known=False)
        return replace(principal, groups=answer.groups, groups_known=True)

    async def _looked_up(self, subject: str) -> _Answer:
        digest = self._digests.of("groups", subject)
        held = self._good.get(digest, self._now())
        return held.value if held else await self._ask(digest, partial(self._people.look_up, subject=subject))

    async def look(self) -> str:
        """Why it cannot be asked, "" where it can."""
        try:
            await self._ask(self._digests.of("look"), self._people.probe)
        except IdentityUnavailable as error:
            return error.detail.removeprefix(f"{self.name}: ")
        return ""

    def groups_hold(self, subject: str) -> float:
        """Seconds for which the groups that this subject was found to have may still be remembered; 0: not at all."""
        now = self._now()
        held = self._good.get(self._digests.of("groups", subject), now)
        return held.until - now if held else 0.0

    async def run(self) -> None:
        """Look whether it is there while nobody asks it; until cancelled."""
        while True:
            if not self._outage.ready or self._outage.silence(self._now()) >= LOOK:
                await self.look()
            await asyncio.sleep(LOOK if self._outage.ready else LOOK_FAILING)

    async def _counted(self, name: str, password: str, peer: str, *, last: bool) -> Principal | None:
        try:
            if (held := self.held(name, password)) is not None:
                self._count(self.name, Result.CACHED.value)
                return held.value
            answer = await self._log_in(name, password, peer, last=last)
        except LoginThrottled:
            self._count(self.name, Result.THROTTLED.value)
            raise
        except IdentityUnavailable:
            self._count(self.name, Result.UNAVAILABLE.value)
            raise
        if isinstance(answer, Refused):
            if answer.unknown and not last:
                return None
            self._count(self.name, answer.result.value)
            raise BadLogin(answer.result, answer.detail)
        self._count(self.name, Result.OK.value)
        return answer

    async def _log_in(self, name: str, password: str, peer: str, *, last: bool) -> _Answer:
        """`last`: no other directory may know the name, so not knowing it is a login that failed."""
        # An empty password would bind as nobody, which servers call a success (RFC 4513 section 5.1.2).
        if not password or not plain(name) or len(name) > NAME_LIMIT or len(password) > PASSWORD_LIMIT:
            return MALFORMED

        def settled(answer: _Answer | _Away) -> None:
            if isinstance(answer, Principal):
                self._throttle.succeeded(name, peer)
            elif isinstance(answer, Refused) and answer.judged and (last or not answer.unknown):
                self._throttle.failed(name, peer)
            else:
                self._throttle.unanswered(name, peer)

        digest = self._digests.of("login", name, password)
        work = partial(self._people.log_in, name=name, password=password)
        return await self._ask(digest, work, partial(self._throttle.admit, name, peer), settled)

    # -- questions

    async def _ask(
        self,
        digest: bytes,
        work: _Work,
        admit: Callable[[], None] = lambda: None,
        settled: _Settled = lambda _: None,
    ) -> _Answer:
        """What is remembered of this question, or what everybody who asks it now is answered. Raises
        `IdentityUnavailable`, and what `admit` raises before it is asked."""
        if (bad := self._bad.get(digest, self._now())) is not None:
            return bad.value
        if self._waiting >= WAITING_LIMIT:
            raise IdentityUnavailable(retry_after=BUSY_SECONDS, detail=f"too many wait for {self.name}")
        flight = self._flights.get(digest)
        if flight is None:
            admit()
            flight = self._begin(digest, work, settled)
        answer = await self._answer(flight)
        if isinstance(answer, _Away):
            raise IdentityUnavailable(retry_after=RETRY_SECONDS, detail=f"{self.name}: {answer.reason}")
        return answer

    async def _answer(self, flight: _Flight) -> _Answer | _Away:
        loop = asyncio.get_running_loop()
        future: _Waiting = loop.create_future()
        timer = loop.call_later(self._settings.timeout, _give_up, future)
        flight.waiting.add(future)
        self._waiting += 1
        try:
            return await future
        finally:
            timer.cancel()
            flight.waiting.discard(future)
            self._waiting -= 1

    def _begin(self, digest: bytes, work: _Work, settled: _Settled) -> _Flight:
        now = self._now()
        if not self._outage.may_ask(now):
            settled(_NO_TIME)
            raise IdentityUnavailable(retry_after=RETRY_SECONDS, detail=f"{self.name}: {self._outage.reason}")
        flight, until = _Flight(now, settled), time.monotonic() + self._settings.timeout
        loop = asyncio.get_running_loop()

        def job() -> None:
            answer = self._asked(work, until)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._settle, digest, flight, answer)

        if not self._workers.submit(job):
            settled(_NO_TIME)
            raise IdentityUnavailable(retry_after=BUSY_SECONDS, detail=f"{self.name}: too many logins at once")
        self._flights[digest] = flight
        return flight

    def _asked(self, work: _Work, until: float) -> _Answer | _Away:
        """In a worker thread: the answer of the directory, in words of this gateway."""
        if time.monotonic() >= until:
            return _NO_TIME
        try:
            found = self._servers.ask(until, work)
        except ServerFailed as error:
            return _Away(str(error), error.own_account, one_account=error.one_account)
        except Exception:  # a fault of ours must leave nobody waiting
            log.exception("identity.directory.fault name=%s", self.name)
            return _Away("a fault in asking it", asked=False)
        return self._principal(found) if isinstance(found, Person) else found

    def _principal(self, person: Person) -> Principal:
        groups = frozenset(name for given in person.groups.names for name in self._named(given))
        return Principal(person.subject, self.issuer, self.name, groups, groups_known=person.groups.known)

    def _settle(self, digest: bytes, flight: _Flight, answer: _Answer | _Away) -> None:
        """The one place where an answer is taken: states, memories, whoever waits."""
        now, cache = self._now(), self._settings.cache
        del self._flights[digest]
        if isinstance(answer, _Away):
            if answer.one_account:
                self._outage.answered(now)
            elif answer.asked:
                self._outage.failed(now, flight.since, answer.reason, own_account=answer.own_account)
        else:
            self._outage.answered(now)
            if isinstance(answer, Principal):
                self._good.put(digest, Held(answer, now + cache.positive, len(answer.groups)))
            elif answer is not None:
                seconds = cache.negative if answer.judged else min(cache.negative, ODD_SECONDS)
                self._bad.put(digest, Held(answer, now + seconds))
        flight.settled(answer)
        for future in flight.waiting:
            if not future.done():
                future.set_result(answer)


def _give_up(future: _Waiting) -> None:
    if not future.done():
        future.set_result(_NO_TIME)

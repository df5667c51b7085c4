"""One LDAP directory on the side of the event loop: logins and look-ups, each pair asked about once.

Knows: what is remembered, who is slowed down. Must not know: LDAP, threads, HTTP, policies.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from gateway.call import Principal
from gateway.errors import GroupsUnknown, IdentityUnavailable, LoginThrottled
from gateway.identity.contracts import Standing
from gateway.identity.ldap.outage import Outage
from gateway.identity.ldap.people import People, Person, Refused
from gateway.identity.ldap.questions import Ended, Kind, Questions, Work, on_loop
from gateway.identity.ldap.servers import Servers
from gateway.identity.names import GroupNames, plain
from gateway.identity.refused import BadLogin, Result
from gateway.identity.remembered import Digests, Held, Remembered
from gateway.settings import Ldap

NAME_LIMIT: Final = 256  # characters; a mail address has at most 254
PASSWORD_LIMIT: Final = 4096
MALFORMED: Final = Refused(Result.MALFORMED, "no name, no password, or one that is none")
# Seconds for which an answer is remembered that says nothing of the password: it may be a setting of the server.
ODD_SECONDS: Final = 1.0
# Seconds between two looks whether it is there, while nobody asks it, and while it fails.
LOOK: Final = 30.0
LOOK_FAILING: Final = 5.0


class Throttle(Protocol):
    """Slows down whoever guesses passwords of this directory. Asked before it is, and not for what is remembered; each
    `admit` is followed by exactly one of the last three, which get the entry that was `found` in between, if any."""

    def admit(self, account: str, peer: str) -> None:
        """Raises `LoginThrottled` for an account or address that has to wait; then nothing is to be asked."""
        ...

    def found(self, entry: str, peer: str) -> None:
        """The account is this entry. Raises `LoginThrottled` when that has to wait; then no password is to be sent."""
        ...

    def failed(self, account: str, peer: str, entry: str) -> None: ...

    def succeeded(self, account: str, peer: str, entry: str) -> None: ...

    def unanswered(self, account: str, peer: str, entry: str) -> None: ...


_Known = Principal | Refused | None


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
        self._outage = Outage(settings.name, settings.timeout, now())
        self._questions = Questions(settings, self._servers, self._outage, now)
        self._digests = Digests()
        self._good: Remembered[Principal] = Remembered()
        self._bad: Remembered[Refused] = Remembered()

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
        self._questions.close()
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

    async def _looked_up(self, subject: str) -> _Known:
        digest, look_up = self._digests.of("groups", subject), partial(self._people.look_up, subject=subject)
        held = self._good.get(digest, self._now())
        return held.value if held else await self._ask(Kind.LOOK_UP, digest, look_up)

    async def look(self) -> str:
        """Why it cannot be asked, "" where it can."""
        try:
            await self._ask(Kind.LOOK_UP, self._digests.of("look"), self._people.probe)
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

    async def _log_in(self, name: str, password: str, peer: str, *, last: bool) -> _Known:
        # An empty password would bind as nobody, which servers call a success (RFC 4513 section 5.1.2).
        if not password or not plain(name) or len(name) > NAME_LIMIT or len(password) > PASSWORD_LIMIT:
            return MALFORMED

        attempt, loop = _Attempt(self._throttle, name, peer, last=last), asyncio.get_running_loop()

        def found(entry: str) -> None:  # in a worker thread
            on_loop(loop, partial(attempt.found, entry), self._settings.timeout)

        digest = self._digests.of("login", name, password)
        work = partial(self._people.log_in, name=name, password=password, found=found)
        return await self._ask(Kind.LOGIN, digest, work, attempt)

    # -- questions

    async def _ask(self, kind: Kind, digest: bytes, work: Work, attempt: _Attempt | None = None) -> _Known:
        """What is remembered of this question, or what everybody who asks it now is answered. Raises
        `IdentityUnavailable`, and for an attempt to log in `LoginThrottled`."""
        if (bad := self._bad.get(digest, self._now())) is not None:
            return bad.value

        def settled(answer: Ended) -> None:
            self._remember(digest, answer)
            if attempt is not None:
                attempt.settled(answer)

        answer = await self._questions.ask(kind, digest, work, attempt.admit if attempt else _anybody, settled)
        return self._principal(answer) if isinstance(answer, Person) else answer

    def _principal(self, person: Person) -> Principal:
        groups = frozenset(name for given in person.groups.names for name in self._named(given))
        return Principal(person.subject, self.issuer, self.name, groups, groups_known=person.groups.known)

    def _remember(self, digest: bytes, answer: Ended) -> None:
        now, cache = self._now(), self._settings.cache
        if isinstance(answer, Person):
            principal = self._principal(answer)
            self._good.put(digest, Held(principal, now + cache.positive, len(principal.groups)))
        elif isinstance(answer, Refused):
            seconds = cache.negative if answer.judged else min(cache.negative, ODD_SECONDS)
            self._bad.put(digest, Held(answer, now + seconds))


class _Attempt:
    """One login that asks the directory, as the throttle sees it. `last`: no other directory may know the name, so not
    knowing it is a login that failed."""

    def __init__(self, throttle: Throttle, name: str, peer: str, *, last: bool) -> None:
        self._throttle = throttle
        self._name = name
        self._peer = peer
        self._last = last
        self._entry = ""

    def admit(self) -> None:
        """Raises `LoginThrottled`."""
        self._throttle.admit(self._name, self._peer)

    def found(self, entry: str) -> None:
        """The name is that of this entry, which may have others. Raises `LoginThrottled`."""
        if not self._entry:
            self._throttle.found(entry, self._peer)
            self._entry = entry

    def settled(self, answer: Ended) -> None:
        """How it ended."""
        if isinstance(answer, Person):
            self._throttle.succeeded(self._name, self._peer, self._entry)
        elif isinstance(answer, Refused) and answer.judged and (self._last or not answer.unknown):
            self._throttle.failed(self._name, self._peer, self._entry)
        else:
            self._throttle.unanswered(self._name, self._peer, self._entry)


def _anybody() -> None:
    """For questions that nobody is slowed down in."""

"""The servers of one directory: which is asked first, how long each is waited for, and connections that are kept.

Knows: failover, doubt, when a kept connection may be used again. Must not know: people, groups.
Used by several worker threads at once.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from gateway.identity.ldap import accounts
from gateway.identity.ldap.line import Address, ServerFailed, address
from gateway.identity.ldap.outage import HOLD_OWN_ACCOUNT
from gateway.identity.ldap.session import NO_JUDGEMENT, BindAnswer, Session
from gateway.settings import Ldap

T = TypeVar("T")

# Seconds that all servers but the last one may take in vain, together: another one has answered three seconds later.
FAILOVER: Final = 2.5
# Seconds that a server which failed comes last, so that not every login waits for it.
DOUBT: Final = 30.0
# Seconds for the first answer on a kept connection: a firewall may have dropped it without a word. Then a new one.
REUSED_ANSWER: Final = 1.25
# Seconds that a connection may have been idle; many firewalls and servers forget those of more than a minute or two.
KEPT: Final = 50.0

log = logging.getLogger(__name__)


class Server:
    """One server, with the connections under the gateway's own account that are open to it and idle."""

    def __init__(self, at: Address) -> None:
        self.at = at
        self.doubted_until = float("-inf")
        self.refused_until = float("-inf")  # it refused the gateway's own account, which is not tried there meanwhile
        self.idle: list[Session] = []


class Servers:
    """All of them, in the order of the configuration. `tls` None: plain connections only."""

    def __init__(self, settings: Ldap, tls: ssl.SSLContext | None) -> None:
        """Raises `ValueError` for a server that is none."""
        self._settings = settings
        self._tls = tls
        self._lock = threading.Lock()
        self._servers = [Server(address(url)) for url in settings.servers]
        self._closed = False

    def ask(self, until: float, work: Callable[[Link], T]) -> T:
        """What `work` finds out from the first server that can be asked, by `until` (`time.monotonic()`).

        Raises `ServerFailed` with the last reason when none can; that of one which only cannot judge this person comes
        before those of servers that cannot be asked. One that refuses the gateway's own account ends it: the account is
        the same everywhere, and would be locked.
        """
        order = self._order()
        share = min(FAILOVER, (until - time.monotonic()) / 2) / max(1, len(order) - 1)
        failure = ServerFailed("no time was left to ask")
        for number, server in enumerate(order, 1):
            now = time.monotonic()
            if now >= until:
                break
            link = Link(self, server, until, until - now if number == len(order) else share)
            try:
                found = work(link)
            except ServerFailed as error:
                if error.one_account:
                    failure = error
                    self._trust(server)
                    continue
                failure = failure if failure.one_account else error
                self._doubt(server, str(error))
                if error.own_account:
                    server.refused_until = time.monotonic() + HOLD_OWN_ACCOUNT
                    break
            else:
                self._trust(server)
                return found
        raise failure

    def open(self, server: Server, until: float, patience: float) -> Session:
        """A new connection, nobody's yet."""
        return Session(server.at, self._tls, until, time.monotonic() + patience, start_tls=self._settings.start_tls)

    def open_own(self, server: Server, until: float, patience: float) -> Session:
        """A new connection under the gateway's own account; where it has none, under none."""
        session = self.open(server, until, patience)
        account = self._settings.bind
        if account is None:
            return session
        try:
            answer = session.bind(account.dn, account.password)
            _check_own(answer)
        except ServerFailed:
            session.close()
            raise
        return session

    def take(self, server: Server) -> Session | None:
        """A kept connection that seems to be alive."""
        while True:
            with self._lock:
                session = server.idle.pop() if server.idle else None
            if session is None:
                return None
            if time.monotonic() - session.used_at < KEPT and session.quiet():
                return session
            session.close()

    def keep(self, server: Server, session: Session) -> None:
        """Keep one for the next login; as many as there may be logins at once."""
        with self._lock:
            if not self._closed and len(server.idle) < self._settings.connections:
                server.idle.append(session)
                return
        session.close()

    def close(self) -> None:
        """Hang up everywhere; connections in use are closed when they are given back."""
        with self._lock:
            self._closed = True
            idle = [session for server in self._servers for session in server.idle]
            for server in self._servers:
                server.idle.clear()
        for session in idle:
            session.begin(time.monotonic() + REUSED_ANSWER, float("inf"))
            session.close()

    def _order(self) -> list[Server]:
        """Doubted ones last; those that refuse the gateway's own account only where they are all there are."""
        now = time.monotonic()
        with self._lock:
            taken = [server for server in self._servers if now >= server.refused_until] or self._servers
            return sorted(taken, key=lambda server: now < server.doubted_until)

    def _doubt(self, server: Server, reason: str) -> None:
        with self._lock:
            fresh = server.doubted_until == float("-inf")
            server.doubted_until = time.monotonic() + DOUBT
        if fresh:
            log.warning(
                "identity.directory.server_failed name=%s server=%s reason=%r", self._settings.name, server.at, reason
            )

    def _trust(self, server: Server) -> None:
        with self._lock:
            doubted = server.doubted_until != float("-inf")
            server.doubted_until = float("-inf")
        if doubted:
            log.info("identity.directory.server_recovered name=%s server=%s", self._settings.name, server.at)


class Link:
    """Access to one server for one login or look-up, which must be over by `until` (`time.monotonic()`).

    `patience`: seconds for the first answer on each connection.
    """

    def __init__(self, servers: Servers, server: Server, until: float, patience: float) -> None:
        self._servers = servers
        self._server = server
        self._until = until
        self._patience = patience

    @contextmanager
    def own(self, first: Callable[[Session], T]) -> Iterator[tuple[Session, T]]:
        """A connection under the gateway's own account, and what `first` found on it. Raises `ServerFailed`.

        `first` runs again on a new connection when a kept one turns out to be dead, so it may only read.
        """
        session, found = self._first(first)
        try:
            yield session, found
        except ServerFailed:
            session.close()
            raise
        except BaseException:
            self._servers.keep(self._server, session)
            raise
        self._servers.keep(self._server, session)

    @contextmanager
    def stranger(self) -> Iterator[Session]:
        """A new connection that is nobody's yet, closed in the end: for somebody else to bind."""
        session = self._servers.open(self._server, self._until, self._patience)
        try:
            yield session
        finally:
            session.close()

    def _first(self, first: Callable[[Session], T]) -> tuple[Session, T]:
        since = time.monotonic()
        kept = self._servers.take(self._server)
        if kept is not None:
            kept.begin(self._until, since + min(REUSED_ANSWER, self._patience / 2))
            try:
                return kept, first(kept)
            except ServerFailed:  # dead, most likely; if the server is, a new connection will tell
                kept.close()
        patience = self._patience - (time.monotonic() - since)
        session = self._servers.open_own(self._server, self._until, patience)
        try:
            return session, first(session)
        except ServerFailed:
            session.close()
            raise


def _check_own(answer: BindAnswer) -> None:
    """Whether the gateway's own account was let in, and may be used. Raises `ServerFailed`."""
    if answer.good and (why := accounts.refused_at_bind(answer)):
        raise ServerFailed(f"the gateway's own account is {why}", own_account=True)
    if not answer.good:
        raise ServerFailed(
            f"the bind of the gateway's own account was answered with {answer.code} {answer.description}",
            own_account=answer.code not in NO_JUDGEMENT,
        )

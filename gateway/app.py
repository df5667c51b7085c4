"""The one place where everything is built, started, reloaded, drained and stopped.

Knows: constructors, and the order of start and stop. Must not know: details of any of them.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway import __version__, generation, tls
from gateway.accounting.account import Account
from gateway.accounting.auditfile import AuditFile
from gateway.accounting.metrics import MetricsPage, Sources
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.advice import advice
from gateway.call import Channel
from gateway.descriptors import raise_limit_for
from gateway.doors.admin import AdminDoor
from gateway.doors.door import DoorSettings
from gateway.doors.http import HttpDoor
from gateway.exchange import Exchange
from gateway.fetch import Fetch
from gateway.generation import Generation, Lasting, Source
from gateway.identity.contracts import Standing
from gateway.identity.passwords.throttle import Throttle
from gateway.ids import RequestIds
from gateway.pages import OwnPages
from gateway.pools.backends import Backend
from gateway.pools.health import Prober, servable
from gateway.portal import application
from gateway.portal.listening import Listening
from gateway.reloading import Reloading
from gateway.remembering import remember
from gateway.running import RunningServices
from gateway.settings import Listen, Management, Settings
from gateway.startup import buildable, endpoint, lone, needed, settle_memory, warn_loudly
from gateway.trying import Trying
from gateway.wires import WIRES

log = logging.getLogger(__name__)

# Seconds for connections that were cut to close in order; what is left after that is dropped.
_FAREWELL = 0.5

# Seconds before a background part that failed is started again.
_PAUSE = 1.0


class Gateway:
    """A running gateway. `run` returns after the drain."""

    def __init__(self, path: Path, root: Path | None, source: Source) -> None:
        """`source`: what was read from `path`. Raises `CannotStart` when the audit file cannot be opened."""
        self._tallies = Tallies()
        self._admission = Admission()
        self._draining = asyncio.Event()
        self._at_once = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self._background: dict[str, asyncio.Task[None]] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        settings = source.settings
        with needed(f"audit file {settings.audit.file}"):
            self._audit = AuditFile(settings.audit, self._lose, begins=False)
        self._account = Account(self._tallies, self._audit.add)
        self._now: Generation
        timeouts = settings.limits.timeouts
        self._wires = {
            channel: wire(self._spawn, timeouts.connect, self._unsolicited) for channel, wire in WIRES.items()
        }
        self._door = HttpDoor(
            self._serve,
            self._account,
            RequestIds().new,
            _door_settings(settings),
            tls.server_context(settings.listen.tls),
        )
        page = MetricsPage(self._sources())
        self._admin = AdminDoor(
            metrics=page.render, metrics_type=page.content_type, ready=self.ready, status=self.status
        )
        self._pages = Listening(application.make(RunningServices(lambda: self._now)), settings.limits.header)
        self._trying = Trying(self._tallies)
        self._reloads = Reloading(
            path,
            root,
            source,
            now=lambda: self._now,
            build=lambda read: generation.build(read, self._lasting, self._now),
            take=self._take,
            tallies=self._tallies,
        )

    async def run(self, source: Source) -> None:
        """Serve until told to stop, then drain. Raises a group with `CannotStart` when a port cannot be listened on."""
        async with Fetch() as fetch, self._own_pages() as pages, asyncio.TaskGroup() as self._tasks:
            throttle = Throttle(time.monotonic, self._tallies.failed_login, self._tallies.throttled_login)
            self._lasting = Lasting(
                fetch,
                self._tallies,
                self._admission,
                throttle,
                self._wires,
                self._account,
                self.ready,
                self._spawn,
                pages,
                self._audit,
                self._trying.shadow,
            )
            self._trying.follow(source)
            self._now = generation.build(source, self._lasting, None)
            settings = source.settings
            self._advise(source)
            self._remember(source)
            try:
                await self._open_management(settings.management)
                self._start_background()
                await self._open_door(settings.listen)
                self._audit.begin()
                self._listen_to_signals()
                settle_memory()
                await self._draining.wait()
                await self._drain(settings)
            finally:
                for task in (*self._background.values(), *self._connecting):
                    task.cancel()
                self._close_wires()
                self._now.identities.close()
                self._audit.close()
                await self._admin.close()

    def _close_wires(self) -> None:
        for wire in self._wires.values():
            wire.close()

    async def _open_management(self, at: Management) -> None:
        with needed(f"management {endpoint(at.address, at.port)}"):
            port = await self._admin.open(at.address, at.port)
        log.info("management.listening address=%s port=%d", at.address, port)

    @asynccontextmanager
    async def _own_pages(self) -> AsyncIterator[OwnPages]:
        await self._pages.open()
        try:
            yield OwnPages(self._pages.dial, self._wires[Channel.HTTP])
        finally:
            await self._pages.close()

    async def _open_door(self, at: Listen) -> None:
        with needed(f"listen {endpoint(at.address, at.port)}"):
            port = await self._door.open(at.address, at.port)
        log.info("gateway.listening address=%s port=%d version=%s", at.address, port, __version__)

    # -- what the parts ask

    def ready(self) -> bool:
        """True while a call could be identified, served by some model and written down, and no drain has begun."""
        if self._draining.is_set() or self._audit.holds_calls:
            return False
        now = self._now
        return now.identities.ready() and any(any(models.values()) for models in servable(now.pools).values())

    def status(self) -> dict[str, Any]:
        """What runs now, for people."""
        state = {"ready": self.ready(), "draining": self._draining.is_set(), "reload": self._reloads.status()}
        held = self._audit.holds_calls
        audit = {"failing": self._audit.failing, "holds_calls": held, "lost": self._tallies.audit_lost}
        return {"version": __version__, **state, "audit": audit, **self._now.status(), "shadow": self._trying.status()}

    def _serve(self, exchange: Exchange) -> Coroutine[Any, Any, None]:
        return self._now.pipeline.serve(exchange)

    def _sources(self) -> Sources:
        return Sources(
            tallies=self._tallies,
            pools=lambda: self._now.pools,
            in_flight=lambda: {pool.name: self._admission.in_flight[pool.name] for pool in self._now.pools},
            jwks_ages=lambda: {
                issuer.issuer: age
                for issuer, keys in self._now.identities.key_sets.items()
                if (age := keys.age()) is not None
            },
            standings=self._standings,
            api_keys=lambda: self._now.source.listed.keys,
            certificates=self._certificate_expiries,
            connections=self._door.states,
            places=lambda: self._door.listener.places,
            handshake_failures=lambda: self._door.listener.failures,
            accept_holds=lambda: self._door.listener.holds,
            bodies=lambda: (self._door.room.taken, self._door.room.limit),
            cache_entries=self._cache_entries,
            tasks=lambda: len(asyncio.all_tasks()),
            generation=lambda: self._now.number,
            policy=lambda: self._now.policy.digest,
            reload_successful=lambda: self._reloads.successful,
            shadow=lambda: self._trying.digest,
            audit_failing=lambda: self._audit.failing,
        )

    def _certificate_expiries(self) -> dict[str, float]:
        path = self._now.source.settings.listen.tls.certificate
        try:
            return {str(path): tls.expiry(path)}
        except tls.TlsError:
            return {}  # half-replaced on disk; what is served is what was loaded

    def _standings(self) -> tuple[Standing, ...]:
        return self._now.identities.standings()

    def _cache_entries(self) -> dict[str, int]:
        return {**self._now.cache_entries(), **self._trying.cache_entries()}

    def _lose(self, lines: int) -> None:
        self._tallies.audit_lost += lines

    def _unsolicited(self, backend: Backend) -> None:
        self._tallies.unsolicited[(backend.pool, backend.name)] += 1
        log.warning("backend.unsolicited pool=%s backend=%s", backend.pool, backend.name)

    # -- background

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(coroutine)
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _start_background(self) -> None:
        now = self._now
        wanted: dict[str, Callable[[], Awaitable[None]]] = dict(now.identities.background)
        wanted[f"probes {now.number}"] = Prober(now.pools, self._lasting.fetch).run
        wanted["reloads"] = self._reloads.run
        wanted["watch"] = self._reloads.watch
        wanted["shadow"], wanted["shadow watch"] = self._trying.run, self._trying.watch
        for name in [name for name in self._background if name not in wanted]:
            self._background.pop(name).cancel()
        for name, run in wanted.items():
            if name not in self._background:
                self._background[name] = self._tasks.create_task(_kept_running(name, run), name=name)

    def _take(self, after: Generation) -> None:
        """What runs from now on. Raises `OSError` or `Unbuildable`, with nothing changed, for a bad certificate."""
        source = after.source
        with buildable():
            context = tls.server_context(source.settings.listen.tls)
        before, self._now = self._now, after
        self._door.renew(context, other_authorities=before.source.authorities != source.authorities)
        before.identities.close(after.identities)
        self._trying.follow(source)
        self._tallies.keep({rule.id for rule in source.rules}, {key.id for key in source.listed.keys})
        self._start_background()
        self._advise(source)
        self._remember(source)

    def _remember(self, source: Source) -> None:
        policies, tallies = source.settings.policies, self._tallies
        self._spawn(remember(policies, source.policy, lambda: self._now.source.policy.digest, tallies))

    def _advise(self, source: Source) -> None:
        warn_loudly(source.settings)
        for line in advice(source):
            log.warning("config.advice %s", line)

    # -- the end

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        loop.add_signal_handler(signal.SIGUSR1, self._audit.reopen)

    def _stop(self) -> None:
        """First: drain. Again: end at once."""
        (self._at_once if self._draining.is_set() else self._draining).set()

    def _hang_up(self) -> None:
        self._audit.reopen()
        self._reloads.ask()

    async def _drain(self, settings: Settings) -> None:
        timeouts = settings.limits.timeouts
        log.info("drain.begun active=%d pre_stop_seconds=%g", self._door.active, timeouts.pre_stop)
        self._door.drain()
        await _first(self._at_once.wait(), limit=timeouts.pre_stop)
        self._door.shut()
        await _first(self._at_once.wait(), self._door.empty(), limit=0 if self._at_once.is_set() else timeouts.drain)
        log.info("drain.ended cut=%d", self._door.active)
        self._door.cut()
        self._close_wires()
        await _first(self._door.empty(), limit=_FAREWELL)
        self._door.drop()
        await _first(self._door.empty(), limit=_FAREWELL)


def _door_settings(settings: Settings) -> DoorSettings:
    limits = settings.limits
    places = raise_limit_for(limits.connections)
    return DoorSettings(limits.header, places, limits.bodies, limits.timeouts, settings.listen.trusted_proxies)


async def _first(*waits: Coroutine[Any, Any, object], limit: float) -> None:
    """Until one of `waits` is over, or `limit` seconds."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _kept_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """A background part that fails is started again; it must not take the calls down with it."""
    while True:
        try:
            await run()
        except Exception:  # whatever it was, it is logged, and traffic goes on
            log.exception("background.failed part=%r", name)
        await asyncio.sleep(_PAUSE)


async def serve(path: Path, root: Path | None) -> None:
    """Read, build, run. Raises `Mistakes` for files that are no good, `CannotStart` for ports that are taken."""
    source = generation.read_all(path, root)
    try:
        await Gateway(path, root, source).run(source)
    except BaseExceptionGroup as group:
        if (error := lone(group)) is not None:
            raise error from None
        raise

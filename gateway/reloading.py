"""Taking what the files say now, as a whole or not at all, each time they have changed and rest.

Knows: when to read, what counts as read, what went wrong. Must not know: how anything is built, who is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway import generation
from gateway.accounting.tallies import Tallies
from gateway.config.mistakes import Mistakes
from gateway.config.watch import Watcher, contents
from gateway.generation import Generation, Source
from gateway.startup import Unbuildable

log = logging.getLogger(__name__)


class Reloading:
    """From what was read at the start on. `watch` and `run` never end by themselves."""

    def __init__(
        self,
        path: Path,
        root: Path | None,
        source: Source,
        *,
        now: Callable[[], Generation],
        build: Callable[[Source], Generation],
        take: Callable[[Generation], None],
        tallies: Tallies,
    ) -> None:
        """`now`: the generation that runs. `take`: from here on another one runs; where that raises `OSError` or
        `Unbuildable`, the same as before."""
        self._path = path
        self._root = root
        self._now = now
        self._build = build
        self._take = take
        self._tallies = tallies
        self._watcher = Watcher(source.files)
        self._wanted = asyncio.Event()
        #: Whether the files say what runs; if not, what is wrong with them. Settings of theirs that wait for a restart.
        self.successful = True
        self._mistakes: tuple[str, ...] = ()
        self._pending: tuple[str, ...] = ()

    def ask(self) -> None:
        """Look at the files now, and take what they say even if nothing changed."""
        self._watcher.ask()

    async def watch(self) -> None:
        """Notice that files changed."""
        async for _ in self._watcher.changes():
            self._wanted.set()

    async def run(self) -> None:
        """Reload each time that is noticed."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.reload()

    async def reload(self) -> None:
        """Take what the files say now, if they hold the same from when they were told of until all were read."""
        try:
            await self._reload_rested()
        except Exception:  # a fault of ours: the files are not what runs, and that has to be seen
            log.exception("config.reload_failed")
            self._failed(("the gateway failed to take the files; its log says how",))

    def status(self) -> dict[str, Any]:
        """How the last one went, for people."""
        return {
            "successful": self.successful,
            "mistakes": self._mistakes,
            "waits_for_restart": self._pending,
        }

    async def _reload_rested(self) -> None:
        before, told = self._now(), self._watcher.told
        files = await asyncio.to_thread(generation.look, self._path, self._root, told)
        # What is missing or wrong may be mended in any of these; those of the running generation still count.
        watched = {file: content for file, content in told.items() if file in before.source.files} | files
        mistakes: tuple[str, ...] = ()
        try:
            source = await asyncio.to_thread(generation.read, self._path, self._root, files)
            files = dict(source.files)
            source, pending = generation.changeable(before.source.settings, source)
            after = self._build(source)
        except Mistakes as error:
            mistakes = tuple(str(mistake) for mistake in error.mistakes)
        except (OSError, ValueError) as error:
            mistakes = (str(error),)
        if await asyncio.to_thread(contents, files) != files:
            log.info("config.changed_while_read")
            if watched.keys() - self._watcher.told.keys():
                self._watcher.set_files(watched)
            self._watcher.ask()  # also if they are again what they were: what was read was not that
        elif mistakes:
            self._watcher.set_files(watched)
            self._failed(mistakes)
        else:
            self._went(after, pending)

    def _went(self, after: Generation, pending: tuple[str, ...]) -> None:
        source = after.source
        self._watcher.set_files(source.files)
        try:
            self._take(after)
        except (OSError, Unbuildable) as error:
            self._failed((str(error),))
            return
        self.successful, self._mistakes, self._pending = True, (), pending
        self._tallies.reloads["success"] += 1
        if pending:
            log.warning("config.waits_for_restart settings=%s", ",".join(pending))
        log.info("config.reloaded generation=%d policy=%s", after.number, after.policy.digest)

    def _failed(self, mistakes: tuple[str, ...]) -> None:
        self.successful, self._mistakes = False, mistakes
        self._tallies.reloads["failure"] += 1
        for mistake in mistakes:
            log.error("config.refused %s", mistake)

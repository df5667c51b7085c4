"""The shadow policy: read beside the calls and after whatever is in force, so that it holds up neither.

Knows: where it lies, when it changes, what of it is tried.
Must not know: what is in force, what becomes of a difference.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gateway import identities
from gateway.accounting.tallies import Tallies
from gateway.advice import of_candidate
from gateway.config.mistakes import Mistake
from gateway.config.watch import UNKNOWN, Watcher
from gateway.generation import Source
from gateway.policy.shadow import Shadow
from gateway.policyfiles import Candidate, candidate

log = logging.getLogger(__name__)


class Trying:
    """What is tried now. Outlives reloads, which it neither waits for nor keeps waiting."""

    def __init__(self, tallies: Tallies) -> None:
        self.shadow = Shadow(None, tallies)
        self._tallies = tallies
        self._watcher = Watcher({})
        self._wanted = asyncio.Event()
        self._source: Source
        self._named: tuple[Path | None, Set[str]] = (None, frozenset())
        self._candidate: Candidate | None = None

    @property
    def digest(self) -> str | None:
        """Names the policy that is tried: None where none is configured, empty where it cannot be tried."""
        if self._candidate is None:
            return None
        return "" if self.shadow.policy is None else self.shadow.policy.digest

    def status(self) -> dict[str, object] | None:
        """What is tried, for people."""
        if self._candidate is None:
            return None
        return {
            "ready": self.shadow.policy is not None,
            "digest": self.digest or None,
            "rules": len(self._candidate.written.rules),
            "mistakes": tuple(map(str, self._candidate.mistakes)),
        }

    def cache_entries(self) -> dict[str, int]:
        """How much is remembered of what callers asked for."""
        return {} if self.shadow.policy is None else {"shadow_decisions": self.shadow.policy.entries}

    def follow(self, source: Source) -> None:
        """Try from now on what these settings name; it is read again only if that is another, or judged by others."""
        self._source = source
        path = source.settings.policies.shadow
        named = path, identities.names(source.settings)
        if named == self._named:
            return
        self._named = named
        if source.candidate is not None or path is None:
            self._take(source.candidate)
        else:
            self._candidate = Candidate(mistakes=(Mistake(str(path), 1, 1, "not read yet"),))
            self.shadow.take(None)
            self._wanted.set()

    async def watch(self) -> None:
        """Notice that it changed, and rests. Never ends by itself."""
        async for _ in self._watcher.changes():
            self._wanted.set()

    async def run(self) -> None:
        """Read it whenever that is wanted. Never ends by itself."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._read()
            except Exception:  # a fault of ours: what was tried before is not what the files say now
                log.exception("shadow.failed")
                shadow, text = str(self._source.settings.policies.shadow), "the gateway failed to read it; see its log"
                self._take(Candidate(mistakes=(Mistake(shadow, 1, 1, text),)))

    async def _read(self) -> None:
        source, named = self._source, self._named
        found, advice = await asyncio.to_thread(_found, source)
        if named != self._named:
            return  # it is wanted anew
        if found is not None and found.held == UNKNOWN:
            self._watcher.set_files({path: UNKNOWN for path in (source.settings.policies.shadow,) if path})
            return  # it is not whole; told again when it rests
        for line in advice:
            log.warning("config.advice %s", line)
        self._take(found)

    def _take(self, found: Candidate | None) -> None:
        self._candidate = found
        path = self._source.settings.policies.shadow
        self._watcher.set_files({} if path is None or found is None else {path: found.held})
        self.shadow.take(None if found is None else found.policy)
        self._tallies.keep_tried({rule.id for rule in found.written.rules} if found is not None else set())
        for mistake in () if found is None else found.mistakes:
            log.error("shadow.refused %s", mistake)
        if self.digest:
            log.info("shadow.tried policy=%s", self.digest)


def _found(source: Source) -> tuple[Candidate | None, tuple[str, ...]]:
    """The policy as it lies there now, and what its author hardly meant. Blocks, for seconds where it is large."""
    found, advice = candidate(source.settings), list[str]()
    with suppress(OSError):  # gone since; whoever looks next will say so
        advice += of_candidate(replace(source, candidate=found))
    return found, tuple(advice)

"""What a simulated server is doing right now: places, the queue before them, counters, and whose turn it is to fail.

Knows: counting and waiting. Must not know: HTTP, what is computed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from gateway.simulate.knobs import LONGEST, Knobs

#: Beyond this many waiting calls a real engine refuses; so does this one.
QUEUE_LIMIT = 4096


class QueueFull(Exception):  # noqa: N818  named for what happened, as the refusals are
    """No place, and none to wait for."""


class Load:
    """The state of one simulated server. `running` and `waiting` are calls; the rest only ever grows."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._queue: deque[asyncio.Future[None]] = deque()
        self._owed = 0.0
        self.running = 0
        self.requests = 0
        self.succeeded = 0
        self.cancelled = 0
        self.failed = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0

    @property
    def knobs(self) -> Knobs:
        """How the server behaves from now on."""
        return self._knobs

    @property
    def waiting(self) -> int:
        """Calls in the queue."""
        return len(self._queue)

    def turn(self, knobs: Knobs) -> None:
        """Behave like `knobs` from now on; calls that now have a place get it."""
        self._knobs = knobs
        self._wake()

    def arrived_to_fail(self) -> bool:
        """Count a call that came, and say whether it shall fail: every fourth at a rate of 0.25, no chance involved."""
        self.requests += 1
        self._owed += self._knobs.failure_rate
        if self._owed < 1.0 - 1e-9:
            return False
        self._owed -= 1.0
        self.failed += 1
        return True

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place, given in order of arrival. Raises `QueueFull`, TimeoutError."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count how a call that is carried out ends: done, or cancelled because its client went away."""
        try:
            yield
        except (asyncio.CancelledError, ConnectionError):
            self.cancelled += 1
            raise
        self.succeeded += 1

    async def _enter(self) -> None:
        if not self._queue and self._has_place():
            self.running += 1
            return
        if len(self._queue) >= QUEUE_LIMIT:
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(LONGEST):
                await turn
        except BaseException:
            self._give_up(turn)
            raise

    def _leave(self) -> None:
        self.running -= 1
        self._wake()

    def _has_place(self) -> bool:
        return not self._knobs.max_concurrency or self.running < self._knobs.max_concurrency

    def _wake(self) -> None:
        while self._queue and self._has_place():
            turn = self._queue.popleft()
            if not turn.done():  # else its caller has just left
                self.running += 1
                turn.set_result(None)

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        if turn in self._queue:
            self._queue.remove(turn)
        elif turn.done() and not turn.cancelled():
            self._leave()  # the place came in the very moment the caller left

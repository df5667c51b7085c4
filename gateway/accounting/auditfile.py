"""Where audit lines wait until they are written, and what happens when there is no room for more.

Knows: how much may wait, when lines are written, when calls have to wait for them.
Must not know: what the lines say, which calls there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gateway.accounting.appender import Appender
from gateway.errors import Overloaded
from gateway.settings import Audit

log = logging.getLogger(__name__)

# Lines are written together, this many seconds after the first: a crash loses no more than that, and of however many
# calls a second 20 wake the thread.
_DELAY = 0.05

# Bytes that may wait for a slow disk. Beyond that lines are lost and counted (`drop`), or calls are held (`block`).
WAITING = 16 * 1024 * 1024

# Seconds that calls are held before they are refused: longer than a disk that is busy takes, shorter than callers wait.
HOLDING = 5.0

# Seconds after which a refused caller may come again; the file is tried again as often.
_AGAIN = 1

# Seconds that the end may wait for a slow disk: calls are over by then, and whoever stopped us will not wait long.
CLOSING = 2.0


class AuditFile:
    """Appends lines to a file, joined, in a thread of its own: calls go on whatever it does.

    With `on_full: block` calls that would go on while it `holds_calls` have to come through `room` first.
    """

    def __init__(
        self,
        settings: Audit,
        lost: Callable[[int], None],
        *,
        waiting: int = WAITING,
        holding: float = HOLDING,
        closing: float = CLOSING,
        begins: bool = True,
    ) -> None:
        """`lost`: told how many lines could not be kept. `waiting` in bytes; `holding`, `closing` (the end) in seconds.
        `begins`: lines may come at once, not only after `begin`.

        Raises `OSError` when the file cannot be opened.
        """
        self._lost = lost
        self._holding = holding
        self._closing = closing
        self._blocks = settings.on_full == "block"
        self._loop = asyncio.get_running_loop()
        #: True while no call may go on. `_news` is done when that has ended, or is not worth waiting for any longer.
        self.holds_calls = False
        self._news: asyncio.Future[None] = self._loop.create_future()
        self._patience: asyncio.TimerHandle | None = None
        self._lines: list[bytes] = []
        #: Bytes that wait, those of a write under way included, how many may, and how many are taken in any case:
        #: where calls are held, as much again is for lines of those that no backend has heard of.
        self._size = 0
        self._waiting = waiting
        self._limit = 2 * waiting if self._blocks else waiting
        #: Lines given to the thread so far, losses of its that were told, and lines not taken since it was given some.
        self._given = self._told = self._missing = 0
        self._due = False  # from the first line that waits until it and those that came in time are written
        self._reopening = False
        self._file = Appender(settings, self._changed, begins=begins)

    @property
    def failing(self) -> bool:
        """True while the system refuses what it is given."""
        return self._file.failing

    def add(self, text: bytes, sent: bool = False) -> None:
        """One more line, written soon. `sent`: of a call that a backend has heard of: there has to be room."""
        if self._size > self._limit and not (sent and self._blocks):
            self._missing += 1
            self._lost(1)
            return
        self._lines.append(text)
        self._size += len(text)
        if not self._due:
            self._due = True
            self._loop.call_later(_DELAY, self._write)
        if self._blocks and self._size > self._waiting:
            self._weigh()

    async def room(self) -> None:
        """Wait until it no longer `holds_calls`. Raises `Overloaded` when that takes too long, or lines are refused."""
        if self.holds_calls and not self._news.done():
            await self._news
        if self.holds_calls:
            detail = "the audit file cannot be written" if self._file.failing else "audit lines wait for a slow file"
            raise Overloaded(retry_after=_AGAIN, detail=detail)

    def begin(self) -> None:
        """From now on lines may come. A start that fails before this leaves nothing in the file."""
        self._file.begin()

    def reopen(self) -> None:
        """Follow a rotation: what waits goes to the old file, which is kept where the new one cannot be opened."""
        if self._reopening:
            return  # the one that waits will find the newest file
        self._reopening = True
        self._give(self._settled)
        self._file.reopen(partial(self._tell, self._reopened))

    def close(self) -> None:
        """Write what waits and close. What takes too long is lost and counted."""
        self._limit, self._blocks = -1, False  # nothing is taken from now on
        self._give(self._settled)
        late = 0 if self._file.close(self._closing) else self._given - self._file.settled
        if lost := late + self._file.lost - self._told:
            log.error("audit.lost_at_end lines=%d", lost)
        if late:
            self._lost(late)
        self._tell_losses()
        self._release()

    def _write(self) -> None:
        self._give(self._written)

    def _give(self, then: Callable[[int], None]) -> None:
        """What waits, to the thread; `then` is called here with its size in bytes."""
        lines, self._lines = self._lines, []
        missing, self._missing = self._missing, 0
        self._given += len(lines)
        self._file.append(lines, partial(self._tell, then, sum(map(len, lines))), missing)

    def _tell(self, then: Callable[..., None], *facts: int) -> None:
        """In the thread. The loop may be gone by then, and nobody there to be told."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(then, *facts)

    def _changed(self) -> None:
        self._tell(self._weigh)

    def _written(self, size: int) -> None:
        self._settled(size)
        self._due = bool(self._lines)
        if self._due:
            self._loop.call_later(_DELAY, self._write)

    def _settled(self, size: int) -> None:
        self._size -= size
        self._tell_losses()
        if self.holds_calls:
            self._weigh()

    def _reopened(self) -> None:
        self._reopening = False

    def _tell_losses(self) -> None:
        losses = self._file.lost - self._told
        if losses:
            self._told += losses
            self._lost(losses)

    # -- whether calls may go on

    def _weigh(self) -> None:
        """Once held, calls are held until half of the room is free: not one by one, at the edge."""
        if not self._blocks:
            return
        failing = self._file.failing
        if failing or self._size > (self._waiting // 2 if self.holds_calls else self._waiting):
            self._hold(at_once=failing)
        elif self.holds_calls:
            self._release()

    def _hold(self, *, at_once: bool) -> None:
        if not self.holds_calls:
            self.holds_calls = True
            self._news = self._loop.create_future()
            self._patience = self._loop.call_later(self._holding, self._end_waiting)
        if at_once:
            self._end_waiting()

    def _release(self) -> None:
        self.holds_calls = False
        self._end_waiting()

    def _end_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if not self._news.done():
            self._news.set_result(None)

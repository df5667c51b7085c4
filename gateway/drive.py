"""Run the path of a call without a task: step its coroutine by hand, straight from the callback that has news.

Most calls never wait before they reach a backend, and then wait for exactly one thing: the end of the answer. An
`asyncio.Task` costs two trips through the event loop for that; `Drive` costs none (docs/decisions/0001).
Knows: how a coroutine is stepped and stopped. Must not know: calls, HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class Moment:
    """Something that will happen once. The path awaits it; who knows calls `fire` or `fail`, once, from the loop."""

    __slots__ = ("_drive", "_error", "_fired")

    def __init__(self) -> None:
        self._drive: Drive | None = None
        self._error: BaseException | None = None
        self._fired = False

    def __await__(self) -> Generator[Moment, None, None]:
        if not self._fired:
            yield self
        if self._error is not None:
            raise self._given(self._error)

    def _given(self, error: BaseException) -> BaseException:
        """The error, kept here no longer: its traceback holds whoever awaited, who would hold it in turn."""
        self._error = None
        return error

    @property
    def fired(self) -> bool:
        """True once `fire` or `fail` was called."""
        return self._fired

    def fire(self) -> None:
        """It happened: the path goes on before this returns. Later calls do nothing."""
        if self._fired:
            return
        self._fired = True
        if (drive := self._drive) is not None:
            self._drive = None
            drive.step()

    def fail(self, error: BaseException) -> None:
        """It will not happen: `error` is raised where the path waits. Later calls do nothing."""
        if not self._fired:
            self._error = error
            self.fire()

    def watch(self, drive: Drive | None) -> None:
        """Used by `Drive`: whom to step when this fires."""
        self._drive = drive


class Drive:
    """One coroutine on its way. It may await `Moment`s and asyncio futures; nothing in it may ask for its task."""

    __slots__ = ("_coroutine", "_running", "_waiting", "done")

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self._waiting: Moment | asyncio.Future[Any] | None = None
        self._running = False
        self.done = False

    def step(self, error: BaseException | None = None) -> None:
        """Go on to the next wait or to the end; what the coroutine raises comes out here."""
        self._waiting = None
        self._running = True
        try:
            waiting = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        except StopIteration:
            self.done = True
            return
        except BaseException:
            self.done = True
            raise
        finally:
            self._running = False
        self._waiting = waiting
        if isinstance(waiting, Moment):
            waiting.watch(self)
        else:  # an asyncio future, as `Future.__await__` yields it
            waiting._asyncio_future_blocking = False
            waiting.add_done_callback(self._resume)

    def stop(self, error: BaseException) -> None:
        """Raise `error` where the coroutine waits, so that everything it holds is given back before this returns."""
        if self.done or self._running:
            return
        waiting = self._waiting
        if isinstance(waiting, Moment):
            waiting.watch(None)
        elif waiting is not None:
            waiting.remove_done_callback(self._resume)
        self.step(error)

    def _resume(self, future: asyncio.Future[Any]) -> None:
        if self._waiting is future:
            self.step()

"""A gateway that runs in this process, for what only its own loop can be asked: its clock, its resolver, its steps.

Knows: how to run and end one. Must not know: what is asked of it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gateway import app, generation

#: Seconds after which a change must be live, once it is complete (docs/configuration.md).
LIVE = 2.0


@asynccontextmanager
async def here(source: generation.Source, path: Path) -> AsyncIterator[app.Gateway]:
    """A running gateway, with the files as `source` has read them; `path` is its configuration file."""
    running = app.Gateway(path, None, source)
    thresholds = gc.get_threshold()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(running.run(source))
            try:
                await until(lambda: hasattr(running, "_now"))
                yield running
            finally:
                running._stop()
                running._stop()
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


async def serving(running: app.Gateway) -> None:
    """Until calls go through: its ports are open, its providers known, its models served."""
    await until(lambda: bool(running._door.listener._listening) and running.ready(), 10)


async def until(true: Callable[[], bool], limit: float = LIVE) -> None:
    """Ask again and again, while the loop goes on; raises `TimeoutError` after `limit` seconds."""
    async with asyncio.timeout(limit):
        while not true():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)

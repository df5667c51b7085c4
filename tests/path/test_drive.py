"""Stepping a path by hand: it goes on where it waits, stops where it is stopped, and gives back what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.drive import Drive, Moment
from gateway.errors import ClientGone, NoBackend


@contextmanager
def held(story: list[str]) -> Iterator[None]:
    story.append("held")
    try:
        yield
    finally:
        story.append("given back")


def test_a_path_that_never_waits_is_done_after_one_step() -> None:
    story: list[str] = []

    async def path() -> None:
        story.append("done")

    drive = Drive(path())
    drive.step()

    assert (story, drive.done) == (["done"], True)


def test_a_moment_resumes_the_path_before_fire_returns() -> None:
    story: list[str] = []
    moment = Moment()

    async def path() -> None:
        with held(story):
            await moment
        story.append("done")

    drive = Drive(path())
    drive.step()
    assert story == ["held"]
    moment.fire()
    moment.fire()

    assert story == ["held", "given back", "done"]


def test_a_moment_that_fired_before_is_not_waited_for() -> None:
    moment = Moment()
    moment.fail(NoBackend())
    seen: list[str] = []

    async def path() -> None:
        try:
            await moment
        except NoBackend:
            seen.append("refused")

    Drive(path()).step()

    assert seen == ["refused"]


def test_stopping_raises_where_the_path_waits_and_a_late_moment_does_nothing() -> None:
    story: list[str] = []
    moment = Moment()

    async def path() -> None:
        try:
            with held(story):
                await moment
        except ClientGone:
            story.append("gone")

    drive = Drive(path())
    drive.step()
    drive.stop(ClientGone())
    moment.fire()
    drive.stop(ClientGone())

    assert story == ["held", "given back", "gone"]
    assert drive.done


async def test_an_asyncio_future_resumes_the_path_and_can_be_stopped_too() -> None:
    story: list[str] = []
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    reached = asyncio.Event()

    async def path() -> None:
        story.append(await first)
        reached.set()
        try:
            await second
        except ClientGone:
            story.append("gone")

    drive = Drive(path())
    drive.step()
    first.set_result("one")
    await asyncio.wait_for(reached.wait(), 5)
    drive.stop(ClientGone())
    second.set_result("two")

    assert story == ["one", "gone"]


def test_what_a_path_raises_comes_out() -> None:
    async def path() -> None:
        raise ValueError("a fault")

    drive = Drive(path())
    with pytest.raises(ValueError, match="a fault"):
        drive.step()
    assert drive.done

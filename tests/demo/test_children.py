"""The demo's processes: found when they fail, stopped whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.demo.children import Child, PartFailed, family


async def test_a_part_that_cannot_start_is_named_with_its_own_words(tmp_path: Path) -> None:
    async with family() as children:
        child = await children.start("nim-1", tmp_path / "log", "simulate", "nim", "--failure-rate", "7")
        with pytest.raises(PartFailed, match=r"nim-1 did not start: .*between 0 and 1"):
            await child.address()


async def test_a_part_that_ends_by_itself_is_found(tmp_path: Path) -> None:
    async with family() as children:
        child = await children.start("nim-1", tmp_path / "log", "simulate", "nim", "--port", "0")
        await child.address()
        child.process.kill()
        with pytest.raises(PartFailed, match="nim-1 ended with code -9"):
            await child.watch()


async def started_then_broken(folder: Path, started: list[Child]) -> None:
    """Start two parts, and fail at the work that they were started for."""
    async with family() as children:
        for name in ("one", "two"):
            child = await children.start(name, folder / name, "simulate", "nim", "--port", "0")
            await child.address()
            started.append(child)
        raise ZeroDivisionError


async def test_all_are_stopped_when_the_work_fails(tmp_path: Path) -> None:
    started: list[Child] = []
    with pytest.raises(ZeroDivisionError):
        await started_then_broken(tmp_path, started)
    assert [child.process.returncode for child in started] == [0, 0]

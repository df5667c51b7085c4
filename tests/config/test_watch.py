"""Each way to change a file is noticed once, when it is complete; nothing else is."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.watch import Settling, Watcher, contents

QUICK = 0.02  # seconds between two reads here
LIVE = 2.0  # seconds in which a change must be told


class CountingPath(type(Path())):  # type: ignore[misc]
    """A path that is not there and knows how often somebody looked."""

    looks = 0

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        self.looks += 1
        return Path.stat(self, follow_symlinks=follow_symlinks)


class Told:
    """Counts what a watcher of `paths` tells."""

    def __init__(self, *paths: Path) -> None:
        self._counting = CountingPath(paths[0].parent / "missing")
        self.watcher = Watcher(self._with(paths), QUICK)
        self.count = 0
        self._news = asyncio.Event()

    async def run(self) -> None:
        async for _ in self.watcher.changes():
            self.count += 1
            self._news.set()

    async def more(self) -> None:
        """Wait for the next, within the promised time."""
        self._news.clear()
        await asyncio.wait_for(self._news.wait(), LIVE)

    def set_paths(self, *paths: Path) -> None:
        self.watcher.set_paths(self._with(paths))

    async def reads(self) -> None:
        """Let it read three times at least, one more than it takes to tell a change."""
        enough = self._counting.looks + 8  # a read looks twice at most, and one may be under way
        async with asyncio.timeout(LIVE):
            while self._counting.looks < enough:  # noqa: ASYNC110  the reads are in a thread and tell nobody
                await asyncio.sleep(QUICK / 4)

    def _with(self, paths: tuple[Path, ...]) -> list[Path]:
        return [*paths, self._counting]


def swap(folder: Path, name: str, content: str, stamp: float = 1_700_000_000.0) -> None:
    """What the kubelet does when a ConfigMap changes, with the same size and times."""
    fresh = folder / f"..{name}"
    fresh.mkdir()
    (fresh / "policy.yaml").write_text(content)
    os.utime(fresh / "policy.yaml", (stamp, stamp))
    before = os.readlink(folder / "..data") if (folder / "..data").is_symlink() else None
    (folder / "..data_tmp").symlink_to(fresh.name)
    (folder / "..data_tmp").replace(folder / "..data")
    if before is not None:
        shutil.rmtree(folder / before)


@pytest.mark.parametrize("watched", ["folder", "file"])
async def test_a_config_map_swap_is_told_each_time(tmp_path: Path, watched: str) -> None:
    """B094."""
    swap(tmp_path, "a", "rule: 0")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    told = Told(tmp_path if watched == "folder" else tmp_path / "policy.yaml")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        for count, name in enumerate("bcd", 1):
            swap(tmp_path, name, f"rule: {count}")
            await told.more()
            await told.reads()
            assert told.count == count
        task.cancel()


def in_place(path: Path) -> None:
    path.write_text("new")


def by_rename(path: Path) -> None:
    (path.parent / ".tmp").write_text("new")
    (path.parent / ".tmp").replace(path)


def away(path: Path) -> None:
    path.replace(path.parent / "moved")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [in_place, by_rename, away, emptied])
async def test_each_way_to_change_a_file_is_told_once(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text("old")
    told = Told(path)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        change(path)
        await told.more()
        path.unlink(missing_ok=True)
        path.write_text("made again")
        await told.more()
        await told.reads()
        assert told.count == 2
        task.cancel()


async def test_what_leaves_the_content_alone_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("same")
    told = Told(path, tmp_path)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        path.touch()
        by_rename(path)
        path.write_text("same")
        (tmp_path / "notes.txt").write_text("no policy")
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "deep.yaml").write_text("no policy either")
        await told.reads()
        assert told.count == 0
        task.cancel()


async def test_files_are_read_outside_of_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hung network drive would otherwise stop every call."""
    path = tmp_path / "a.yaml"
    path.write_text("old")
    told = Told(path)
    threads: set[str] = set()
    whole = Path.stat

    def noting(self: Path, **options: bool) -> os.stat_result:
        threads.add(threading.current_thread().name)
        return whole(self, **options)

    monkeypatch.setattr(Path, "stat", noting)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        path.write_text("new")
        await told.more()
        task.cancel()
    assert threads
    assert threading.main_thread().name not in threads


async def test_new_paths_are_watched_and_are_no_change_in_themselves(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("a")
    second.write_text("b")
    told = Told(first)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        told.set_paths(second, first)
        await told.reads()
        assert told.count == 0
        second.write_text("c")
        await told.more()
        told.set_paths(first)
        second.write_text("d")
        await told.reads()
        assert told.count == 1
        task.cancel()


async def test_a_change_during_a_change_of_paths_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a")
    told = Told(path)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        path.write_text("b")
        told.set_paths(path, tmp_path / "c.yaml")
        await told.more()
        task.cancel()


STATES = st.lists(st.binary(min_size=1, max_size=1), max_size=30)


@given(STATES)
def test_a_change_is_told_only_when_two_reads_agree(states: list[bytes]) -> None:
    """B095: a file that is still being written looks different each time."""
    path = Path("a")
    settling = Settling({path: b"start"})
    told, before = b"start", b"start"
    for state in states:
        expected = state == before and state != told
        assert settling.see({path: state}) is expected
        told, before = (state if expected else told), state


async def test_a_file_written_slowly_is_told_once_it_rests(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("")
    reads = Settling(contents([path]))
    told = []
    for length in range(1, 20):
        path.write_text("x" * length)
        told.append(reads.see(contents([path])))
    assert not any(told)
    assert reads.see(contents([path]))


def digest(path: Path) -> bytes:
    return contents([path])[path]


def test_a_digest_tells_names_order_and_absence_apart(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    seen = [digest(folder)]
    folder.mkdir()
    seen.append(digest(folder))
    (folder / "a.yaml").write_text("")
    seen.append(digest(folder))
    (folder / "a.yaml").write_text("x")
    seen.append(digest(folder))
    (folder / "a.yaml").rename(folder / "b.yaml")
    seen.append(digest(folder))
    (folder / "a.yaml").write_text("y")
    seen.append(digest(folder))
    (folder / "a.yaml").write_text("x")
    (folder / "b.yaml").write_text("y")
    seen.append(digest(folder))
    assert len(set(seen)) == len(seen)
    assert digest(folder) == seen[-1]


def test_a_pipe_among_the_files_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    began = time.monotonic()
    assert len(contents([tmp_path, tmp_path / "a.yaml"])) == 2
    assert time.monotonic() - began < LIVE

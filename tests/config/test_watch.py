"""Each way to change a file is noticed once, when it is complete; nothing else is."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.watch import UNKNOWN, Content, Pace, Settling, Watcher, contents
from tests.parts.volume import STAMP, swap

QUICK = Pace(0.02, 0.03, 0.05)
SLOW = Pace(0.02, 600, 600)  # no change is told
LIVE = 2.0  # seconds in which a change must be told


class CountingPath(type(Path())):  # type: ignore[misc]
    """A path that is not there and knows how often somebody looked."""

    looks = 0

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        self.looks += 1
        return Path.stat(self, follow_symlinks=follow_symlinks)


class Told:
    """Counts what a watcher of `paths` tells."""

    def __init__(self, *paths: Path, pace: Pace = QUICK) -> None:
        self._counting = CountingPath(paths[0].parent / "missing")
        self.watcher = Watcher(contents(self._with(paths)), pace=pace)
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
        told = self.watcher.told
        self.watcher.set_files({path: told.get(path) or contents([path])[path] for path in self._with(paths)})

    async def reads(self) -> None:
        """Let it read five times at least, one more than it takes to tell a change."""
        enough = self._counting.looks + 12  # a read looks twice at most, and one may be under way
        async with asyncio.timeout(LIVE):
            while self._counting.looks < enough:  # noqa: ASYNC110  the reads are in a thread and tell nobody
                await asyncio.sleep(QUICK.interval / 4)

    def _with(self, paths: tuple[Path, ...]) -> list[Path]:
        return [*paths, self._counting]


@pytest.mark.parametrize("watched", ["folder", "file"])
async def test_a_config_map_swap_is_told_each_time(tmp_path: Path, watched: str) -> None:
    """B094."""
    swap(tmp_path, "a", {"policy.yaml": "rule: 0"})
    told = Told(tmp_path if watched == "folder" else tmp_path / "policy.yaml")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        for count, name in enumerate("bcd", 1):
            swap(tmp_path, name, {"policy.yaml": f"rule: {count}"})
            await told.more()
            await told.reads()
            assert told.count == count
        task.cancel()


@pytest.mark.parametrize("watched", ["current", "current/policy.yaml"])
async def test_a_link_to_the_folder_that_leads_to_another_is_told_each_time(tmp_path: Path, watched: str) -> None:
    """B094: as git-sync and releases of Capistrano's kind do, with the same sizes and times."""
    for name in "abcd":
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(f"rule: {name}")
        os.utime(tmp_path / name / "policy.yaml", (STAMP, STAMP))
    (tmp_path / "current").symlink_to("a")
    told = Told(tmp_path / watched)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        for count, name in enumerate("bcd", 1):
            (tmp_path / "next").symlink_to(name)
            (tmp_path / "next").replace(tmp_path / "current")
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


async def test_what_changed_after_it_was_read_is_told(tmp_path: Path) -> None:
    """A watcher begins with what was read, not with what is there when it begins."""
    path = tmp_path / "a.yaml"
    path.write_text("read")
    read = contents([path])
    path.write_text("changed at once")
    for known in (read, {path: UNKNOWN}):
        async with asyncio.timeout(LIVE):
            await anext(Watcher(known, pace=QUICK).changes())


async def test_whoever_asks_is_told_although_nothing_changed_and_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("same")
    told = Told(path)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        told.watcher.ask()
        await told.more()
        await told.reads()
        assert told.count == 1
        task.cancel()


async def test_who_asks_does_not_wait_for_the_next_look(tmp_path: Path) -> None:
    watcher = Watcher(contents([tmp_path / "a.yaml"]), pace=Pace(interval=600))
    watcher.ask()
    async with asyncio.timeout(LIVE):
        await anext(watcher.changes())


async def test_who_asks_amid_a_change_waits_until_it_has_rested(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("old")
    told = Told(path, pace=SLOW)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.run())
        path.write_text("ne")
        for _ in range(3):
            told.watcher.ask()
            await told.reads()
        assert told.count == 0
        path.write_text("old")
        await told.more()
        task.cancel()


PATH = Path("a")
PLACES = [(1, 1), (1, 2)]
STATES = st.lists(
    st.tuples(st.sampled_from("ABC"), st.sampled_from(PLACES), st.integers(1, 20), st.booleans()), max_size=30
)


def holding(text: str, place: tuple[int, int] = PLACES[0]) -> dict[Path, Content]:
    return {PATH: Content(text.encode(), {"a": (text.encode(), place)})}


@given(STATES)
def test_a_change_is_told_only_when_it_has_rested(states: list[tuple[str, tuple[int, int], int, bool]]) -> None:
    """B095: a file that is still being written looks different each time, or rests for less than a moment."""
    pace = Pace(1, 5, 9)
    settling = Settling(holding("A"), pace)
    told, before, since, clock = "A", "A", 0, 0
    for text, place, passed, asked in states:
        clock += passed
        seen = settling.see(holding(text, place), clock, clock, asked=asked)
        if seen and text != told:
            assert text == before
            assert clock - since >= pace.whole
        if seen and text == told:
            assert asked
            assert text == before
        if text == before and (asked if text == told else clock - since >= pace.written):
            assert seen, "never is a change held up for ever"
        since = since if text == before else clock
        told, before = (text if seen else told), text


def rested(settling: Settling, now: dict[Path, Content]) -> float:
    """Seconds after the first look at `now` when it is told."""
    settling.see(now, 100.0, 100.0)
    return next(step / 4 for step in range(1, 100) if settling.see(now, 100 + step / 4, 100 + step / 4))


def test_what_took_the_place_of_a_file_is_whole_sooner_than_what_was_written_in_it() -> None:
    """B095: half of a rewritten policy may hold all that allows and nothing that denies."""
    assert rested(Settling(holding("AB", PLACES[0]), Pace()), holding("CD", PLACES[1])) == 1.0
    assert rested(Settling(holding("AB"), Pace()), {PATH: Content(b"gone")}) == 1.0
    assert rested(Settling(holding("AB"), Pace()), holding("A")) == 1.5
    assert rested(Settling({PATH: Content(b"none")}, Pace()), holding("A")) == 1.5


def test_a_file_that_is_written_on_after_it_took_the_place_of_another_is_not_whole() -> None:
    settling = Settling(holding("AB", PLACES[0]), Pace())
    settling.see(holding("C", PLACES[1]), 1.0, 1.0)
    assert rested(settling, holding("CD", PLACES[1])) == 1.5


def test_the_time_that_a_slow_look_takes_is_no_rest() -> None:
    settling = Settling(holding("A"), Pace())
    assert not settling.see(holding("B"), 0.0, 5.0)
    assert not settling.see(holding("B"), 5.1, 60.0)


@pytest.mark.parametrize(
    ("change", "written"),
    [
        (lambda path: path.write_text("new"), True),
        (lambda path: path.write_text("ol"), True),
        (by_rename, False),
        (lambda path: path.unlink(), False),
        (lambda path: path.with_name("b.yaml").write_text("more"), True),
    ],
)
def test_a_file_written_in_place_is_told_from_one_put_in_its_place(
    tmp_path: Path, change: Callable[[Path], None], written: bool
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("old")
    before = contents([tmp_path])[tmp_path]
    change(path)
    now = contents([tmp_path])[tmp_path]
    assert now != before
    assert now.written_since(before) is written


def test_a_change_leaves_time_to_be_read_within_two_seconds() -> None:
    for rest in (Pace().whole, Pace().written):
        looks = -(-rest // Pace().interval)
        assert (looks + 1) * Pace().interval <= LIVE - 0.25


def digest(path: Path) -> bytes:
    return contents([path])[path].digest


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


def test_what_is_not_read_of_a_folder_is_no_change(tmp_path: Path) -> None:
    """Else an editor's swap file or a working copy would hold up the rules, or load them again and again."""
    (tmp_path / "a.yaml").write_text("x")
    before = digest(tmp_path)
    for name in (".a.yaml", ".a.yaml.swp", "a.yaml~", "README.md", "b.yml", "#a.yaml#"):
        (tmp_path / name).write_text(name)
    for name in (".git", "tests", "folder.yaml"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "c.yaml").write_text(name)
    assert digest(tmp_path) == before
    (tmp_path / "b.yaml").write_text("")
    assert digest(tmp_path) != before


def test_a_pipe_among_the_files_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    began = time.monotonic()
    assert len(contents([tmp_path, tmp_path / "a.yaml"])) == 2
    assert time.monotonic() - began < LIVE

"""Put a folder of files in the place of another one, all of them at once.

Knows: renames, modes and owners. Must not know: what is in the files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from gateway.config.folder import policies_in
from gateway.config.replace import adopt, settle


def swap(
    folder: Path, texts: Iterable[tuple[str, bytes]], aside: Path, replaced: Callable[[Path], bool], beside: Path | None
) -> list[str]:
    """Make `texts` (names and contents) what stands in `folder`, in place of each entry that is `replaced`.

    There is no moment at which some of the new files stand there with some of the old: the new ones are written beside,
    then the folder is renamed to `aside` (what lies there is dropped) and the new one to its name. All other entries
    move along, but those that cannot and are named; `beside`, a folder, is copied to where the entry of its name was.
    Raises `OSError`, and then nothing has changed.
    """
    before = folder.stat()
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _fill(made, texts, folder, before)
        if beside is not None:
            shutil.copytree(beside, made / beside.name)
        _exchange(folder, made, aside)
    finally:
        with suppress(OSError):
            shutil.rmtree(made)
    left = []
    for entry in sorted(aside.iterdir()):
        if not replaced(entry) and not (folder / entry.name).exists():
            try:
                entry.rename(folder / entry.name)
            except OSError:
                left.append(entry.name)
    settle(folder)
    settle(folder.parent)
    return left


def _fill(made: Path, texts: Iterable[tuple[str, bytes]], folder: Path, before: os.stat_result) -> None:
    """The new files, as readable as the old ones of their names, or else as any old file."""
    others = [entry.stat() for entry in policies_in(folder) if entry.is_file()]
    for name, text in texts:
        old = folder / name
        with (made / name).open("xb") as file:
            if old.is_file() or others:
                adopt(file.fileno(), old.stat() if old.is_file() else others[0])
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        adopt(descriptor, before)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(folder: Path, made: Path, aside: Path) -> None:
    """Two renames; between them there is no folder, which whoever watches it takes for no change that has rested."""
    dropped = Path(tempfile.mkdtemp(prefix=f".{aside.name}.", dir=folder.parent))
    try:
        if aside.exists():
            aside.rename(dropped / aside.name)
        folder.rename(aside)
        try:
            made.rename(folder)
        except BaseException:
            aside.rename(folder)
            raise
    finally:
        with suppress(OSError):
            shutil.rmtree(dropped)

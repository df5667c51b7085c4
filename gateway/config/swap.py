"""Put a folder of files in the place of another one, all of them at once.

Knows: renames, modes and owners. Must not know: what is in the files.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from gateway.config.folder import policies_in
from gateway.config.replace import adopt, settle

# renameat2(2): paths are relative to the working directory, and both names change hands.
_HERE: Final = -100
_EXCHANGE: Final = 2
#: What it says where the kernel, the file system or the C library cannot do that.
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP})


def free(wanted: Path) -> Path:
    """`wanted`, or where something has that name, the same with the first number behind it that is free.

    What lies there may be somebody's work, whatever its name says: nothing is put in its place.
    """
    names = (wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}") for number in count(1))
    return next(name for name in names if not os.path.lexists(name))


def swap(
    folder: Path, texts: Iterable[tuple[str, bytes]], aside: Path, replaced: Callable[[Path], bool], beside: Path | None
) -> list[str]:
    """Make `texts` (names and contents) what stands in `folder`, in place of each entry that is `replaced`.

    There is no moment at which some of the new files stand there with some of the old: the new ones are written beside,
    then the folders change names, and the old one is called `aside`, a name that is free. All other entries move along,
    but those that cannot and are named; `beside`, a folder, is copied to where the entry of its name was.
    Raises `OSError`, and then nothing has changed.
    """
    before = folder.stat()
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _fill(made, texts, folder, before)
        if beside is not None:
            shutil.copytree(beside, made / beside.name)
    except BaseException:
        _drop(made)
        raise
    _exchange(folder, made, aside)
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
    """`folder` becomes `aside`, `made` becomes `folder`. Raises `OSError`, and then nothing has changed.

    Where the system cannot exchange two names, there is no folder for a moment, which whoever watches it takes for no
    change that has rested; killed in it, `aside` is what there is, and renaming it puts everything back.
    """
    try:
        exchanged = _exchanged(folder, made)
        if not exchanged:
            _renamed(folder, made, aside)
    except BaseException:
        _drop(made)
        raise
    if exchanged:
        try:
            made.rename(aside)
        except BaseException:
            if _exchanged(folder, made):  # else it is the old one that is called so
                _drop(made)
            raise


def _renamed(folder: Path, made: Path, aside: Path) -> None:
    folder.rename(aside)
    try:
        made.rename(folder)
    except BaseException:
        aside.rename(folder)
        raise


def _drop(made: Path) -> None:
    """What was written here, and copied; nothing that anybody else has put anywhere."""
    with suppress(OSError):
        shutil.rmtree(made)


def _exchanged(one: Path, other: Path) -> bool:
    """Whether the system gave each the other's name, both at once. Raises `OSError`."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one))

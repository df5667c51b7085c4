"""Policies that were in force, kept so that what they decided can be decided again.

Each is a folder, named by its digest, of the very files; so what is read there is what was written, or is refused.
Knows: folders, digests, which one is the oldest. Blocks on files. Must not know: how rules decide, event loops.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.config import yamlfile
from gateway.config.mistakes import Mistakes
from gateway.policy.files import DIGEST_DIGITS, FILES_LIMIT, Written, again

_DIGEST: Final = re.compile(rf"[0-9a-f]{{{DIGEST_DIGITS}}}")
_UNFINISHED: Final = re.compile(rf"\.[0-9a-f]{{{DIGEST_DIGITS}}}\.[0-9a-f]{{16}}")

# What a write that was cut short has left is removed after so many seconds; no write takes that long.
_STALE: Final = 3600.0

# Nobody else reads rules, which name people and groups; a group of the system may, for those who explain decisions.
_FOLDER_MODE: Final = 0o750
_FILE_MODE: Final = 0o640


class NotKept(Exception):  # noqa: N818  named for what happened, like the refusals
    """A policy that is not there, or is not what it was. The text says which, and what to do."""


def keep(folder: Path, policy: Written, most: int, in_force: Callable[[], str]) -> None:
    """Put the policy into `folder`, whole or not at all, and remove the oldest beyond `most`.

    The one whose digest is `in_force` when it comes to that stays. The folder is made where its parent exists. Raises
    `OSError`.
    """
    with suppress(FileExistsError):
        folder.mkdir(_FOLDER_MODE)
    kept = folder / policy.digest
    if _holds(kept, policy):
        os.utime(kept)
    else:
        _write(kept, policy)
    _prune(folder, most, {policy.digest, in_force()})


def digests(folder: Path) -> list[str]:
    """Those that are kept, the newest first. Raises `OSError`."""
    with os.scandir(folder) as entries:
        kept = [
            (entry.stat(follow_symlinks=False).st_mtime, entry.name)
            for entry in entries
            if _DIGEST.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    return [name for _, name in sorted(kept, reverse=True)]


def load(folder: Path, digest: str, shown: Path) -> Written:
    """The policy of this digest, its rules placed as if its files lay in the folder `shown`, where they came from.

    Raises `NotKept`.
    """
    if not _DIGEST.fullmatch(digest):
        raise NotKept(f"{digest!r} is not the digest of a policy")
    kept = folder / digest
    try:
        texts = _texts(kept)
        policy = again(texts, shown)
    except FileNotFoundError:
        raise NotKept(f"policy {digest} is not kept in {folder}; raise policies.keep to keep more") from None
    except OSError as error:
        raise NotKept(f"policy {digest} in {folder} cannot be read: {error.strerror}") from None
    except Mistakes as mistakes:
        raise NotKept(f"policy {digest} in {folder} is not what it was: {mistakes.mistakes[0]}") from None
    if policy.digest != digest:
        raise NotKept(f"policy {digest} in {folder} is not what it was: somebody changed its files")
    return policy


def _texts(kept: Path) -> tuple[tuple[str, bytes], ...]:
    """The files of one policy in the order of their names. Raises `OSError` or `Mistakes`."""
    files = sorted(kept.iterdir())[: FILES_LIMIT + 1]  # one more than there can be is another policy already
    return tuple((file.name, yamlfile.read_bytes(file)) for file in files)


def _holds(kept: Path, policy: Written) -> bool:
    try:
        return _texts(kept) == policy.texts
    except (OSError, Mistakes):
        return False


def _write(kept: Path, policy: Written) -> None:
    unfinished = kept.parent / f".{kept.name}.{secrets.token_hex(8)}"
    unfinished.mkdir(_FOLDER_MODE)
    try:
        for name, text in policy.texts:
            _write_file(unfinished / name, text)
        _sync(unfinished)
        if kept.exists():
            _remove(kept)  # it is not what its name says
        with suppress(FileExistsError):
            _take_name(unfinished, kept)
        _sync(kept.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _take_name(unfinished: Path, kept: Path) -> None:
    """Raises `FileExistsError` where another process was faster, with the same files."""
    try:
        unfinished.rename(kept)
    except OSError:
        if kept.is_dir():
            raise FileExistsError from None
        raise


def _write_file(path: Path, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def _sync(folder: Path) -> None:
    """What was made in it lasts, also when the power fails."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prune(folder: Path, most: int, spared: set[str]) -> None:
    for name in digests(folder)[most:]:
        if name not in spared:
            _remove(folder / name)
    for left in _stale(folder):
        shutil.rmtree(left, ignore_errors=True)


def _remove(kept: Path) -> None:
    """Under another name first, so that nobody finds half of it."""
    leaving = kept.parent / f".{kept.name}.{secrets.token_hex(8)}"
    kept.rename(leaving)
    if leaving.is_dir() and not leaving.is_symlink():
        shutil.rmtree(leaving, ignore_errors=True)
    else:
        leaving.unlink()


def _stale(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if _UNFINISHED.fullmatch(entry.name):
            with suppress(OSError):
                if time.time() - entry.lstat().st_mtime > _STALE:
                    yield entry

"""Which files of a folder are read: one answer for whoever reads, watches or replaces them.

Knows: names and kinds of files. Must not know: what is in them.
"""

from __future__ import annotations

from pathlib import Path


def is_policy(entry: Path) -> bool:
    """Whether an entry of a folder of policies is one: `*.yaml`, neither hidden nor a folder. Raises `OSError`."""
    return entry.suffix == ".yaml" and not entry.name.startswith(".") and not entry.is_dir()


def policies_in(folder: Path) -> list[Path]:
    """Those in the folder, none of subfolders, in the order of their names. Blocks. Raises `OSError`."""
    return sorted(entry for entry in folder.iterdir() if is_policy(entry))

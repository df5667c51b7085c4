"""A folder of files as Kubernetes mounts a ConfigMap: links, through another link, into a hidden folder.

Knows: how such a folder changes. Must not know: what is in the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

STAMP = 1_700_000_000.0


def swap(folder: Path, name: str, files: Mapping[str, str]) -> None:
    """What the kubelet does when a ConfigMap changes, at the worst: the same sizes and times, and the old files gone.

    `name` is that of the hidden folder, without its dots; another one each time.
    """
    fresh = folder / f"..{name}"
    fresh.mkdir()
    for file, content in files.items():
        (fresh / file).write_text(content)
        os.utime(fresh / file, (STAMP, STAMP))
    data = folder / "..data"
    before = os.readlink(data) if data.is_symlink() else None
    (folder / "..data_tmp").symlink_to(fresh.name)
    (folder / "..data_tmp").replace(data)
    for file in files:
        if not (folder / file).is_symlink():
            (folder / file).symlink_to(f"..data/{file}")
    if before is not None:
        shutil.rmtree(folder / before)

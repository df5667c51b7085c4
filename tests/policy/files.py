"""Policy files that differ from a good one in what a test is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.mistakes import Mistakes
from gateway.policy.files import load


def one(**changes: str) -> str:
    """A file of one rule; each change is a setting as it is written, "" leaves the setting out."""
    written = {"id": "r", "effect": "allow", "subjects": "{groups: [g]}", "models": "[m]", **changes}
    lines = [f"{name.strip('_')}: {value}" for name, value in written.items() if value]
    return "version: 1\nrules:\n  - " + "\n    ".join(lines) + "\n"


def wrong(path: Path) -> list[str]:
    """The mistakes in `path`, without the folder's name."""
    with pytest.raises(Mistakes) as caught:
        load(path)
    folder = path if path.is_dir() else path.parent
    return [str(mistake).replace(f"{folder}/", "") for mistake in caught.value.mistakes]


def put(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder

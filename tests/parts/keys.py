"""A file of API keys, changed with the command as an operator does.

Knows: the command's words. Must not know: the form of the file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.parts.process import ROOT


class KeyFile:
    """The file at `path`, which begins without a key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("version: 1\nkeys: []\n")

    def create(self, *words: str) -> str:
        """A new key: of `batch` in data-science, unless `words` say otherwise."""
        return self._run("create", *(words or ("--owner", "batch", "--groups", "data-science")))

    def revoke(self, key: str) -> None:
        """Let it hold no more."""
        self._run("revoke", key)

    def _run(self, *words: str) -> str:
        line = [sys.executable, "-m", "gateway", "key", *words, "--file", str(self.path)]
        return subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

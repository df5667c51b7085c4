"""Names are kept out of the dead-code check only as long as it would take them for unused."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALIVE = [line for line in (ROOT / "tests/checks/alive.txt").read_text().splitlines() if line[:1] not in {"", "#"}]
PLACES = re.search(r"/vulture (.+) --ignore-names", (ROOT / "Makefile").read_text())


def test_each_name_that_is_kept_alive_would_be_taken_for_unused() -> None:
    assert PLACES is not None
    found = subprocess.run(
        [sys.executable, "-m", "vulture", *PLACES[1].split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    unused = set(re.findall(r"unused \w+ '(\w+)'", found.stdout))

    assert [name for name in ALIVE if not any(fnmatchcase(one, name) for one in unused)] == []

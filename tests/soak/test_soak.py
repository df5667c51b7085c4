"""The soak in small: everybody at once for some seconds, and all is level afterwards. `make soak` takes ten minutes."""

from __future__ import annotations

import subprocess
import sys

from tests.parts.process import ROOT

SECONDS = "8"


def test_after_mixed_and_hostile_traffic_everything_is_where_it_was() -> None:
    """M26: descriptors, tasks, calls and connections exactly; every good call was answered, with what was its own."""
    command = [sys.executable, "-m", "soak", "--seconds", SECONDS, "--without-real"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=270, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

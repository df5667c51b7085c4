"""A bar for long work."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from itertools import repeat

import pytest

from gateway.progress import progress

# Longer than the time that a bar waits before it shows.
LONG = """
import time
from gateway.progress import progress
for size in progress([1000] * 30, "reading", total=30000, size=int):
    time.sleep(0.06)
"""


def test_the_items_come_as_they_were() -> None:
    assert list(progress(iter("abc"), "counting")) == ["a", "b", "c"]
    assert list(progress([3, 4], "counting", total=7, size=int)) == [3, 4]


def test_nothing_is_written_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    assert sum(progress(repeat(1, 100_000), "counting", total=100_000)) == 100_000

    assert capsys.readouterr() == ("", "")


def test_long_work_shows_its_name_and_how_far_it_is_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen([sys.executable, "-c", LONG], stderr=theirs, stdout=subprocess.PIPE) as work:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the terminal is gone with the process
            pass
        finally:
            os.close(ours)
        assert work.communicate()[0] == b""

    assert b"reading" in shown
    assert b"%" in shown
    assert b"/30.0k" in shown.replace(b"kB", b"k")

"""Processes under test are counted with their children and ended by their own id."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from bench.process import Running, StartFailedError, free_ports, pinned, tree

LISTEN = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); s.accept(); input()"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]])"


def test_children_belong_to_the_server_and_end_with_it(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    core = min(os.sched_getaffinity(0))
    server = Running("parent", [sys.executable, "-c", PARENT, str(port), LISTEN], core, tmp_path / "log", tmp_path)
    try:
        server.await_port(port)
        family = tree(server.pid)
        assert len(family) == 2
        assert all(os.sched_getaffinity(one) == {core} for one in family)
        assert server.cpu() > 0
        assert server.resident() > sum(1024 * 1024 for _ in family)
    finally:
        server.stop()
    deadline = time.monotonic() + 5
    while any(alive(one) for one in family):
        assert time.monotonic() < deadline, "something is left running"


def alive(pid: int) -> bool:
    """Whether it runs: a zombie that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-c", "raise SystemExit('no such certificate')"]
    server = Running("broken", command, min(os.sched_getaffinity(0)), tmp_path / "log", tmp_path)
    with pytest.raises(StartFailedError, match="no such certificate"):
        server.await_port(port)
    server.stop()


def test_starting_something_elsewhere_leaves_this_process_where_it_was() -> None:
    before = os.sched_getaffinity(0)
    with pinned(min(before)):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_ports_given_out_together_differ_and_are_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))

"""A command of policies that fails in itself gives no answer that a pipeline could take for one."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli.policy import ACTIONS

ARGUMENTS = {
    "explain": ["--model", "m"],
    "diff": ["old", "new"],
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_fault_is_told_in_one_line_and_never_taken_for_an_answer(
    action: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_args: object) -> int:
        raise AssertionError("a secret")

    monkeypatch.setattr(importlib.import_module(ACTIONS[action]), "run", fail)
    assert main(["policy", action, *ARGUMENTS.get(action, [])]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert (printed.out, "secret" in line) == ("", False)
    assert f"policy {action} gives no answer" in line
    assert "AssertionError in test_policy_faults.py, line" in line


def test_a_fault_of_audit_verify_does_not_say_that_something_was_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_args: object) -> int:
        raise AssertionError("a secret")

    monkeypatch.setattr(importlib.import_module("gateway.cli.audit"), "_verify", fail)
    assert main(["audit", "verify", "x"]) == 2
    assert capsys.readouterr().err.startswith("nim-gateway: audit verify gives no answer, for it has a fault")


RULES = """version: 1
rules:
  - {id: a, effect: allow, subjects: {users: [ann]}, models: ["m"]}
"""


def commands(folder: Path) -> list[list[str]]:
    """Some that would end with 0."""
    (folder / "p.yaml").write_text(RULES)
    (folder / "c.yaml").write_text("version: 1\ncases:\n  - {name: a, subject: {user: ann}, model: m, expect: allow}\n")
    (folder / "audit.log").write_text("")
    site = ["--policies", str(folder / "p.yaml")]
    return [
        ["policy", "explain", *site, "--user", "ann", "--model", "m"],
        ["policy", "explain", *site, "--user", "ann", "--model", "m", "--json"],
        ["policy", "lint", *site],
        ["policy", "test", *site, str(folder / "c.yaml")],
        ["policy", "diff", site[1], site[1]],
        ["policy", "diff", site[1], site[1], "--json"],
    ]


@pytest.mark.parametrize("number", range(6))
def test_an_answer_that_cannot_be_written_is_none(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "gateway", *commands(tmp_path)[number]]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (2, b"nim-gateway: No space left on device\n")


@pytest.mark.parametrize("number", range(6))
def test_who_reads_no_further_is_told_nothing(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "gateway", *commands(tmp_path)[number]]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (2, b"")


def test_ctrl_c_ends_a_command_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(RULES)
    os.mkfifo(tmp_path / "audit.log")
    command = ["policy", "explain", "--policies", str(tmp_path / "p.yaml"), "--audit", str(tmp_path / "audit.log")]
    with (
        subprocess.Popen([sys.executable, "-m", "gateway", *command], stderr=subprocess.PIPE) as running,
        (tmp_path / "audit.log").open("wb"),  # once this is open, the command reads
    ):
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (130, b"")

"""A command of policies that fails in itself gives no answer that a pipeline could take for one."""

from __future__ import annotations

import importlib

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

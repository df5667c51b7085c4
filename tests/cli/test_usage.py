"""A slip on the command line is told where it is: with the usage of the very command."""

from __future__ import annotations

import pytest

from gateway.__main__ import main
from gateway.cli.policy import ACTIONS


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["policy", "explain", "--polices", "x"], "policy explain"),
        (["policy", "test", "--requires-coverage", "100"], "policy test"),
        (["key", "create", "--owners", "x"], "key create"),
        (["check", "--conf", "x", "--verbose"], "check"),
    ],
)
def test_an_option_that_is_unknown_shows_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str], words: list[str], command: str
) -> None:
    line = told(capsys, *words)
    assert line.startswith(f"usage: nim-gateway {command} [-h]")
    assert "unrecognized arguments: --" in line
    assert line.endswith(f"see nim-gateway {command} --help\n")


def test_a_command_without_its_action_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert "|".join(ACTIONS) in told(capsys, "policy").splitlines()[-1]
    assert "create|list|revoke" in told(capsys, "key").splitlines()[-1]

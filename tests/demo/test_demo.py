"""The demo as a whole, started as its users do."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Seconds; five processes start on two cores that may be busy.
SOON = 120.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(DEMO_PORT="0")`: the demo in a folder of its own, killed with the test if it still runs."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gateway", "demo", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=SOON)


def test_the_self_check_passes_and_names_each_call(start: Start, tmp_path: Path) -> None:
    process = start(DEMO_PORT="0", DEMO_SECONDS="100")
    output, errors = process.communicate(timeout=SOON)
    assert process.returncode == 0, output + errors
    verdicts = output.partition("checking the calls above:")[2]
    assert verdicts.count("  ok ") >= 12
    assert "FAILED" not in output
    for told in ("bob may not chat (curl)", "nobody may do anything", "no such model", "(openai", "(tritonclient"):
        assert told in verdicts or told.replace("(", "as ") in verdicts
    (audit,) = tmp_path.glob(".demo/*/audit.jsonl")
    command = [sys.executable, "-m", "gateway", "audit", "verify", str(audit)]
    verified = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_ctrl_c_stops_everything_that_was_started(start: Start) -> None:
    process = start(DEMO_PORT="0", DEMO_SECONDS="")
    assert process.stdout is not None
    ports: set[int] = set()
    for line in process.stdout:
        ports |= {int(port) for port in re.findall(r"(?:127\.0\.0\.1|localhost):(\d+)", line)}
        if "Ctrl-C" in line:
            break
    assert len(ports) == 6  # two NIMs, Triton, the identity provider, the gateway and its management port
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SOON)
    assert (process.returncode, errors) == (0, "")
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1.0)


def test_a_taken_port_is_one_clear_line_and_nothing_is_started(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start(DEMO_PORT=str(taken.getsockname()[1]), DEMO_SECONDS="")
        output, errors = process.communicate(timeout=SOON)
    assert (process.returncode, output) == (2, "")
    assert errors.count("\n") == 1
    assert "in use" in errors
    assert "DEMO_PORT" in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "environment",
    [
        {"DEMO_PORT": "x"},
        {"DEMO_PORT": "70000"},
        {"DEMO_SECONDS": "soon"},
        {"DEMO_SECONDS": "0"},
        {"DEMO_SECONDS": "nan"},
    ],
)
def test_a_number_that_is_none_is_one_clear_line(start: Start, environment: dict[str, str]) -> None:
    process = start(**environment)
    _, errors = process.communicate(timeout=SOON)
    assert process.returncode == 2
    assert errors.startswith("demo: ")
    assert errors.count("\n") == 1

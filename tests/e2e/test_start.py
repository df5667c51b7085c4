"""Starting up: quickly, with everything down, in little memory; and not at all with a bad configuration."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import StartGateway
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.process import ROOT, free_port, wait_until
from tests.parts.stub import Stub

MIB = 1024 * 1024


def down() -> str:
    """An address where nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


def test_it_serves_within_two_seconds_with_every_backend_and_provider_down(start_gateway: StartGateway) -> None:
    pools = [pool(f"p{number}", [f"m{number}"], *(down() for _ in range(3))) for number in range(3)]
    issuers = [oidc(down(), name=f"i{number}") for number in range(2)]
    gateway = start_gateway(pools, issuers=issuers, start=False)
    times: list[float] = []
    while not times or (min(times) >= 2.0 and len(times) < 5):  # a busy machine may be slow once
        began = time.monotonic()
        gateway.start()
        times.append(time.monotonic() - began)
        assert gateway.ask("POST", "/v1/chat/completions", body={"model": "m0"}, token="x").status == 401
        gateway.process.kill()
    assert min(times) < 2.0, times


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("reached", ["_yaml", "uvloop"])
def test_a_gateway_that_is_stopped_while_it_starts_ends_well(
    start_gateway: StartGateway, number: signal.Signals, reached: str
) -> None:
    """B132: wherever it is just then; the names are of libraries that are loaded one after the other."""
    gateway = start_gateway([pool("nim", ["m"], "http://127.0.0.1:1")], start=False)
    process = gateway.launch()
    loaded = Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: reached in loaded.read_text(), 30, f"{reached} being loaded")
    process.signal(signal.SIGHUP)  # which must not end it
    process.signal(number)
    assert process.wait() == 0


def test_an_idle_gateway_stays_small(start_gateway: StartGateway) -> None:
    with Stub() as stub:
        gateway = start_gateway([pool("nim", ["m"], stub.url)])
        gateway.backends_up("nim", 1)
        assert gateway.process.resident_bytes() < 120 * MIB


def test_many_calls_leave_no_descriptor_open(start_gateway: StartGateway) -> None:
    with Stub() as stub:
        gateway = start_gateway([pool("nim", ["m"], stub.url)])
        gateway.backends_up("nim", 1)
        before = gateway.process.open_files()
        for _ in range(50):
            assert gateway.ask("GET", "/v1/models").status == 401
        wait_until(lambda: gateway.process.open_files() <= before + 5, 10, "the connections being closed")


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", *(str(word) for word in words)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)


@pytest.fixture
def good(start_gateway: StartGateway) -> Gateway:
    return start_gateway([pool("nim", ["m"], down())], start=False)


def test_a_good_configuration_is_checked_without_asking_anybody(good: Gateway) -> None:
    done = run("check", "--config", good.config_file)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["check", "serve"])
def test_every_mistake_is_told_at_once_with_its_place(good: Gateway, command: str) -> None:
    text = good.config_file.read_text()
    text = text.replace("round_robin", "magic").replace("  port: ", "  prot: ", 1)
    text = text.replace("interval: 300ms", "interval: soon")
    good.config_file.write_text(text)
    done = run(command, "--config", good.config_file)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    for word in ("magic", "prot", "soon"):
        place = next(number for number, line in enumerate(text.splitlines(), 1) if word in line)
        start = rf"{re.escape(str(good.config_file))}:{place}:\d+: \w"
        assert [line for line in lines if re.match(start, line)], done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize("command", ["check", "serve"])
def test_mistakes_in_policies_and_certificates_are_told_as_well(good: Gateway, command: str) -> None:
    good.write_rules([{"id": "x", "effect": "perhaps", "subjects": {"groups": ["a"]}, "models": ["m"]}])
    good.config["listen"]["tls"]["certificate"] = str(good.folder / "absent.crt")
    good.write_config()
    done = run(command, "--config", good.config_file)
    assert done.returncode == 2
    assert "rules.yaml:" in done.stderr
    assert "absent.crt" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "serve"])
def test_what_comes_later_is_refused_and_not_left_out(good: Gateway, command: str) -> None:
    """B129: workers that would share numbers; B137: limits that would count nothing."""
    good.config["workers"] = 4
    good.write_config()
    good.write_rules([allow("limited", ["m"], limits={"concurrent": 4})])
    done = run(command, "--config", good.config_file)
    assert done.returncode == 2
    assert "more than one worker is not built yet" in done.stderr
    assert "'concurrent' comes with a later version" in done.stderr


def test_no_rule_at_all_refuses_to_start(good: Gateway) -> None:
    (good.policies / "rules.yaml").unlink()
    assert run("serve", "--config", good.config_file).returncode == 2


@pytest.mark.parametrize("part", ["listen", "management"])
def test_a_port_that_is_taken_is_one_clear_line(good: Gateway, part: str) -> None:
    port = good.config[part]["port"]
    with Stub(port=port):
        done = run("serve", "--config", good.config_file)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith('{"time":')]
    assert line == f"nim-gateway: {part} 127.0.0.1:{port}: address already in use"
    assert done.stdout == ""


def test_an_audit_file_that_cannot_be_opened_is_one_clear_line(good: Gateway) -> None:
    file = good.folder / "audit.log"
    file.symlink_to(good.folder / "absent" / "audit.log")
    good.config["audit"] = {"file": str(file)}
    good.write_config()
    done = run("serve", "--config", good.config_file)
    assert done.returncode == 1
    assert done.stderr == f"nim-gateway: audit file {file}: no such file or directory\n"


def test_the_command_line_explains_itself() -> None:
    for words in (["--help"], ["serve", "--help"], ["check", "--help"]):
        done = run(*words)
        assert done.returncode == 0
        assert "nim-gateway" in done.stdout

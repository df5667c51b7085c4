"""Audit files of a running gateway: whole after a crash, through every way of rotating, and when they are full."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.gateway import Gateway, pool
from tests.parts.process import ROOT, wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
LOGROTATE = shutil.which("logrotate", path="/usr/sbin:/usr/bin") or "logrotate"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}")) as made:
        yield made


@pytest.fixture
def audited(start_gateway: StartGateway, stub: Stub, tmp_path: Path) -> Callable[..., tuple[Gateway, Path]]:
    def start(under: tuple[str, ...] = (), **audit: Any) -> tuple[Gateway, Path]:
        file = tmp_path / "audit.jsonl"
        gateway = start_gateway([pool("nim", ["m"], stub.url)], under=under, audit={"file": str(file), **audit})
        gateway.backends_up("nim", 1)
        return gateway, file

    return start


def verify(*files: Path, options: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "gateway", "audit", "verify", "--json", *options, *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def decisions(*files: Path) -> list[dict[str, Any]]:
    records = [json.loads(text) for file in files for text in file.read_text().splitlines() if text.endswith("}")]
    return [record for record in records if "decision" in record]


def ask(gateway: Gateway, token: str) -> tuple[int, str | None]:
    answer = gateway.ask("POST", CHAT, body={"model": "m"}, token=token)
    return answer.status, answer["x-request-id"]


def stands(file: Path, call: str | None) -> None:
    wait_until(lambda: f'"{call}"' in file.read_text(), 5, f"the audit line of {call}")


def test_a_crash_and_a_start_leave_a_whole_file_that_says_so(audited: Any, token: Token) -> None:
    gateway, file = audited()
    _, call = ask(gateway, token("alice"))
    stands(file, call)
    gateway.process.signal(signal.SIGKILL)
    gateway.process.wait()
    assert verify(file)[1]["closed"] is False
    gateway.start()
    gateway.backends_up("nim", 1)
    assert ask(gateway, token("alice"))[0] == 200
    assert gateway.stop() == 0
    code, report = verify(file, options=("--complete",))
    assert (code, report["whole"], report["files"][0]["crashes"]) == (0, True, 1)

    text = file.read_bytes().splitlines(keepends=True)
    number = next(number for number, one in enumerate(text) if call and call.encode() in one)
    file.write_bytes(b"".join((*text[:number], *text[number + 1 :])))
    code, report = verify(file)
    assert (code, report["found"][0]["line"]) == (1, number + 1)


def flood(gateway: Gateway, token: str, enough: Event) -> list[str | None]:
    """Calls, one after the other, until it is enough; the ids of all."""
    calls = []
    while not enough.is_set():
        status, call = ask(gateway, token)
        assert status == 200
        calls.append(call)
    return calls


OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
SNIPPET = re.search(r"```\n/var/log/nim-gateway/audit\.jsonl (\{.*?\n\})\n```", OPERATIONS, re.DOTALL)
POSTROTATE = "postrotate\n  {tell}\n endscript\n"
ROTATIONS = {
    "the page": SNIPPET[1].replace(re.findall(r" (systemctl .*)", SNIPPET[1])[0], "{tell}") if SNIPPET else "",
    "create": "{\n rotate 9\n create 0640\n " + POSTROTATE + "}",
    "copytruncate": "{\n rotate 9\n copytruncate\n}",
}


@pytest.mark.parametrize("how", ROTATIONS)
def test_logrotate_under_load_loses_nothing_and_the_files_fit_together(
    audited: Any, token: Token, tmp_path: Path, how: str
) -> None:
    gateway, file = audited()
    told = signal.SIGUSR1 if how == "the page" else signal.SIGHUP
    rule = tmp_path / "rule.conf"
    rule.write_text(f"{file} {ROTATIONS[how].replace('{tell}', f'kill -{told.value} {gateway.process.pid}')}\n")
    rule.chmod(0o600)
    enough = Event()
    with ThreadPoolExecutor(2) as callers:
        floods = [callers.submit(flood, gateway, token("alice"), enough) for _ in range(2)]
        try:
            for turn in range(3):
                wait_until(lambda: file.exists() and file.read_bytes().count(b'"decision"') > 5, 20, "some lines")
                command = [LOGROTATE, "--force", "--state", str(tmp_path / "state"), str(rule)]
                subprocess.run(command, check=True, capture_output=True)
                rotated = f"audit.jsonl.{turn + 1}*"
                wait_until(lambda rotated=rotated: [*tmp_path.glob(rotated)], 5, "a rotated file")  # type: ignore[misc]
        finally:
            enough.set()
        calls = [call for one in floods for call in one.result()]
    assert gateway.stop() == 0
    files = sorted(tmp_path.glob("audit.jsonl*"))
    assert len(files) == 4
    for one in files:
        if one.suffix == ".gz":
            subprocess.run(["gunzip", "--keep", one], check=True)
    plain = [one for one in tmp_path.glob("audit.jsonl*") if one.suffix != ".gz"]
    missing = set(calls) - {record["request_id"] for record in decisions(*plain)}
    if how != "copytruncate":
        assert not missing
        code, report = verify(*files, options=("--complete",))
        assert (code, report["whole"]) == (0, True)
        assert verify(*files[:1], *files[2:])[0] == 1
    else:  # what is written between the copy and the cut is gone, and that is noticed
        code, report = verify(*files)
        assert (code == 1) == bool(missing), missing


def limit(gateway: Gateway, size: str) -> None:
    """How large a file this gateway may write from now on."""
    subprocess.run(["prlimit", "--pid", str(gateway.process.pid), f"--fsize={size}:unlimited"], check=True)


def test_a_full_disk_turns_calls_away_before_a_backend_hears_of_them(audited: Any, stub: Stub, token: Token) -> None:
    gateway, file = audited(on_full="block", fsync="always")
    alice = token("alice")
    answered = [ask(gateway, alice)]
    stands(file, answered[0][1])
    limit(gateway, str(file.stat().st_size + 100))
    answered.append(ask(gateway, alice))
    wait_until(lambda: gateway.readiness() == 503, 5, "the gateway being unready")
    heard = len(stub.requests)
    refused = gateway.ask("POST", CHAT, body={"model": "m"}, token=alice)
    assert (refused.status, refused.json()["error"]["code"], refused["retry-after"]) == (503, "overloaded", "1")
    assert gateway.ask("GET", "/v1/models", token=alice).status == 503
    assert gateway.status()["audit"] == {"failing": True, "holds_calls": True, "lost": 0}
    assert gateway.metric("gateway_audit_failing") == 1
    assert len([one for one in stub.requests[heard:] if one.method == "POST"]) == 0

    limit(gateway, "unlimited")
    wait_until(lambda: gateway.readiness() == 200, 5, "the gateway being ready")
    answered.append(ask(gateway, alice))
    assert [status for status, _ in answered] == [200] * 3
    assert gateway.stop() == 0
    records = {record["request_id"]: record for record in decisions(file)}
    assert {call for _, call in answered} <= records.keys()
    assert records[refused["x-request-id"]]["detail"] == "the audit file cannot be written"
    code, report = verify(file, options=("--complete",))
    assert (code, report["files"][0]["lost"]) == (0, 0)


def test_a_full_disk_costs_lines_and_no_call_where_lines_may_be_lost(audited: Any, token: Token) -> None:
    gateway, file = audited()
    alice = token("alice")
    stands(file, ask(gateway, alice)[1])
    limit(gateway, str(file.stat().st_size))
    for _ in range(3):
        assert ask(gateway, alice)[0] == 200
    wait_until(lambda: gateway.metric("gateway_audit_lines_lost_total") >= 3, 5, "the losses")
    assert gateway.readiness() == 200
    limit(gateway, "unlimited")
    assert ask(gateway, alice)[0] == 200
    wait_until(lambda: gateway.metric("gateway_audit_failing") == 0, 5, "the file being written again")
    assert gateway.stop() == 0
    code, report = verify(file, options=("--complete",))
    assert (code, report["files"][0]["lost"]) == (0, 3)


def test_a_pipe_that_nobody_reads_is_refused_at_the_start_with_a_reason(
    start_gateway: StartGateway, stub: Stub, tmp_path: Path
) -> None:
    file = tmp_path / "audit"
    os.mkfifo(file)
    gateway = start_gateway([pool("nim", ["m"], stub.url)], start=False, audit={"file": str(file)})
    process = gateway.launch()
    assert process.wait() == 1
    assert f"audit file {file}: no such device or address" in process.stderr.read_text()


def test_standard_output_is_chained_as_well(start_gateway: StartGateway, stub: Stub, token: Token) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    gateway.backends_up("nim", 1)
    assert ask(gateway, token("alice"))[0] == 200
    assert gateway.stop() == 0
    assert verify(gateway.process.stdout, options=("--complete",))[0] == 0

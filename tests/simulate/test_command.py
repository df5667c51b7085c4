"""`simulate` as a command: one ready line, a clean end, and one line for what cannot be."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import aiohttp
import pytest

ROOT = Path(__file__).resolve().parents[2]
SOON = 20.0
HEALTH = {"nim": "/v1/health/ready", "triton": "/v2/health/ready", "idp": "/.well-known/openid-configuration"}


async def started(part: str, *more: str) -> asyncio.subprocess.Process:
    arguments = ("-m", "gateway", "simulate", part, *more)
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE)


@pytest.mark.parametrize("part", HEALTH)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_part_says_where_it_is_and_ends_cleanly(part: str, number: signal.Signals, tmp_path: Path) -> None:
    process = await started(
        part, "--port", "0", *(("--accounts", str(tmp_path / "accounts.json")) if part == "idp" else ())
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), SOON)
        found = re.fullmatch(rb"simulated \w+ ready at (http://127\.0\.0\.1:\d+)\n", line)
        assert found is not None, line
        url = found[1].decode()
        async with aiohttp.ClientSession() as session, session.get(url + HEALTH[part]) as answer:
            assert answer.status == 200
            if part == "idp":
                assert (await answer.json())["issuer"] == url
        async with aiohttp.ClientSession() as session, session.post(url + "/sim/knobs", json={}) as answer:
            assert answer.status == 404, "knobs are closed unless asked for"
        process.send_signal(number)
        output, errors = await asyncio.wait_for(process.communicate(), SOON)
    finally:
        if process.returncode is None:
            process.kill()
    assert (process.returncode, output, errors) == (0, b"", b"")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--failure-rate", "2"), b"failure_rate must be between 0 and 1"),
        (("--port", "70000"), b"port must be 0-65535"),
        (("--host", "192.0.2.1"), b"cannot listen on 192.0.2.1"),
    ],
)
async def test_what_cannot_be_is_told_in_one_line(more: tuple[str, ...], said: bytes) -> None:
    process = await started("nim", *more)
    _, errors = await asyncio.wait_for(process.communicate(), SOON)
    assert process.returncode == 2
    assert errors.count(b"\n") == 1
    assert said in errors


async def test_a_taken_port_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = await started("triton", "--port", str(taken.getsockname()[1]))
        _, errors = await asyncio.wait_for(process.communicate(), SOON)
    assert process.returncode == 2
    assert errors.count(b"\n") == 1
    assert b"--port" in errors

"""The self-check finds calls that do not do what they should, with the tool and by hand."""

from __future__ import annotations

import ast
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from gateway import devcerts
from gateway.demo import calls, check, layout
from gateway.demo.calls import Call, Desk

REFUSAL = {"error": {"message": "no", "type": "permission_error", "param": None, "code": "model_not_allowed"}}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A server that answers as its path says: /STATUS with an OpenAI refusal, anything else with 200 and {}."""

    async def answer(request: web.Request) -> web.Response:
        status = int(request.match_info.get("status", 200))
        return web.json_response({} if status == 200 else REFUSAL, status=status)

    app = web.Application()
    app.router.add_route("*", "/{status:\\d+}", answer)
    app.router.add_route("*", "/{rest:.*}", answer)
    where = layout.places(tmp_path, 1)
    made = devcerts.make(where.certificates)
    for user in (calls.ALLOWED, calls.REFUSED):
        layout.keep_token(where, user, f"token-of-{user}")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(made.certificate, made.key)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving).start()
    yield Desk(f"https://localhost:{runner.addresses[0][1]}", made.ca, where)
    await runner.cleanup()


def call(desk: Desk, path: str, *patterns: str) -> Call:
    request = calls.Request("GET", desk.base + path, None, None)
    text = f"curl -sSi --noproxy localhost --cacert '{desk.ca}' {desk.base}{path}"
    return Call("a call", "curl", text, patterns, request, patterns)


REFUSED = (r"^HTTP/[0-9.]+ 403\b", r'"code": ?"model_not_allowed"')


@pytest.mark.parametrize("by_hand", [True, False])
async def test_an_answer_that_is_as_it_should_be_is_ok(desk: Desk, by_hand: bool) -> None:
    verdict = await check.judge(call(desk, "/403", *REFUSED), desk, by_hand=by_hand)
    assert verdict.lacks is None, verdict
    assert ("by hand" in verdict.how) == by_hand


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("path", ["/200", "/401"])
async def test_another_status_is_found(desk: Desk, by_hand: bool, path: str) -> None:
    verdict = await check.judge(call(desk, path, *REFUSED), desk, by_hand=by_hand)
    assert verdict.lacks == REFUSED[0]


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_server_that_is_gone_is_a_failure_not_a_crash(desk: Desk, by_hand: bool) -> None:
    gone = Desk("https://localhost:1", desk.ca, desk.where)
    verdict = await check.judge(call(gone, "/403", *REFUSED), gone, by_hand=by_hand)
    assert verdict.lacks == REFUSED[0]
    assert "onnect" in verdict.output


async def test_a_gateway_that_lets_everybody_in_fails_the_check(desk: Desk) -> None:
    told: list[str] = []
    every = calls.all_calls(desk)
    assert not await check.check(every, desk, told.append, has=lambda tool: False)
    failed = [line for line in told if line.startswith("  FAILED")]
    assert any("bob may not chat" in line for line in failed)
    assert any("nobody may do anything" in line for line in failed)


async def test_one_failure_among_many_fails_the_whole(desk: Desk) -> None:
    good, bad = call(desk, "/403", *REFUSED), call(desk, "/200", *REFUSED)
    told: list[str] = []
    assert await check.check([good], desk, told.append)
    assert not await check.check([good, bad, good], desk, told.append)
    assert [line.split()[0] for line in told if "(" in line] == ["ok", "ok", "FAILED", "ok"]


def test_every_printed_call_can_be_pasted(desk_anywhere: Desk) -> None:
    for printed in calls.all_calls(desk_anywhere):
        text = calls.as_printed(printed, "python3")
        done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), text
        if printed.tool != "curl":
            ast.parse(printed.text)


@pytest.fixture
def desk_anywhere(tmp_path: Path) -> Desk:
    """In a folder whose name needs quoting."""
    folder = tmp_path / 'it\'s a "folder"'
    folder.mkdir()
    return Desk("https://localhost:8443", folder / "ca.crt", layout.places(folder, 8443))


def test_bob_and_nobody_are_among_the_calls_and_must_be_refused(desk_anywhere: Desk) -> None:
    """The check is worth nothing without its refusals."""
    every = calls.all_calls(desk_anywhere)
    refusals = {
        (call.tool, call.request.token is None)
        for call in every
        if "403" in call.answers[0] or "401" in call.answers[0]
    }
    assert {("curl", False), ("curl", True), ("openai", False)} <= refusals
    assert {call.tool for call in every} == {"curl", "openai", "tritonclient"}

"""`nim-gateway login` as people and scripts use it: a token alone on standard output, or one line and an exit code."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.devcerts import Paths
from gateway.errors import IdentityUnavailable, LoginThrottled
from gateway.identity.signatures.jwt import parse
from gateway.portal.application import make
from gateway.settings import ServerTls
from gateway.tls import server_context
from tests.parts.openid import RESOURCES, OpenIdProvider
from tests.parts.process import ROOT, free_port
from tests.portal.serving import People, Site

PASSWORD = "open sesame"
LIMIT = 60.0


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


async def started(*words: str, **more: Any) -> Process:
    command = [sys.executable, "-m", "gateway", "login", *words]
    return await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, **{"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, **more}
    )


async def login(*words: str, typed: str = "") -> Said:
    process = await started(*words)
    async with asyncio.timeout(LIMIT):
        out, err = await process.communicate(typed.encode())
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


def one_line(said: Said, code: int = 1) -> str:
    """What went wrong. Fails if it is not said in one line, or if standard output holds anything."""
    assert (said.code, said.out) == (code, ""), said
    (line,) = said.err.splitlines()
    assert line.startswith("nim-gateway: ")
    return line.removeprefix("nim-gateway: ")


Open = Callable[..., Awaitable[str]]


@pytest.fixture
async def gateway(certificates: Paths) -> AsyncIterator[Open]:
    """`await gateway(people)`: the URL where the pages about tokens are, for these people."""
    runners: list[web.AppRunner] = []

    async def start(people: People, **more: Any) -> str:
        runner = web.AppRunner(make(Site([people], **more)), access_log=None)
        runners.append(runner)
        await runner.setup()
        tls = server_context(ServerTls(certificates.certificate, certificates.key))
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        return f"https://localhost:{port}"

    yield start
    for runner in runners:
        await runner.cleanup()


def office(**more: Any) -> People:
    return People("office", {"alice": PASSWORD}, **more)


async def test_a_script_gets_the_token_alone(gateway: Open, certificates: Paths) -> None:
    url = await gateway(office())
    words = ("--url", url, "--ca", str(certificates.ca), "--user", "alice", "--password-stdin")
    for typed in (PASSWORD, f"{PASSWORD}\n", f"{PASSWORD}\r\nmore\n"):
        said = await login(*words, typed=typed)
        assert (said.code, said.err) == (0, "")
        assert parse(said.out.removesuffix("\n")).claims["sub"] == "alice"
    assert (await login("--url", f"{url}/", *words[2:], typed=PASSWORD)).code == 0


async def test_a_person_is_asked_on_the_terminal_and_the_password_is_not_shown(
    gateway: Open, certificates: Paths
) -> None:
    url = await gateway(office())
    ours, theirs = pty.openpty()
    words = ("--url", url, "--ca", str(certificates.ca), "--user", "alice")
    process = await started(*words, stdin=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        shown = b""
        async with asyncio.timeout(LIMIT):
            while b"Password of alice at " not in shown:
                shown += await asyncio.to_thread(os.read, ours, 1024)
            os.write(ours, f"{PASSWORD}\n".encode())
            out, _ = await process.communicate()
        while piece := _read(ours):
            shown += piece
    finally:
        os.close(ours)
    assert process.returncode == 0
    assert parse(out.decode().removesuffix("\n")).claims["sub"] == "alice"
    assert PASSWORD.encode() not in shown


def _read(terminal: int) -> bytes:
    """What is left to be read; a terminal whose other end is closed says so as an error."""
    try:
        return os.read(terminal, 1024)
    except OSError:
        return b""


REFUSALS: dict[str, tuple[People, str, str]] = {
    "wrong password": (office(), "wrong", r"https://localhost:\d+: The name or the password is not accepted\."),
    "throttled": (
        office(raises=lambda: LoginThrottled(retry_after=17)), PASSWORD,
        r"https://localhost:\d+: Too many logins failed; wait before the next one\. \(again in 17 s\)",
    ),
    "away": (
        office(raises=lambda: IdentityUnavailable(retry_after=5)), PASSWORD,
        r"https://localhost:\d+: The identity provider cannot be asked .+ \(again in 5 s\)",
    ),
    "no password": (office(), "", "the password is empty or too long"),
    "huge password": (office(), "x" * 5000, "the password is empty or too long"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
async def test_who_gets_no_token_is_told_why_in_one_line(name: str, gateway: Open, certificates: Paths) -> None:
    people, password, words = REFUSALS[name]
    url = await gateway(people)
    said = await login(
        "--url", url, "--ca", str(certificates.ca), "--user", "alice", "--password-stdin", typed=password
    )
    assert re.fullmatch(words, one_line(said))


async def test_a_gateway_that_is_not_trusted_gets_no_password(gateway: Open) -> None:
    people = office()
    url = await gateway(people)
    said = await login("--url", url, "--user", "alice", "--password-stdin", typed=PASSWORD)
    assert one_line(said).endswith("the certificate of the server is not trusted; give its authority with --ca")
    assert people.asked == []


async def test_a_gateway_that_is_not_there_or_is_none_is_said_so(gateway: Open, certificates: Paths) -> None:
    words = ("--user", "alice", "--password-stdin")
    said = await login("--url", f"http://127.0.0.1:{free_port()}", *words, typed=PASSWORD)
    assert "cannot be asked: cannot connect" in one_line(said)
    url = await gateway(office(), mints=False)
    said = await login("--url", url, "--ca", str(certificates.ca), *words, typed=PASSWORD)
    assert "gives no tokens" in one_line(said)


async def test_without_a_terminal_nobody_is_asked() -> None:
    said = await login("--url", "https://localhost:1", "--user", "alice")
    assert one_line(said) == "there is no terminal to ask for the password on; use --password-stdin"


async def test_authorities_that_are_none_are_a_bad_call(tmp_path: Path) -> None:
    missing = tmp_path / "ca.crt"
    said = await login("--url", "https://localhost:1", "--ca", str(missing))
    assert one_line(said, 2) == f"{missing} cannot be read: No such file or directory"


@pytest.mark.parametrize(("words", "reason"), [
    ((), "one of the arguments --url --issuer is required"),
    (("--url", "https://gw.test", "--issuer", "https://idp.test"), "not allowed with argument"),
    (("--issuer", "https://idp.test"), "--issuer needs --client-id"),
    (("--issuer", "https://idp.test", "--client-id", "x", "--user", "alice"), "go with --url"),
    (("--url", "https://gw.test", "--client-id", "x"), "go with --issuer"),
    (("--url", "http://gw.test"), "must be https://"),
    (("--issuer", "http://idp.test", "--client-id", "x"), "must be https://"),
    (("--url", "gw.test:8443"), "expected http:// or https://"),
    (("--url", "https://alice:secret@gw.test"), "expected http:// or https://"),
])  # fmt: skip
async def test_a_call_that_makes_no_sense_is_told_how_it_goes(words: Sequence[str], reason: str) -> None:
    said = await login(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("usage: nim-gateway login")
    assert reason in said.err.splitlines()[-1]
    assert "secret" not in said.err


async def shown(process: Process) -> str:
    """The code that somebody is to type."""
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    found = re.fullmatch(r"Open http://\S+/device in a browser and type (\S+)\n", line)
    assert found is not None, line
    return found[1]


def at(openid: OpenIdProvider) -> tuple[str, ...]:
    asked = ("--scope", "openid infer", "--resource", RESOURCES["RS256"])
    return ("--issuer", openid.issuer, "--client-id", "cli", *asked)


async def ended(process: Process) -> Said:
    async with asyncio.timeout(LIMIT):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


async def test_a_person_logs_in_elsewhere_and_the_terminal_gets_a_token_of_the_provider(openid: OpenIdProvider) -> None:
    process = await started(*at(openid))
    await asyncio.to_thread(openid.type_code, await shown(process), "alice")
    said = await ended(process)
    assert said.code == 0
    claims = parse(said.out.removesuffix("\n")).claims
    assert (claims["iss"], claims["aud"], claims["sub"]) == (openid.issuer, "nim-gateway", "alice")
    assert "Waiting for you to log in, 10 minutes at most" in said.err


async def test_who_declines_on_the_other_device_ends_the_waiting(openid: OpenIdProvider) -> None:
    process = await started(*at(openid))
    await asyncio.to_thread(openid.type_code, await shown(process), abort=True)
    said = await ended(process)
    assert (said.code, said.out) == (1, "")
    assert said.err.splitlines()[-1] == "nim-gateway: the login was declined"


async def test_a_code_that_nobody_types_is_given_up(openid: OpenIdProvider) -> None:
    openid.set_device_lifetime(6)
    try:
        process = await started(*at(openid))
        await shown(process)
        said = await ended(process)
    finally:
        openid.set_device_lifetime(600)
    assert (said.code, said.out) == (1, "")
    assert said.err.splitlines()[-1] == "nim-gateway: the code has expired before anybody logged in with it; try again"


async def test_who_gives_up_waiting_gets_their_prompt_back(openid: OpenIdProvider) -> None:
    process = await started(*at(openid))
    await shown(process)
    process.send_signal(signal.SIGINT)
    said = await ended(process)
    assert (said.code, said.out) == (1, "")
    assert said.err.splitlines()[-1] == "nim-gateway: interrupted"
    assert "Traceback" not in said.err


async def test_a_client_that_the_provider_does_not_know_is_said_so(openid: OpenIdProvider) -> None:
    said = await login("--issuer", openid.issuer, "--client-id", "nobody")
    assert one_line(said).startswith("the provider says: invalid_client")


async def test_a_provider_that_is_none_is_said_so(openid: OpenIdProvider) -> None:
    said = await login("--issuer", f"{openid.issuer}/elsewhere", "--client-id", "cli")
    assert one_line(said).endswith("the discovery document was answered with status 404")
    said = await login("--issuer", f"http://127.0.0.1:{free_port()}", "--client-id", "cli")
    assert "cannot be asked: cannot connect" in one_line(said)

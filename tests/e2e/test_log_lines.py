"""What callers send never writes the log: no secret of theirs or ours stands in it, and no line that is not ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import raw, read_all
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.process import wait_until
from tests.parts.scripts import Then
from tests.parts.stub import Request, Stub

CHAT = "/v1/chat/completions"
KEY = "Bearer marker-backend-key"
PASSWORD = "marker-password:with-colon"
BASIC = base64.b64encode(f"marker-user:{PASSWORD}".encode()).decode()


def odd_token(header: dict[str, str], claims: dict[str, str]) -> str:
    """In the form of a token, and none."""
    parts = (json.dumps(header), json.dumps(claims), "marker-signature")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


NOT_SIGNED = odd_token({"alg": "none", "kid": "marker-kid"}, {"sub": "marker-sub"})
ODD_KEY = odd_token({"alg": "RS256", "kid": "marker-kid"}, {"iss": "elsewhere", "sub": "marker-sub"})


def answer(request: Request) -> scripts.Script:
    """As the model says: faults of backends that repeat what they were sent."""
    told = request.head + request.body
    faults: dict[bytes, scripts.Script] = {
        b"echo-500": scripts.sized(b'{"error":"boom"}', 500),
        b"nonsense": (b"marker-nonsense " + told, Then.CLOSE),
        b"bad-head": (b"HTTP/1.1 200 OK\r\nmarker-field\x00: " + told, Then.CLOSE),
        b"cut": (*scripts.sse([b"data: marker-answer\n\n"], end=(Then.RESET,)),),
        b"redirect": scripts.sized(b"{}", 302, "Location: http://127.0.0.1:1/?key=marker-location"),
    }
    return next((script for name, script in faults.items() if b"m-" + name in request.body), scripts.sized(b"{}"))


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(answer) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, stub: Stub, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    """In the mode in which asyncio and Python say most."""
    secret = tmp_path_factory.mktemp("secret") / "key"
    secret.write_text(KEY)
    models = ["m", "locked", *(f"m-{fault}" for fault in ("echo-500", "nonsense", "bad-head", "cut", "redirect"))]
    credential = {"header": "Authorization", "value": {"file": str(secret)}}
    running = start_shared_gateway(
        [pool("nim", models, stub.url, credential=credential), pool("gone", ["m-gone"], "http://127.0.0.1:1")],
        [allow("most", ["m", "m-*"]), allow("others", ["locked"], subjects={"groups": ["nobody-here"]})],
        under=("env", "PYTHONASYNCIODEBUG=1", "PYTHONDEVMODE=1"),
    )
    running.backends_up("nim", 1)
    return running


def everything_said(gateway: Gateway) -> str:
    """By the gateway to operators, and what the system shows of it."""
    process = gateway.process
    pages = [gateway.manage(path).body.decode() for path in ("/metrics", "/status", "/readyz", "/healthz", "/marker")]
    command = Path(f"/proc/{process.pid}/cmdline").read_text()
    return "\n".join([process.stdout.read_text(), process.stderr.read_text(), *pages, command])


PROMPT = '"messages":[{"role":"user","content":"marker-prompt"}]'
BODIES = {
    "answered": f'{{"model":"m",{PROMPT}}}',
    "not granted": f'{{"model":"locked",{PROMPT}}}',
    "unknown": f'{{"model":"nowhere",{PROMPT}}}',
    "cut short": f'{{"model":"m",{PROMPT},',
    "named twice": f'{{"model":"m","model":"m",{PROMPT}}}',
    "no object": f'["model",{{{PROMPT}}}]',
    "of a strange type": f'{{"model":{{"marker-model":1}},{PROMPT}}}',
    "nowhere to go": f'{{"model":"m-gone",{PROMPT}}}',
    "an error of the backend": f'{{"model":"m-echo-500",{PROMPT}}}',
    "nonsense of the backend": f'{{"model":"m-nonsense",{PROMPT}}}',
    "a bad head of the backend": f'{{"model":"m-bad-head",{PROMPT}}}',
    "a redirect": f'{{"model":"m-redirect",{PROMPT}}}',
    "with a stored answer": f'{{"model":"m","previous_response_id":"marker-id",{PROMPT}}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_prompt_and_no_key_of_a_backend_is_told_to_anybody(gateway: Gateway, token: Token, body: str) -> None:
    """B139."""
    headers = {"Content-Type": "application/json", "Cookie": "session=marker-cookie", "User-Agent": "marker-agent"}
    alice = token("alice")
    got = gateway.ask("POST", CHAT + "?api_key=marker-query", body=body.encode(), token=alice, headers=headers)
    gateway.audit_of(got["x-request-id"])
    assert b"marker" not in got.body
    _holds_nothing(gateway, alice)


CREDENTIALS = {
    "not a token": {"Authorization": "Bearer marker-token"},
    "not signed": {"Authorization": f"Bearer {NOT_SIGNED}"},
    "an odd key": {"Authorization": f"Bearer {ODD_KEY}"},
    "a password": {"Authorization": f"Basic {BASIC}"},
    "no scheme": {"Authorization": "marker-scheme"},
    "a digest": {"Authorization": 'Digest username="marker-user", response="marker-password"'},
    "in a header": {"X-Api-Key": "marker-token", "Api-Key": "marker-token"},
    "in a cookie": {"Cookie": "access_token=marker-token"},
}


@pytest.mark.parametrize("headers", CREDENTIALS.values(), ids=CREDENTIALS)
def test_no_credential_is_told_to_anybody_whether_it_holds_or_not(
    gateway: Gateway, token: Token, headers: dict[str, str]
) -> None:
    """B139."""
    for path in (CHAT, "/v1/models?access_token=marker-query", "/nowhere?key=marker-query#marker"):
        got = gateway.ask("GET", path.partition("#")[0], headers=headers)
        assert got.status in (401, 404, 405)
        assert "marker" not in json.dumps(got.fields)
        assert b"marker" not in got.body
        gateway.audit_of(got["x-request-id"])
    _holds_nothing(gateway, token("alice"))


def test_a_head_that_cannot_be_read_and_a_call_that_breaks_tell_nothing_either(gateway: Gateway, token: Token) -> None:
    """B139."""
    alice = token("alice")
    bearer = f"Authorization: Bearer {alice}\r\nHost: a\r\nContent-Type: application/json\r\n"
    heads = (
        f"POST /v1/x HTTP/1.1\r\nX-Api-Key: marker\x00-token\r\n{bearer}\r\n",
        f"POST /v1/x HTTP/9.9\r\n{bearer}marker-field\r\n\r\n",
        f"POST /v1/x HTTP/1.1\r\n{bearer}X-Api-Key : marker-token\r\n\r\n",
        f"POST /v1/x HTTP/1.1\r\n{bearer}Transfer-Encoding: chunked\r\n\r\nmarker-size\r\n",
        f"POST /v1/x HTTP/1.1\r\n{bearer}X-Long: {'marker' * 10_000}\r\n\r\n",
    )
    for head in heads:
        with raw(gateway.port, gateway.ca) as line:
            line.sendall(head.encode())
            assert b"marker" not in line.recv(8192)
    body = f'{{"model":"m-cut","stream":true,{PROMPT}}}'.encode()
    with raw(gateway.port, gateway.ca) as line:
        line.sendall(f"POST {CHAT} HTTP/1.1\r\n{bearer}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert b"stream_truncated" in read_all(line)
    _holds_nothing(gateway, alice)


def test_a_reload_with_mistakes_does_not_repeat_what_stands_there(gateway: Gateway, token: Token) -> None:
    """B139."""
    good = gateway.config_file.read_text()
    for bad in (
        good.replace("header: Authorization", "header: marker header").replace("value:\n", "value: marker-literal\n#")
        + "api_keys: marker-literal\n",
        good + "  : [marker-literal\n",
    ):
        seen = gateway.metric("gateway_config_reloads_total", result="failure")
        gateway.config_file.write_text(bad)
        gateway.reload()
        wait_until(lambda seen=seen: gateway.metric("gateway_config_reloads_total", result="failure") > seen)  # type: ignore[misc]
    gateway.config_file.write_text(good)
    gateway.reload()
    wait_until(lambda: gateway.metric("gateway_config_reload_successful") == 1)
    _holds_nothing(gateway, token("alice"))


def _holds_nothing(gateway: Gateway, *tokens: str) -> None:
    said = everything_said(gateway)
    for secret in ("marker", KEY, PASSWORD, BASIC, *tokens, *(part for text in tokens for part in text.split(".")[1:])):
        assert secret not in said, said[max(0, said.find(secret) - 300) : said.find(secret) + 100]


FORGED = {
    "a line end": "\r\n2026-01-01 INFO user=root granted",
    "a record": '\n{"decision":"allow","level":"info"}',
    "an escape": "\x1b[2J\x1b]0;owned\x07",
    "separators": "a\u2028b\u2029c\x85d\x0b\x0c",
    "bidi": "\u202egpj.exe\u2066",
    "quotes": 'a"b\\c',
    "formats": "%s%n{0}${jndi:ldap://x}",
    "long": "x" * 1024 * 1024,
    "zero": "a\u0000b",
}


@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_one_request_is_one_line_that_can_be_read_whatever_is_in_it(gateway: Gateway, token: Token, text: str) -> None:
    """B138: as a model, in the path, in a header."""
    alice = token("alice")
    gateway.audit_of(gateway.ask("GET", "/v1/models", token=alice)["x-request-id"])  # those before it are written, too
    lines = len(gateway.process.stdout.read_text().splitlines())
    asked = [gateway.ask("POST", CHAT, body={"model": text, "user": text}, token=alice)]
    asked.append(gateway.ask("GET", f"/v1/models/{quote(text[:500], safe='')}", token=alice))
    agent = "".join(character for character in text[:500] if character.isprintable() and character.isascii())
    asked.append(gateway.ask("GET", "/v1/models", token=alice, headers={"User-Agent": agent, "X-Request-Id": agent}))
    records = [gateway.audit_of(each["x-request-id"]) for each in asked]
    assert len(records) == 3
    written = gateway.process.stdout.read_text()
    assert len(written.splitlines()) == lines + 3
    assert written.isascii() or all(line.isprintable() for line in written.split("\n"))
    assert all(line.isprintable() and len(line) < 5000 for line in written.split("\n")[lines:])
    for line in gateway.process.stderr.read_text().splitlines():
        json.loads(line)

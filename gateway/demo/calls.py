"""The calls that the demo prints: text to paste, the same request by hand, and what must come back.

Knows: curl, the openai and tritonclient libraries as their users know them. Must not know: processes, sockets.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.demo.layout import CHAT, EMBEDDING, Places

ALLOWED = "alice"
REFUSED = "bob"
VECTORS = {"A": [1.0, 2.0, 3.0, 4.0], "B": [10.0, 10.0, 10.0, 10.0]}


@dataclass(frozen=True, slots=True)
class Request:
    """A request without any tool. `token`: the file of the bearer token, if one is sent."""

    method: str
    url: str
    token: Path | None
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Call:
    """`text` is shell for `curl`, Python for the libraries. `shows` are patterns (multi-line) of the tool's output;
    `answers` are patterns of the raw answer (status line, fields, body) when the request is made by hand."""

    title: str
    tool: str
    text: str
    shows: tuple[str, ...]
    request: Request
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Desk:
    """Where calls go and with what."""

    base: str
    ca: Path
    where: Places

    def token(self, user: str) -> Path:
        """The token file of `user`."""
        return self.where.token(user)


def all_calls(desk: Desk) -> list[Call]:
    """Every call, in the order in which it is told."""
    return [*_curl_calls(desk), *_openai_calls(desk), *_triton_calls(desk)]


def as_printed(call: Call, python: str) -> str:
    """The call as it is to be pasted into a shell; `python` is the interpreter to name."""
    if call.tool == "curl":
        return call.text
    return f"{shlex.quote(python)} - <<'PY'\n{call.text}PY"


def chat(model: str, *, stream: bool) -> dict[str, Any]:
    """A chat request."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": "What does a gateway do?"}],
        **({"stream": True} if stream else {}),
    }


def tensors() -> dict[str, Any]:
    """An inference request for the model addsub."""
    return {
        "inputs": [
            {"name": name, "datatype": "FP32", "shape": [len(data)], "data": data} for name, data in VECTORS.items()
        ]
    }


def _curl_calls(desk: Desk) -> list[Call]:
    chats = "/v1/chat/completions"
    alice, bob = desk.token(ALLOWED), desk.token(REFUSED)
    rows: list[tuple[str, str, Path | None, dict[str, Any] | None, tuple[str, ...]]] = [
        ("alice chats", chats, alice, chat(CHAT, stream=False), (_status(200), r'"finish_reason": ?"stop"')),
        ("alice streams", chats, alice, chat(CHAT, stream=True), (_status(200), r"^data: \{", r"^data: \[DONE\]")),
        ("alice lists her models", "/v1/models", alice, None, (_status(200), CHAT, EMBEDDING, "addsub")),
        ("bob embeds", "/v1/embeddings", bob, {"model": EMBEDDING, "input": "hello"}, (_status(200), '"embedding"')),
        ("bob may not chat", chats, bob, chat(CHAT, stream=False), _openai_error(403, "model_not_allowed")),
        ("nobody may do anything", chats, None, chat(CHAT, stream=False), _openai_error(401, "invalid_api_key")),
        ("no such model", chats, alice, chat("meta/none", stream=False), _openai_error(404, "model_not_found")),
        ("alice infers on Triton", "/v2/models/addsub/infer", alice, tensors(), (_status(200), r"11(\.0)?,")),
        ("bob may not infer", "/v2/models/addsub/infer", bob, tensors(), (_status(403), r'\{"error": ?"')),
    ]
    return [_curl(desk, *row) for row in rows]


def _curl(
    desk: Desk, title: str, path: str, token: Path | None, body: dict[str, Any] | None, answers: tuple[str, ...]
) -> Call:
    request = Request("POST" if body else "GET", desk.base + path, token, body)
    lines = [f"curl -sSiN --noproxy localhost --cacert {shlex.quote(str(desk.ca))} {request.url}"]
    if token is not None:
        lines.append(f'-H "Authorization: Bearer $(cat {shlex.quote(str(token))})"')
    if body is not None:
        lines.append(f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}")
    return Call(title, "curl", " \\\n  ".join(lines), answers, request, answers)


def _openai_calls(desk: Desk) -> list[Call]:
    url = f"{desk.base}/v1/chat/completions"
    streaming, plain = chat(CHAT, stream=True), chat(CHAT, stream=False)
    told = f'model="{CHAT}",\n    messages=[{{"role": "user", "content": "What does a gateway do?"}}],'
    streams = f"""{_openai_client(desk, ALLOWED)}
for chunk in client.chat.completions.create(
    {told}
    stream=True,
):
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
"""
    refused = f"""{_openai_client(desk, REFUSED, "PermissionDeniedError")}

try:
    client.chat.completions.create({told.replace(chr(10) + "    ", " ").rstrip(",")})
except PermissionDeniedError as error:
    print(error.status_code, error.code)
"""
    return [
        Call(
            "alice streams", "openai", streams, (r"\w+ \w+ \w+",),
            Request("POST", url, desk.token(ALLOWED), streaming), (_status(200), r"^data: \[DONE\]"),
        ),
        Call(
            "bob may not chat", "openai", refused, (r"^403 model_not_allowed$",),
            Request("POST", url, desk.token(REFUSED), plain), _openai_error(403, "model_not_allowed"),
        ),
    ]  # fmt: skip


def _openai_client(desk: Desk, user: str, *more: str) -> str:
    return f"""\
import ssl
from openai import {", ".join(("DefaultHttpxClient", "OpenAI", *more))}

trust = ssl.create_default_context(cafile={str(desk.ca)!r})
client = OpenAI(
    base_url="{desk.base}/v1",
    api_key=open({str(desk.token(user))!r}).read(),
    http_client=DefaultHttpxClient(verify=trust, trust_env=False),
)"""


def _triton_calls(desk: Desk) -> list[Call]:
    arrays = "\n".join(
        f'{name.lower()} = triton.InferInput("{name}", [{len(data)}], "FP32")\n'
        f"{name.lower()}.set_data_from_numpy(np.array({data}, dtype=np.float32))"
        for name, data in VECTORS.items()
    )
    text = f"""\
import ssl
import numpy as np
import tritonclient.http as triton

client = triton.InferenceServerClient(
    "{desk.base.removeprefix("https://")}",
    ssl=True,
    ssl_context_factory=lambda: ssl.create_default_context(cafile={str(desk.ca)!r}),
)
headers = {{"Authorization": "Bearer " + open({str(desk.token(ALLOWED))!r}).read()}}
{arrays}
answer = client.infer("addsub", [a, b], headers=headers)
print("SUM", answer.as_numpy("SUM"), "DIFF", answer.as_numpy("DIFF"))
"""
    request = Request("POST", f"{desk.base}/v2/models/addsub/infer", desk.token(ALLOWED), tensors())
    shows = (r"^SUM \[11\. 12\. 13\. 14\.\] DIFF \[-9\. -8\. -7\. -6\.\]$",)
    return [Call("alice infers on Triton", "tritonclient", text, shows, request, (_status(200), r'"SUM"'))]


def _openai_error(status: int, code: str) -> tuple[str, ...]:
    return (_status(status), r'\{"error": ?\{', f'"code": ?"{code}"', '"message": ?"', '"type": ?"')


def _status(status: int) -> str:
    return rf"^HTTP/[0-9.]+ {status}\b"

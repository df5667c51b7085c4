"""`nim-gateway check` finds what `serve` would stumble over, and with `--online` what calls would."""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway import settings
from gateway.cli import check
from gateway.devcerts import Paths
from gateway.tls import server_context
from tests.config.conftest import make_pair
from tests.health.servers import Server, deaf, serving
from tests.parts.gateway import Config, Gateway, allow, oidc, pool
from tests.parts.process import ROOT, free_port
from tests.parts.scripts import sized
from tests.parts.slapd import Slapd
from tests.parts.stub import Stub

Site = Callable[..., Gateway]


@pytest.fixture
def site(tmp_path: Path, certificates: Paths) -> Site:
    """`site(pool(...), ...)`: the files of a gateway whose provider is away."""

    def write(*pools: Config, **more: Any) -> Gateway:
        issuers = [oidc(f"http://127.0.0.1:{free_port()}")]
        return Gateway(tmp_path, certificates, issuers, pools, [allow("all", ["**"])], start=False, **more)

    return write


async def said(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `check --online` has to say of the backends."""
    args = argparse.Namespace(config=gateway.config_file, root=None, online=True)
    assert await asyncio.to_thread(check.run, args) == 2  # the provider is away
    place = f"{gateway.config_file}:"
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("pool ", place))]
    assert ": identity provider corp: its signing keys cannot be had from http://127.0.0.1:" in lines[0]
    return [line.split(": ", 1)[1] if line.startswith(place) else line for line in lines[1:]]


@pytest.mark.parametrize("away", [False, True])
def test_a_directory_is_asked_as_logins_would(
    site: Site, slapd: Slapd, capsys: pytest.CaptureFixture[str], away: bool
) -> None:
    directory = slapd.config(**({"servers": [f"ldaps://127.0.0.1:{free_port()}"]} if away else {}))
    gateway = site(pool("nim", ["m"], "http://127.0.0.1:9"), directories=[directory])
    assert check.run(argparse.Namespace(config=gateway.config_file, root=None, online=True)) == 2  # others are away
    said = [line for line in capsys.readouterr().err.splitlines() if "provider directory" in line]
    place = f"{gateway.config_file}:{place_of(gateway, directory['servers'][0])}"
    told = f"{place}: identity provider directory: {directory['servers'][0]}: Connection refused"
    assert said == ([told] if away else [])


def place_of(gateway: Gateway, item: str) -> str:
    """Line and column of the list item that is this text."""
    lines = enumerate(gateway.config_file.read_text().splitlines(), 1)
    return next(f"{number}:{line.index(item) + 1}" for number, line in lines if line.strip() == f"- {item}")


def test_nothing_is_said_beside_the_answer(site: Site, slapd: Slapd) -> None:
    """Such as lines of the log."""
    servers = [f"ldaps://127.0.0.1:{free_port()}", slapd.ldaps, f"ldaps://127.0.0.1:{free_port()}"]
    users = {"base": "ou=peple,dc=example,dc=test"}
    gateway = site(pool("nim", ["m"], "http://127.0.0.1:9"), directories=[slapd.config(servers=servers, users=users)])
    done = run("check", "--config", gateway.config_file, "--online")
    lines = [line.removeprefix(f"{gateway.config_file}:") for line in done.stderr.splitlines()]
    assert done.returncode == 2
    assert [re.sub(r"^[0-9]+:[0-9]+: ", "", line)[:30] for line in lines] == [
        "identity provider corp: its si",
        *["identity provider directory: l"] * 3,
        "pool nim: backend 127.0.0.1:9:",
    ]
    assert lines[2].endswith("was answered with 32 noSuchObject; is users.base spelt as in the directory?")


@pytest.mark.parametrize("command", ["check", "serve"])
def test_what_no_check_knows_and_cannot_be_built_is_one_clear_line(site: Site, tmp_path: Path, command: str) -> None:
    bad = tmp_path / "bad.crt"
    # A list of revocations that is none: the certificate before it is fine, but TLS refuses the file.
    bad.write_bytes(make_pair().certificate + b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
    gateway = site(pool("nim", ["m"], backends=[{"url": "https://127.0.0.1:1", "tls": {"ca": str(bad)}}]))
    words = [sys.executable, "-m", "gateway", command, "--config", str(gateway.config_file)]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith('{"time":')]
    assert line.endswith(f": {bad} holds no usable certificate authority")
    assert done.stdout == ""


async def test_backends_are_asked_by_the_name_that_their_certificate_has(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The certificate names localhost only."""
    pair = make_pair()
    (tmp_path / "their.crt").write_bytes(pair.certificate)
    (tmp_path / "their.key").write_bytes(pair.key)
    context = server_context(settings.ServerTls(tmp_path / "their.crt", tmp_path / "their.key"))
    async with serving(context) as one, serving(context) as other:
        tls = {"ca": str(tmp_path / "their.crt")}
        gateway = site(
            pool("named", ["a"], backends=[{"url": one.url, "tls": {**tls, "server_name": "localhost"}}]),
            pool("unnamed", ["b"], backends=[{"url": other.url, "tls": tls}]),
        )
        (line,) = await said(gateway, capsys)
    where = other.url.removeprefix("https://")
    assert line.startswith(f"pool unnamed: backend {where}: /v1/health/ready: ")
    assert "certificate" in line


async def test_a_model_that_is_not_ready_is_named(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving() as server:
        server.says |= {"/v2/health/ready": 400, "/v2/models/b/ready": 400}
        await expect(site, server, capsys, ["model b: status 400"])
        server.says["/v2/models/a/ready"] = 404
        await expect(
            site, server, capsys, ["/v2/health/ready: status 400", "model a: status 404", "model b: status 400"]
        )


async def expect(site: Site, server: Server, capsys: pytest.CaptureFixture[str], texts: list[str]) -> None:
    gateway = site(pool("triton", ["a", "b"], server.url, protocols=["kserve"], health={"path": "/v2/health/ready"}))
    where = server.url.removeprefix("http://")
    assert await said(gateway, capsys) == [f"pool triton: backend {where}: {text}" for text in texts]


@pytest.fixture
def silent() -> Iterator[list[str]]:
    with ExitStack() as stack:
        listeners = [deaf() for _ in range(20)]
        for listener, _ in listeners:
            stack.enter_context(listener)
        yield [url for _, url in listeners]


async def test_backends_are_not_asked_one_after_the_other(
    site: Site, silent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    lines = await said(site(pool("nim", ["m"], *silent, health={"timeout": "500ms"})), capsys)
    assert time.monotonic() - began < 20 * 0.5 / 2
    assert [line.split(": ")[1] for line in lines] == [f"backend {url.removeprefix('http://')}" for url in silent]
    assert all(line.endswith(": no answer in time") for line in lines)


def checked(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """What `check` has to say of files that are good, and the warnings along with it."""
    assert check.run(argparse.Namespace(config=gateway.config_file, root=None, online=False)) == 0
    said = capsys.readouterr()
    return said.out, said.err.splitlines()


def test_when_all_is_well_nothing_is_said(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    gateway = site(pool("nim", ["m"], f"http://127.0.0.1:{free_port()}"))
    assert checked(gateway, capsys) == (
        f"{gateway.config_file}: good (1 pool, 1 model, 1 rule, 1 identity provider)\n",
        [],
    )


def test_what_is_hardly_meant_is_a_warning_and_all_is_good_nevertheless(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway = site(pool("a", ["m"], "http://127.0.0.1:1"), pool("b", ["n", "o"], "http://127.0.0.1:1"))
    gateway.write_rules([allow("typo", ["M"]), allow("good", ["m"])])
    (gateway.policies / "more.yml").touch()
    out, warnings = checked(gateway, capsys)
    assert out.endswith(": good (2 pools, 3 models, 2 rules, 1 identity provider)\n")
    typo, unopened, unread = warnings
    assert typo.startswith(f"warning: {gateway.policies}/rules.yaml:3: rule typo: ")
    assert unopened.startswith("warning: pool b: ")
    assert unread.startswith(f"warning: {gateway.policies}/more.yml: ")


def run(command: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "gateway", command, *map(str, words)]
    return subprocess.run(line, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", ["check", "serve"])
def test_the_configuration_is_looked_for_under_the_root(site: Site, tmp_path: Path, command: str) -> None:
    gateway = site(pool("nim", ["m"], "http://127.0.0.1:1"))
    gateway.config["pools"][0]["balance"] = "magic"
    gateway.write_config()
    (tmp_path / "config").mkdir()
    (tmp_path / "gateway.yaml").rename(tmp_path / "config" / "gateway.yaml")
    for config in ([], ["--config", "config/gateway.yaml"], ["--config", tmp_path / "config" / "gateway.yaml"]):
        done = run(command, "--root", tmp_path, *config)
        assert done.returncode == 2
        assert done.stderr.startswith(f"{tmp_path}/config/gateway.yaml:")
        assert "unknown way to balance" in done.stderr


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize("root", ["nowhere", "file"])
def test_a_root_that_is_no_folder_is_one_clear_line(tmp_path: Path, command: str, root: str) -> None:
    (tmp_path / "file").touch()
    done = run(command, "--root", tmp_path / root)
    assert done.returncode == 2
    assert done.stderr == f"nim-gateway: --root {tmp_path / root} is not a folder\n"


@pytest.mark.parametrize("command", ["check", "serve"])
def test_help_says_which_configuration_is_read_when_none_is_named(command: str) -> None:
    assert "(default: config/gateway.yaml)" in " ".join(run(command, "--help").stdout.split())


def test_a_folder_in_the_place_of_the_configuration_is_one_mistake(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text("listen: {}\n")
    done = run("check", "--config", tmp_path)
    assert (done.returncode, done.stderr) == (2, f"{tmp_path}:1:1: is a folder; name a file\n1 mistake\n")


async def test_a_provider_that_cannot_be_asked_about_tokens_is_told_with_the_reason(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one that can is not."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    good, bad = sized(b'{"active":false}'), sized(b'{"error":"invalid_client"}', 401)
    with Stub(lambda request: bad if request.target == "/bad" else good) as stub:
        asked = {
            name: {"client_id": "gw", "client_secret": {"file": str(secret)}, "endpoint": f"{stub.url}/{name}"}
            for name in ("good", "bad")
        }
        gateway = site(pool("nim", ["m"], stub.url))
        gateway.config["identity"]["oidc"] += [
            oidc("x", name="good", verify="introspect", introspection=asked["good"]),
            oidc(stub.url, name="bad", verify="both", introspection=asked["bad"], jwks_uri=f"{stub.url}/keys"),
        ]
        gateway.write_config()
        lines = await said(gateway, capsys)
    assert [line for line in lines if "about tokens" in line] == [
        "identity provider bad: it cannot be asked about tokens: the provider does not accept this client (status 401)"
    ]

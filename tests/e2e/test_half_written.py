"""A policy that is still being written is never taken, however it is written and whoever asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gateway import generation
from gateway.config.watch import UNKNOWN, contents
from gateway.devcerts import Paths
from tests.conftest import StartGateway, Token
from tests.e2e.here import LIVE, here, until
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.process import free_port, wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
ALLOW = allow("all", ["**"])
DENY = {**allow("not-n", ["n"]), "effect": "deny"}


def text(*rules: object) -> str:
    return yaml.safe_dump({"version": 1, "rules": [*rules]}, sort_keys=False)


#: Allow rules first, the one that denies last: the first part is a policy as well, and lets everybody in.
WHOLE = text(ALLOW, DENY)
FIRST = text(ALLOW)
assert WHOLE.startswith(FIRST)


@pytest.fixture
def gateway(start_gateway: StartGateway) -> Iterator[Gateway]:
    with Stub() as stub:
        running = start_gateway([pool("nim", ["m", "n"], stub.url)], [ALLOW, DENY])
        running.backends_up("nim", 1)
        yield running
        running.stop()


def status(gateway: Gateway, token: str, model: str) -> int:
    return gateway.ask("POST", CHAT, body={"model": model}, token=token).status


def in_place(rules: Path) -> Path:
    return rules


def made_again(rules: Path) -> Path:
    rules.unlink()
    return rules


@pytest.mark.parametrize("asked", [False, True], ids=["by itself", "by signal"])
@pytest.mark.parametrize(("begun", "pause"), [(in_place, 1.2), (made_again, 0.8)], ids=["in place", "made again"])
@pytest.mark.parametrize("first", [FIRST, FIRST.replace("id: all", "id: everything")], ids=["prefix", "other text"])
def test_a_pause_of_the_writer_opens_nothing(
    gateway: Gateway, token: Token, begun: Callable[[Path], Path], pause: float, asked: bool, first: str
) -> None:
    """B095: `pause` in seconds."""
    alice = token("alice")
    last = WHOLE.removeprefix(FIRST) + text(allow("sign", ["m"])).partition("rules:\n")[2]
    with begun(gateway.policies / "rules.yaml").open("w") as file:
        file.write(first)
        file.flush()
        if asked:
            gateway.reload()
        ends = time.monotonic() + pause
        while time.monotonic() < ends:
            assert status(gateway, alice, "n") == 403
        file.write(last)
    wait_until(lambda: gateway.status()["rules"] == 3, LIVE, "the whole policy being taken")
    assert [status(gateway, alice, model) for model in "mn"] == [200, 403]


def test_a_rule_that_is_taken_away_at_the_end_is_live_in_two_seconds(gateway: Gateway, token: Token) -> None:
    """What could be half of a file may be all of it: nothing waits for ever."""
    (gateway.policies / "rules.yaml").write_text(FIRST)
    wait_until(lambda: status(gateway, token("alice"), "n") == 200, LIVE, "the shorter policy being taken")


@pytest.fixture
def files(tmp_path: Path, certificates: Paths) -> Gateway:
    """The files of a gateway that this process runs."""
    down = f"http://127.0.0.1:{free_port()}"
    audit = {"file": str(tmp_path / "audit.jsonl")}
    timeouts = {"timeouts": {"pre_stop": "1ms", "drain": "1ms"}}
    return Gateway(
        tmp_path, certificates, [oidc(down)], [pool("nim", ["m", "n"], down)], [ALLOW, DENY],
        start=False, audit=audit, limits=timeouts,
    )  # fmt: skip


async def test_files_that_changed_after_they_were_reported_are_not_taken_as_they_are(files: Gateway) -> None:
    """Between the watcher's last look and the reading a writer may have begun."""
    rules = files.policies / "rules.yaml"
    async with here(generation.read(files.config_file, None), files.config_file) as running:
        rules.write_text(FIRST)
        await running._reloads.reload()
        assert (running.status()["generation"], running.status()["rules"]) == (1, 2)
        rules.write_text("version: 1\nrules: [")
        await running._reloads.reload()
        assert running.status()["reload"]["successful"]
        await until(lambda: not running.status()["reload"]["successful"])


async def test_what_was_dropped_is_read_again_also_when_the_files_are_again_what_they_were(files: Gateway) -> None:
    rules = files.policies / "rules.yaml"
    whole = rules.read_text()
    async with here(generation.read(files.config_file, None), files.config_file) as running:
        rules.write_text(FIRST)
        await running._reloads.reload()
        rules.write_text(whole)
        await until(lambda: running.status()["generation"] == 2)
        assert running.status()["rules"] == 2


async def test_a_policy_folder_that_a_reload_names_first_is_watched_as_it_was_read(
    files: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rules.yaml").write_text(FIRST)
    async with here(generation.read(files.config_file, None), files.config_file) as running:
        files.config["policies"] = str(tmp_path / "other")
        files.write_config()
        await until(lambda: running.status()["rules"] == 1)
        (tmp_path / "other" / "rules.yaml").write_text(WHOLE)
        await until(lambda: running.status()["rules"] == 2)
        assert running.status()["generation"] == 3


async def test_what_changed_while_the_gateway_started_is_noticed(files: Gateway) -> None:
    rules = files.policies / "rules.yaml"
    source = generation.read(files.config_file, None)
    rules.write_text(FIRST)
    async with here(source, files.config_file) as running:
        await until(lambda: running.status()["rules"] == 1)


def test_what_changed_while_it_was_read_is_marked(files: Gateway) -> None:
    seen = generation.look(files.config_file, None)
    assert generation.read(files.config_file, None, seen).files == seen == contents(seen)
    (files.policies / "rules.yaml").write_text(FIRST)
    moved = generation.read(files.config_file, None, seen).files
    assert moved == {**seen, files.policies: UNKNOWN}
    assert generation.look(files.config_file, None, seen) == seen, "what was reported stands"

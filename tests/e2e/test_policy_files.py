"""Policy files in a running gateway: what is bad changes nothing, what is swapped is taken as a whole, each time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gateway import generation, reloading
from gateway.config.watch import Pace, Watcher
from gateway.devcerts import Paths
from tests.e2e.here import here, serving, until
from tests.e2e.load import Load
from tests.identity.signers import Mint, ec_signer
from tests.parts import scripts
from tests.parts.client import streaming
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import Issuers
from tests.parts.process import wait_until
from tests.parts.scripts import Then
from tests.parts.stub import Stub
from tests.parts.volume import swap
from tests.policy.bad_files import BAD, GOOD

#: Seconds until a complete file has been taken; that it takes two is held by `test_reload`.
TAKEN = 10.0

CHAT = "/v1/chat/completions"
KEY = ec_signer("k")
MODELS = ["m", "n", "x", "y"]
QUICK = Pace(0.02, 0.03, 0.05)
MIB = 1024 * 1024


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def alice() -> Iterator[Mint]:
    """In `ds`; with `groups` she is somebody else."""
    with Issuers() as issuers:
        yield Mint(issuers.add("/corp", KEY.jwk()).iss, KEY, time.time())


@pytest.fixture
def gateway(tmp_path: Path, certificates: Paths, stub: Stub, alice: Mint) -> Iterator[Gateway]:
    """Its files; nothing runs yet."""
    issuers = [oidc(alice.iss, audience=["gw"])]
    timeouts = {"timeouts": {"pre_stop": "1ms", "drain": "10s"}}
    rules = [allow("m-only", ["m"], subjects={"groups": ["ds"]})]
    pools = [pool("nim", MODELS, stub.url)]
    with Gateway(tmp_path, certificates, issuers, pools, rules, start=False, limits=timeouts) as made:
        yield made


def started(gateway: Gateway) -> Gateway:
    gateway.start()
    gateway.backends_up("nim", 1)
    wait_until(lambda: gateway.readiness() == 200, 10, "being ready")
    return gateway


def status(gateway: Gateway, token: str, model: str) -> int:
    return gateway.ask("POST", CHAT, body={"model": model}, token=token).status


def listed(gateway: Gateway, token: str) -> str:
    """The models that the caller may use, by one decision of the gateway."""
    answer = gateway.ask("GET", "/v1/models", token=token)
    return "".join(sorted(one["id"] for one in answer.json()["data"])) if answer.status == 200 else str(answer.status)


def reloads(gateway: Gateway, result: str) -> float:
    return gateway.metric("gateway_config_reloads_total", result=result)


def text(*rules: object) -> str:
    return yaml.safe_dump({"version": 1, "rules": [*rules]}, sort_keys=False)


def put(path: Path, content: bytes) -> None:
    """At once and whole."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)


def enormous(path: Path) -> None:
    """A good policy and then nothing, 100 MiB of it."""
    beside = path.with_name(".enormous")
    beside.write_text(GOOD)
    os.truncate(beside, 100 * MIB)
    beside.replace(path)


def gone(path: Path) -> None:
    path.unlink()


def dangling(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("..data/rules.yaml")


WAYS: dict[str, tuple[Callable[[Path], None], str]] = {
    **{
        name: (lambda path, bad=bad: put(path, bad.text), f"rules.yaml:{bad.place}: ")  # type: ignore[misc]
        for name, bad in BAD.items()
    },
    "100 MiB": (enormous, "rules.yaml:1:1: the file is larger than 1024 KiB"),
    "no file": (gone, "holds no *.yaml file"),
    "a link to nothing": (dangling, "rules.yaml:1:1: cannot be read"),
}


async def test_no_bad_policy_file_changes_anything_and_each_is_told_with_its_place(
    gateway: Gateway, alice: Mint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B095, B097, B099: one after the other, with good calls after each."""
    monkeypatch.setattr(reloading, "Watcher", lambda seen: Watcher(seen, QUICK))
    rules = gateway.policies / "rules.yaml"
    good = GOOD.encode()
    put(rules, good)
    token = alice.token()
    told: dict[str, str] = {}

    def decisions() -> list[int]:
        return [status(gateway, token, model) for model in "mn"]

    async with here(generation.read(gateway.config_file, None), gateway.config_file) as running:
        await serving(running)
        assert await asyncio.to_thread(decisions) == [200, 403]
        for count, (name, (spoil, _)) in enumerate(WAYS.items(), 1):
            spoil(rules)
            await until(lambda wanted=count: running._tallies.reloads["failure"] == wanted)  # type: ignore[misc]
            told[name] = "\n".join(running.status()["reload"]["mistakes"])
            assert await asyncio.to_thread(decisions) == [200, 403], name
        assert running.status()["generation"] == 1
        assert await asyncio.to_thread(gateway.metric, "gateway_config_reload_successful") == 0
        assert await asyncio.to_thread(gateway.metric, "gateway_config_reloads_total", result="failure") == len(WAYS)
        assert await asyncio.to_thread(gateway.readiness) == 200
        put(rules, good + b"# mended\n")
        await until(lambda: running.status()["generation"] == 2)
        assert await asyncio.to_thread(gateway.metric, "gateway_config_reload_successful") == 1
    assert {name: told[name] for name, (_, words) in WAYS.items() if words not in told[name]} == {}


def half(model: str, extra: str) -> dict[str, str]:
    """A policy in two files that allow one model together; one of each of two policies allow two."""
    ds = {"groups": ["ds"]}
    return {
        "a.yaml": text(allow("a", [model, extra], subjects=ds)),
        "b.yaml": text({**allow("b", [extra], subjects=ds), "effect": "deny"}),
    }


def test_each_swap_of_a_config_map_is_taken_once_and_whole_while_calls_run(
    gateway: Gateway, stub: Stub, alice: Mint
) -> None:
    """B094, B100: both files change together, so a list of models is that of one policy or of the other; a call that
    is under way goes on and stays counted."""
    folder = gateway.policies
    (folder / "rules.yaml").unlink()
    swap(folder, "0", half("m", "x"))
    stub.say(
        lambda request: (
            (scripts.head(200, "Content-Length: 9"), Then.WAIT) if b"wait" in request.body else scripts.sized()
        )
    )
    started(gateway)
    token = alice.token()
    successes = reloads(gateway, "success")
    body = {"model": "m", "user": "wait"}
    with (
        streaming(gateway.url, "POST", CHAT, body=body, token=token, ca=gateway.ca) as under_way,
        Load(lambda: listed(gateway, token), 40) as load,
    ):
        assert under_way.status == 200
        for count, (model, extra) in enumerate([("n", "y"), ("m", "x"), ("n", "y")], 1):
            swap(folder, str(count), half(model, extra))
            wait_until(lambda wanted=model: listed(gateway, token) == wanted, TAKEN, f"{model} being allowed")  # type: ignore[misc]
            assert reloads(gateway, "success") == successes + count
        done = load.done
        wait_until(lambda: load.done > done + 20, 10, "more calls")
        assert gateway.metric("gateway_in_flight_requests", pool="nim") == 1
        assert gateway.metric("gateway_backend_up", pool="nim") == 1
    assert set(load.outcomes) == {"m", "n"}
    assert reloads(gateway, "success") == successes + 3


def test_two_policies_that_take_turns_every_moment_are_never_mixed(gateway: Gateway, alice: Mint) -> None:
    """B100: what never rests is not taken; what rests at last is, by call and by list."""
    started(gateway)
    token, rules = alice.token(), gateway.policies / "rules.yaml"
    both = [text(allow("only", [model], subjects={"groups": ["ds"]})).encode() for model in "mn"]
    with Load(lambda: (status(gateway, token, "m"), listed(gateway, token), status(gateway, token, "n")), 20) as load:
        ends, turns = time.monotonic() + 1.5, 0
        while time.monotonic() < ends:
            turns += 1
            put(rules, both[turns % 2])
            load_done = load.done
            wait_until(lambda seen=load_done: load.done > seen, 10, "a call")  # type: ignore[misc]
        put(rules, both[1])
        wait_until(lambda: (403, "n", 200) in load.outcomes, TAKEN, "the last one being taken")
    assert {(200, "m", 403), (403, "n", 200)} <= set(load.outcomes)
    # Each call is decided for itself, so one policy may follow the other between them: once, not to and fro.
    assert not {(200, "n", 403), (403, "m", 200)} & set(load.outcomes)
    assert {one[1] for one in load.outcomes if isinstance(one, tuple)} == {"m", "n"}


def test_files_that_are_no_policies_hold_up_no_rule_however_often_they_change(gateway: Gateway, alice: Mint) -> None:
    started(gateway)
    token = alice.token()
    (gateway.policies / "tests.yaml").mkdir()
    gateway.write_rules([allow("n-now", ["n"], subjects={"groups": ["ds"]})])

    def taken() -> bool:
        for name in (".sync.yaml", ".rules.yaml.swp", "NOTES.md", "tests.yaml/cases.yaml"):
            (gateway.policies / name).write_text(f"# {time.monotonic_ns()}\n")
        return status(gateway, token, "n") == 200

    wait_until(taken, TAKEN, "the policy being taken")
    assert (status(gateway, token, "m"), reloads(gateway, "success")) == (403, 1)


def test_a_policy_that_is_written_in_small_steps_lets_nobody_in_meanwhile(gateway: Gateway, alice: Mint) -> None:
    """B095: 64 bytes at a time, with pauses; then nothing at all for two seconds; then no file. The old one stays."""
    rules = gateway.policies / "rules.yaml"
    rules.write_text(GOOD)
    started(gateway)
    who = {200: alice.token(), 403: alice.token(groups=["contractors"])}
    everybody = allow("everybody", ["*"], subjects={"issuers": ["corp"]}, description="")
    everybody["description"] = "x" * (5 * 64 - len(text(everybody)) + len("''"))
    assert len(text(everybody)) == 5 * 64, "at that step it is a policy that lets everybody in"
    new = text(everybody, {**allow("not-them", ["m"], subjects={"groups": ["contractors"]}), "effect": "deny"}).encode()
    assert len(new) > 5 * 64

    def steady(seconds: float) -> None:
        """Ask for so long; whoever is let in or not is so as under the old policy."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            assert [status(gateway, token, "m") for token in who.values()] == [*who]

    with rules.open("wb", buffering=0) as file:
        for start in range(0, len(new), 64):
            file.write(new[start : start + 64])
            steady(0.2)
    wait_until(lambda: status(gateway, who[200], "n") == 200, TAKEN, "the whole policy being taken")
    rules.write_bytes(b"")
    steady(2.0)
    assert gateway.metric("gateway_config_reload_successful") == 0
    failures = gateway.metric("gateway_config_reloads_total", result="failure")
    assert failures >= 1
    rules.unlink()
    wait_until(
        lambda: gateway.metric("gateway_config_reloads_total", result="failure") > failures, 5, "no file being told"
    )
    steady(0.2)
    assert gateway.readiness() == 200
    rules.write_text(GOOD)
    wait_until(lambda: status(gateway, who[200], "n") == 403, TAKEN, "the file being back")
    assert gateway.metric("gateway_config_reload_successful") == 1

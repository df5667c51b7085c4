"""However often policies are reloaded, each decision is made by one of them as a whole."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import generation, reloading
from gateway.config.watch import Pace, Watcher
from gateway.devcerts import Paths
from tests.e2e.here import here, serving, until
from tests.identity.signers import Mint, ec_signer
from tests.parts import scripts
from tests.parts.client import prepared, whole
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import Issuers
from tests.parts.stub import Stub
from tests.parts.volume import swap

CHAT = "/v1/chat/completions"
KEY = ec_signer("k")
EVERY, RELOADS = 0.05, 60  # seconds between reloads at least, and how many there are
HASTY = Pace(interval=0.01, whole=0.005, written=0.005)
CALLERS = 3
STREAMED = 2 * RELOADS  # pieces of an answer that outlasts them all, one for each pause between reloads

#: By policy: what alice may use, and for each model the rule that decides, as both stand in two files that change
#: together. Halves of the two put together allow both models or none.
POLICIES: dict[str, dict[str, str | None]] = {
    "a": {"small": "a-allow", "big": "a-deny", "shared": "a-shared"},
    "b": {"small": "b-deny", "big": "b-allow", "shared": "b-shared"},
}
ALLOWED = {"a": {"small", "shared"}, "b": {"big", "shared"}}


def files(policy: str) -> dict[str, str]:
    """The policy in two files."""
    rules = POLICIES[policy]
    (model,) = ALLOWED[policy] - {"shared"}
    (other,) = {"small", "big"} - {model}
    subjects = "{groups: [ds]}"
    allows = [(rules[model], model), (rules["shared"], "shared"), (f"{policy}-too", other)]
    first = "".join(f"  - {{id: {id_}, effect: allow, subjects: {subjects}, models: [{m}]}}\n" for id_, m in allows)
    second = f"  - {{id: {rules[other]}, effect: deny, subjects: {subjects}, models: [{other}]}}\n"
    return {"allows.yaml": f"version: 1\nrules:\n{first}", "denies.yaml": f"version: 1\nrules:\n{second}"}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def alice() -> Iterator[Mint]:
    with Issuers() as issuers:
        yield Mint(issuers.add("/corp", KEY.jwk()).iss, KEY, time.time())


@pytest.fixture
def gateway(tmp_path: Path, certificates: Paths, stub: Stub, alice: Mint) -> Gateway:
    """Its files: the policies come as a ConfigMap."""
    made = Gateway(
        tmp_path, certificates, [oidc(alice.iss, audience=["gw"])], [pool("nim", ["small", "big", "shared"], stub.url)],
        [allow("none", ["none"])], start=False,
        audit={"file": str(tmp_path / "audit.jsonl")}, limits={"timeouts": {"pre_stop": "1ms", "drain": "10s"}},
    )  # fmt: skip
    (made.policies / "rules.yaml").unlink()
    swap(made.policies, "first", files("a"))
    return made


class Flood:
    """Callers on kept connections that ask for both models and for the list, as fast as they are answered."""

    def __init__(self, gateway: Gateway, token: str) -> None:
        self.lists: Counter[frozenset[str]] = Counter()
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.failures: list[str] = []
        self._gateway = gateway
        self._token = token
        self.over = threading.Event()
        asks = [lambda line, m=m: self._chat(line, m) for m in ("small", "big", "shared")] + [self._list]
        self._threads = [threading.Thread(target=self._work, args=(ask,)) for ask in asks * CALLERS]

    def __enter__(self) -> Flood:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def join(self) -> None:
        """Until the last answer."""
        for thread in self._threads:
            thread.join(60)

    def _work(self, ask: Any) -> None:
        line = http.client.HTTPSConnection("localhost", self._gateway.port, timeout=30, context=self._gateway.trust)
        try:
            while not self.over.is_set():
                ask(line)
        except Exception as error:  # noqa: BLE001  every way to fail is told
            self.failures.append(repr(error))
        finally:
            line.close()

    def _chat(self, line: http.client.HTTPSConnection, model: str) -> None:
        payload, fields = prepared({"model": model}, None, self._token)
        line.request("POST", CHAT, payload, fields)
        self.statuses[model, whole(line.getresponse()).status] += 1

    def _list(self, line: http.client.HTTPSConnection) -> None:
        line.request("GET", "/v1/models", None, prepared(None, None, self._token)[1])
        self.lists[frozenset(one["id"] for one in whole(line.getresponse()).json()["data"])] += 1


async def test_no_decision_of_a_flood_mixes_two_policies_that_take_turns_every_fifty_milliseconds(
    gateway: Gateway, stub: Stub, alice: Mint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B100: neither of two generations, nor of two files that change together. A stream goes on, and stays counted."""
    pieces = scripts.events(STREAMED)
    stub.say(lambda request: scripts.sse(pieces, every=EVERY) if b"stream" in request.body else scripts.sized())
    token = alice.token()
    monkeypatch.setattr(reloading, "Watcher", lambda seen: Watcher(seen, HASTY))
    async with here(generation.read(gateway.config_file, None), gateway.config_file) as running:
        await serving(running)
        digests = {running.status()["policy"]: "a"}
        async with asyncio.TaskGroup() as group:
            body = {"model": "shared", "stream": True}
            stream = group.create_task(asyncio.to_thread(gateway.ask, "POST", CHAT, body=body, token=token))
            with Flood(gateway, token) as flood:
                for turn in range(RELOADS):
                    pace = group.create_task(asyncio.sleep(EVERY))
                    name = "ba"[turn % 2]
                    await asyncio.to_thread(swap, gateway.policies, f"turn-{turn}", files(name))
                    await until(lambda wanted=turn + 2: running.status()["generation"] == wanted)  # type: ignore[misc]
                    digests[running.status()["policy"]] = name
                    await pace
                flood.over.set()
                await asyncio.to_thread(flood.join)
        assert stream.result().body == b"".join(pieces)
        assert running.status()["generation"] == RELOADS + 1
        assert await asyncio.to_thread(gateway.metric, "gateway_in_flight_requests", pool="nim") == 0
        assert await asyncio.to_thread(gateway.metric, "gateway_backend_up", pool="nim") == 1
    assert sorted(digests.values()) == ["a", "b"]
    assert flood.failures == []
    assert set(flood.lists) == {frozenset(allowed) for allowed in ALLOWED.values()}
    assert set(flood.statuses) == {("small", 200), ("small", 403), ("big", 200), ("big", 403), ("shared", 200)}
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    decided = [(digests[one["policy"]], one["generation"], one) for one in records if one.get("model")]
    assert len(decided) == sum(flood.statuses.values()) + 1
    for name, number, one in decided:
        assert name == "ab"[(number - 1) % 2]
        assert one["rule"] == POLICIES[name][one["model"]]
        assert one["decision"] == ("allow" if one["model"] in ALLOWED[name] else "deny")
    assert len({number for _, number, _ in decided}) > RELOADS / 2, "there were calls under most of them"

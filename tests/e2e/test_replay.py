"""Every decision of a running gateway can be made again from its audit file, also after its policy was replaced."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.devcerts import Paths
from gateway.policy.files import read
from tests.identity.signers import Mint, ec_signer
from tests.parts import scripts
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import Issuers
from tests.parts.process import wait_until
from tests.parts.stub import Stub

KEY = ec_signer("k")
CHAT = {"model": "m", "messages": []}

#: Names that a provider may give, which a careless line would not give back.
ODD = ("al\\ice", "a\u202ebob", "zoë\u00a0e", "x" * 400, "\U000e0001tag", 'quote"s', "\\u0041")

DENY: dict[str, Any] = {"id": "no-x", "effect": "deny", "subjects": {"groups": ["out"]}, "models": ["**"]}
ALL = ["infer", "stream", "list", "metadata", "health", "metrics", "admin"]


def folders() -> list[list[dict[str, Any]]]:
    """Policies that follow each other: by group, by address, by the hour, by operation, with odd names."""
    today = datetime.now(UTC).strftime("%a").lower()
    return [
        [allow("m-only", ["m"], subjects={"groups": ["ds"]}), DENY],
        [allow("near", ["*"], subjects={"groups": ["ds"]}, **{"from": ["127.0.0.0/8", "::1/128"]})],
        [allow("far", ["*"], subjects={"groups": ["ds"]}, **{"from": ["192.0.2.0/24"]})],
        [
            allow(
                "today", ["**"], subjects={"groups": ["ds"]}, when={"days": [today], "timezone": "UTC"}, operations=ALL
            )
        ],
        [
            allow("odd", ["**"], subjects={"users": [*ODD]}),
            allow("scoped", ["n"], subjects={"issuers": ["corp"], "scopes": ["run"]}),
        ],
        [
            allow("not-out", ["**"], subjects={"issuers": ["corp"], "not_groups": ["out", "z\u200dz"]}, operations=ALL),
            DENY,
        ],
    ]


@pytest.fixture
def mint() -> Iterator[Mint]:
    with Issuers() as issuers:
        yield Mint(issuers.add("/corp", KEY.jwk()).iss, KEY, time.time())


@pytest.fixture
def gateway(tmp_path: Path, certificates: Paths, mint: Mint) -> Iterator[Gateway]:
    with Stub(scripts.sized(b"{}")) as stub:
        pools = [
            pool("nim", ["m", "n"], stub.url),
            pool("triton", ["t"], stub.url, protocols=["kserve"], health={"path": "/v2/health/ready"}),
        ]
        issuers = [oidc(mint.iss, audience=["gw"])]
        policies = {"enforce": str(tmp_path / "policies"), "history": str(tmp_path / "kept")}
        audit = {"file": str(tmp_path / "audit.log")}
        more: dict[str, Any] = {
            "policies": policies,
            "audit": audit,
            "limits": {"timeouts": {"pre_stop": "1ms", "drain": "5s"}},
        }
        with Gateway(tmp_path, certificates, issuers, pools, folders()[0], **more) as made:
            made.backends_up("nim", 1)
            made.backends_up("triton", 1)
            wait_until(lambda: made.readiness() == 200, 10, "being ready")
            yield made


def explain(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", "policy", "explain", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def put(gateway: Gateway, rules: list[dict[str, Any]]) -> None:
    """Put these rules in force; what is kept is in force by then."""
    gateway.write_rules(rules)
    kept = gateway.folder / "kept" / read(gateway.policies).digest
    wait_until(kept.is_dir, 10, "the policy, kept")


def tokens(mint: Mint) -> list[str]:
    return [
        mint.token(groups=["ds", "others"]),
        mint.token(groups=["out"]),
        mint.token(groups=["z\u200dz"], scope="run read"),
        mint.token(groups=..., hasgroups=True),
        *(mint.token(sub=name, groups=[]) for name in ODD),
    ]


def ask_all(gateway: Gateway, mint: Mint) -> None:
    """Inference, streams, lists, details, health and numbers, by all callers."""
    for token in tokens(mint):
        gateway.ask("POST", "/v1/chat/completions", body=CHAT, token=token)
        gateway.ask("POST", "/v1/chat/completions", body=CHAT | {"stream": True, "model": "n"}, token=token)
        gateway.ask("POST", "/v1/chat/completions", body=CHAT | {"model": "unheard"}, token=token)
        for path in (
            "/v1/models",
            "/v2/models/t",
            "/v2/models/t/versions/1/ready",
            "/v2/models/t/stats",
            "/v1/metadata",
        ):
            gateway.ask("GET", path, token=token)
    gateway.ask("POST", "/v1/chat/completions", body=CHAT, token=mint.token(exp=1))


def test_all_that_was_decided_under_several_policies_is_decided_the_same_again(gateway: Gateway, mint: Mint) -> None:
    for number, rules in enumerate(folders()):
        if number == 3:
            gateway.config["hide_models"] = True
            gateway.write_config()
        put(gateway, rules)
        ask_all(gateway, mint)
    gateway.stop()
    file = gateway.folder / "audit.log"
    decisions = [
        line for line in map(json.loads, file.read_bytes().splitlines()) if line.get("decided_at") and line["model"]
    ]
    assert len({line["policy"] for line in decisions}) == 6
    assert {line["decision"] for line in decisions} == {"allow", "deny"}
    assert {line["reason"] for line in decisions} >= {"ok", "model_not_allowed", "model_not_found", "groups_overage"}

    told = explain("--config", gateway.config_file, "--audit", file, "--json")
    tally = json.loads(told.stdout)
    assert (tally["differences"], tally["not_replayable"]) == ([], {})
    assert tally["identical"] == len(decisions) > 200
    assert told.returncode == 0


def test_a_caller_who_was_denied_gets_an_id_by_which_an_operator_finds_out_why(gateway: Gateway, mint: Mint) -> None:
    answer = gateway.ask("POST", "/v1/chat/completions", body=CHAT, token=mint.token(sub="carol", groups=["ml"]))
    decision = answer["x-decision-id"]
    assert decision is not None
    assert answer.status == 403
    wait_until(lambda: decision in (gateway.folder / "audit.log").read_text(), 5, "its audit line")
    put(gateway, folders()[1])

    told = explain("--config", gateway.config_file, "--decision", decision, "--audit", gateway.folder / "audit.log")
    assert told.returncode == 1
    assert "DENIED: carol" in told.stdout
    assert f"m-only ({gateway.policies}/rules.yaml:3) lacks: the caller is in none of groups ds" in told.stdout
    assert "exactly as it was logged" in told.stdout


def test_a_kept_policy_that_somebody_changed_is_not_believed(gateway: Gateway, mint: Mint) -> None:
    answer = gateway.ask("POST", "/v1/chat/completions", body=CHAT, token=mint.token(groups=["ml"]))
    put(gateway, folders()[1])
    gateway.stop()
    for file in (gateway.folder / "kept").glob("*/rules.yaml"):
        file.write_text(file.read_text().replace("ds", "ml"))

    audit = gateway.folder / "audit.log"
    decision = answer["x-decision-id"]
    assert decision is not None
    told = explain("--config", gateway.config_file, "--decision", decision, "--audit", audit)
    assert (told.returncode, told.stdout) == (2, "")
    assert "is not what it was: somebody changed its files" in told.stderr
    assert explain("--config", gateway.config_file, "--audit", audit).returncode == 1


def test_a_place_where_nothing_can_be_kept_holds_up_neither_calls_nor_new_rules(gateway: Gateway, mint: Mint) -> None:
    kept = gateway.folder / "kept"
    wait_until(lambda: any(kept.glob("[0-9a-f]*")), 10, "the first policy, kept")
    shutil.rmtree(kept)
    kept.write_text("in the way")
    gateway.write_rules([allow("nobody", ["m"], subjects={"groups": ["nobody-here"]})])

    asked: dict[str, Any] = {"body": CHAT, "token": mint.token()}
    wait_until(lambda: gateway.ask("POST", "/v1/chat/completions", **asked).status == 403, 10, "the new rule")
    wait_until(lambda: gateway.metric("gateway_policies_not_kept_total") == 1, 10, "its being counted")
    log = gateway.process.stderr.read_text()
    assert "policy.not_kept folder=" in log
    assert "config.advice policies.history: " in log

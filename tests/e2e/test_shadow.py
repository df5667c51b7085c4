"""A shadow policy in a running gateway: callers notice nothing of it, operators see what it would change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.devcerts import Paths
from tests.identity.signers import Mint, ec_signer
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import Issuers
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
KEY = ec_signer("k")
DS = {"groups": ["ds"]}
#: Seconds after which a change must be live (contract, section 3).
LIVE = 2.0
#: Seconds until a change has been taken, where the test is about something else.
TAKEN = 10.0
#: What is another with each call.
OWN = {"date", "x-request-id", "x-decision-id", "traceparent"}


@pytest.fixture
def alice() -> Iterator[Mint]:
    """In `ds`."""
    with Issuers() as issuers:
        yield Mint(issuers.add("/corp", KEY.jwk()).iss, KEY, time.time())


@pytest.fixture
def gateway(tmp_path: Path, certificates: Paths, alice: Mint) -> Iterator[Gateway]:
    """Its files, with a shadow policy that turns around what is in force; nothing runs yet."""
    with Stub() as stub:
        rules = [allow("m-only", ["m"], subjects=DS)]
        issuers, pools = [oidc(alice.iss, audience=["gw"])], [pool("nim", ["m", "n"], stub.url)]
        with Gateway(tmp_path, certificates, issuers, pools, rules, start=False) as made:
            made.config["policies"] = {"enforce": str(made.policies), "shadow": str(tmp_path / "candidate")}
            made.write_config()
            write_shadow(made, [allow("n-only", ["n"], subjects=DS)])
            yield made


def write_shadow(gateway: Gateway, rules: Sequence[dict[str, Any]], text: str | None = None) -> None:
    """At once and whole."""
    folder = gateway.folder / "candidate"
    folder.mkdir(exist_ok=True)
    beside = folder / ".rules.new"
    beside.write_text(json.dumps({"version": 1, "rules": [*rules]}) if text is None else text)
    beside.rename(folder / "rules.yaml")


def started(gateway: Gateway) -> Gateway:
    gateway.start()
    gateway.backends_up("nim", 1)
    return gateway


def chat(gateway: Gateway, alice: Mint, model: str) -> Answer:
    return gateway.ask("POST", CHAT, body={"model": model}, token=alice.token())


def told(answer: Answer) -> tuple[int, list[tuple[str, str]], bytes]:
    """What a caller sees, but for what is another with each call."""
    own = answer["x-request-id"] or "none"
    fields = [(name, value) for name, value in answer.fields if name not in OWN]
    return answer.status, fields, answer.body.replace(own.encode(), b"ID")


def decisions(gateway: Gateway, result: str, rule: str) -> float:
    return gateway.metric("gateway_shadow_decisions_total", result=result, rule=rule)


def test_callers_see_no_difference_and_operators_see_each_one(gateway: Gateway, alice: Mint) -> None:
    started(gateway)
    with_shadow = {model: [chat(gateway, alice, model) for _ in range(3)] for model in "mn"}
    assert [answer.status for answers in with_shadow.values() for answer in answers] == [200] * 3 + [403] * 3
    assert decisions(gateway, "would_deny", "") == 3
    assert decisions(gateway, "would_allow", "n-only") == 3
    lines = {model: gateway.audit_of(with_shadow[model][0]["x-request-id"]) for model in "mn"}
    assert [(line["decision"], line["shadow"], line["shadow_rule"]) for line in lines.values()] == [
        ("allow", "would_deny", None),
        ("deny", "would_allow", "n-only"),
    ]
    assert gateway.metric("gateway_shadow_ready") == 1
    assert gateway.metric("gateway_shadow_info", digest=gateway.status()["shadow"]["digest"]) == 1
    gateway.stop()
    gateway.config["policies"] = str(gateway.policies)
    gateway.write_config()
    started(gateway)
    for model, answers in with_shadow.items():
        assert told(answers[0]) == told(chat(gateway, alice, model)), model
    assert gateway.status()["shadow"] is None
    assert "gateway_shadow_ready" not in gateway.samples()


def test_a_changed_shadow_is_tried_in_two_seconds_and_calls_go_on_as_before(gateway: Gateway, alice: Mint) -> None:
    started(gateway)
    before = gateway.status()["shadow"]["digest"]
    write_shadow(gateway, [allow("m-too", ["m"], subjects=DS)])

    def tried() -> bool:
        assert chat(gateway, alice, "m").status == 200
        return decisions(gateway, "same", "m-too") > 0

    wait_until(tried, LIVE, "the new shadow policy being tried")
    assert gateway.status()["shadow"]["digest"] != before
    line = gateway.audit_of(chat(gateway, alice, "m")["x-request-id"])
    assert (line["shadow"], line["shadow_rule"]) == (None, None)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("version: 1\nrules: [", "rules.yaml:"),
        ("version: 1\nrules:\n- {id: x, effekt: allow}\n", "unknown setting 'effekt'"),
        (
            yaml.safe_dump({"version": 1, "rules": [allow("x", ["m"], subjects={"issuers": ["nobody"]})]}),
            "no identity provider is called 'nobody'",
        ),
    ],
)
def test_a_bad_shadow_holds_up_nothing_and_is_said_loudly(gateway: Gateway, alice: Mint, bad: str, said: str) -> None:
    started(gateway)
    write_shadow(gateway, [], bad)
    gateway.write_rules([allow("n-now", ["n"], subjects=DS)])
    wait_until(lambda: chat(gateway, alice, "n").status == 200, TAKEN, "the enforced policy being taken")
    assert chat(gateway, alice, "m").status == 403
    shadow = gateway.status()["shadow"]
    assert (shadow["ready"], shadow["digest"]) == (False, None)
    assert said in "\n".join(shadow["mistakes"])
    assert gateway.metric("gateway_shadow_ready") == 0
    assert gateway.metric("gateway_config_reload_successful") == 1
    assert "shadow.refused" in gateway.process.tail(100_000)
    write_shadow(gateway, [allow("n-then", ["n"], subjects=DS)])
    wait_until(lambda: gateway.metric("gateway_shadow_ready") == 1, TAKEN, "the mended shadow policy being tried")


def test_a_shadow_file_whose_name_is_no_text_holds_up_neither_rules_nor_a_start(gateway: Gateway, alice: Mint) -> None:
    odd = os.fsencode(gateway.folder / "candidate") + b"/\xff.yaml"
    Path(os.fsdecode(odd)).write_text(json.dumps({"version": 1, "rules": [allow("odd", ["n"], subjects=DS)]}))
    started(gateway)
    gateway.write_rules([allow("n-now", ["n"], subjects=DS)])
    wait_until(lambda: chat(gateway, alice, "n").status == 200, TAKEN, "the enforced policy being taken")
    assert chat(gateway, alice, "m").status == 403
    assert gateway.status()["shadow"]["mistakes"] == [
        f"{gateway.folder}/candidate/\\udcff.yaml:1:1: the name of this file is not UTF-8; rename it"
    ]


def test_a_shadow_that_never_rests_holds_up_no_rule(gateway: Gateway, alice: Mint) -> None:
    started(gateway)
    gateway.write_rules([allow("n-now", ["n"], subjects=DS)])

    def taken() -> bool:
        write_shadow(gateway, [allow(f"n-{time.monotonic_ns()}", ["n"], subjects=DS)])
        return chat(gateway, alice, "n").status == 200

    wait_until(taken, TAKEN, "the enforced policy being taken")
    assert chat(gateway, alice, "m").status == 403


def test_a_shadow_that_takes_long_to_read_holds_up_no_rule(gateway: Gateway, alice: Mint) -> None:
    """Thousands of rules, in a file that changes with each: reading it takes far longer than a rule may."""
    started(gateway)
    many = [allow(f"many-{number}", ["n"], subjects=DS) for number in range(9_000)]
    write_shadow(gateway, many)
    gateway.write_rules([allow("n-now", ["n"], subjects=DS)])
    wait_until(lambda: chat(gateway, alice, "m").status == 403, TAKEN, "the enforced policy being taken")
    assert gateway.status()["shadow"]["rules"] == 1, "it is still being read"
    wait_until(lambda: gateway.status()["shadow"]["rules"] == 9_000, 60, "the large policy being tried")
    generation = gateway.status()["generation"]
    gateway.write_rules([allow("m-now", ["m"], subjects=DS)])
    wait_until(lambda: gateway.status()["generation"] > generation, TAKEN, "the next policy being taken")
    assert gateway.status()["shadow"]["rules"] == 9_000, "it is not read again"


def test_another_shadow_is_tried_once_it_is_named(gateway: Gateway, alice: Mint) -> None:
    started(gateway)
    (gateway.folder / "candidate").rename(gateway.folder / "other")
    wait_until(lambda: gateway.metric("gateway_shadow_ready") == 0, TAKEN, "the shadow being missed")
    gateway.config["policies"]["shadow"] = str(gateway.folder / "other")
    gateway.write_config()
    wait_until(lambda: gateway.metric("gateway_shadow_ready") == 1, TAKEN, "the other being tried")
    assert chat(gateway, alice, "n").status == 403
    assert decisions(gateway, "would_allow", "n-only") == 1


def test_a_gateway_starts_without_its_shadow_and_check_says_so(gateway: Gateway, alice: Mint) -> None:
    (gateway.folder / "candidate" / "rules.yaml").unlink()
    (gateway.folder / "candidate").rmdir()
    started(gateway)
    assert chat(gateway, alice, "m").status == 200
    assert gateway.status()["shadow"]["ready"] is False
    command = [sys.executable, "-m", "gateway", "check", "--config", str(gateway.config_file)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 2
    assert str(gateway.folder / "candidate") in checked.stderr
    write_shadow(gateway, [allow("m-too", ["m"], subjects=DS)])
    wait_until(lambda: gateway.metric("gateway_shadow_ready") == 1, TAKEN, "the shadow policy being tried")
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def test_the_shadow_is_taken_away_with_its_setting(gateway: Gateway, alice: Mint) -> None:
    started(gateway)
    del gateway.config["policies"]["shadow"]
    gateway.write_config()
    wait_until(lambda: gateway.status()["shadow"] is None, TAKEN, "the shadow policy being gone")
    before = decisions(gateway, "would_deny", "")
    assert chat(gateway, alice, "m").status == 200
    assert decisions(gateway, "would_deny", "") == before


def test_a_promoted_policy_is_live_in_two_seconds_and_each_call_is_under_the_old_or_the_new(
    gateway: Gateway, alice: Mint
) -> None:
    started(gateway)
    both = [allow("m-too", ["m"], subjects=DS), allow("n-too", ["n"], subjects=DS)]
    write_shadow(gateway, both)
    wait_until(lambda: gateway.status()["shadow"]["rules"] == 2, TAKEN, "the shadow policy being tried")
    command = [sys.executable, "-m", "gateway", "policy", "promote", "--config", str(gateway.config_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr

    def taken() -> bool:
        assert chat(gateway, alice, "m").status == 200
        return chat(gateway, alice, "n").status == 200

    wait_until(taken, LIVE, "the promoted policy being enforced")
    assert gateway.metric("gateway_config_reload_successful") == 1
    assert gateway.metric("gateway_config_reloads_total", result="failure") == 0
    before = decisions(gateway, "same", "n-too")
    assert chat(gateway, alice, "n").status == 200
    assert decisions(gateway, "same", "n-too") == before + 1


def test_rules_that_are_no_more_leave_the_metrics_and_the_others_count_on(gateway: Gateway, alice: Mint) -> None:
    """Where policies are generated with new ids each time, series would pile up until the next start."""

    def counted(name: str) -> dict[str, float]:
        return {labels["rule"]: value for labels, value in gateway.samples().get(name, [])}

    started(gateway)
    for number in range(3):
        enforced = [
            allow(name, [model], subjects={"groups": ["ds"]}) for name, model in (("stays", "m"), (f"n-{number}", "n"))
        ]
        write_shadow(gateway, [allow("tried", ["m"], subjects=DS), allow(f"tried-{number}", ["n"], subjects=DS)])
        gateway.write_rules(enforced)

        def taken(number: int = number) -> bool:
            assert chat(gateway, alice, "n").status in {200, 403}
            by_rule = counted("gateway_authorizations_total"), counted("gateway_shadow_decisions_total")
            return f"n-{number}" in by_rule[0] and f"tried-{number}" in by_rule[1]

        wait_until(taken, TAKEN, "both policies being taken")
        assert chat(gateway, alice, "m").status == 200
        assert chat(gateway, alice, "x").status == 404
    # A call that is under way at a reload is counted once more by the rule that is gone, until the next.
    assert counted("gateway_authorizations_total").keys() - {"", "n-1"} == {"stays", "n-2"}
    assert counted("gateway_shadow_decisions_total").keys() - {"", "tried-1"} == {"tried", "tried-2"}
    assert counted("gateway_authorizations_total")["stays"] == 3
    assert counted("gateway_shadow_decisions_total")["tried"] == 3

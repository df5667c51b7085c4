"""People of a real OpenLDAP directory call the gateway with the name and the password they have there."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.devcerts import Paths
from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import Answer, connection, prepared, whole
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.process import wait_until
from tests.parts.slapd import Slapd
from tests.parts.stub import Stub


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}")) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway, slapd: Slapd, stub: Stub) -> Gateway:
    """alice may use `m`, and everybody of the directory `open`; the backend is told who calls."""
    rules = [allow("ds", ["m"]), allow("all", ["open"], subjects={"issuers": ["directory"]})]
    pools = [pool("nim", ["m", "open"], stub.url, identity_headers=True)]
    running = start_shared_gateway(pools, rules, directories=[slapd.config()])
    running.backends_up("nim", 1)
    return running


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def call(gateway: Gateway, name: str, password: str, model: str = "open") -> Answer:
    return gateway.ask("POST", "/v1/chat/completions", body={"model": model}, headers=basic(name, password))


def told(stub: Stub, name: str) -> list[str]:
    return stub.requests[-1].values(name)


def test_a_name_and_a_password_are_enough_to_use_a_model(gateway: Gateway, slapd: Slapd, stub: Stub) -> None:
    answer = call(gateway, "alice", slapd.passwords["alice"], "m")
    assert answer.status == 200
    assert told(stub, "x-gateway-subject") == ["alice"]
    assert told(stub, "authorization") == []
    line = gateway.audit_of(answer["x-request-id"])
    assert (line["subject"], line["issuer"], line["rule"]) == ("alice", "ldap:directory", "ds")
    assert call(gateway, "bob", slapd.passwords["bob"], "m").status == 403


def test_whoever_shows_nothing_is_told_of_both_ways_and_whoever_is_wrong_of_his(gateway: Gateway, slapd: Slapd) -> None:
    """B091: the challenge says that names and passwords are UTF-8."""
    challenge = 'Basic realm="nim-gateway", charset="UTF-8"'
    nothing = gateway.ask("POST", "/v1/chat/completions", body={"model": "m"})
    assert [value for name, value in nothing.fields if name == "www-authenticate"] == [
        'Bearer realm="nim-gateway"',
        challenge,
    ]
    for name, password in (
        ("alice", "wrong"),
        ("nobody", "x"),
        ("alice", ""),
        ("disabled", slapd.passwords["disabled"]),
    ):
        wrong = call(gateway, name, password)
        assert (wrong.status, wrong["www-authenticate"]) == (401, challenge)
        assert wrong.json()["error"]["message"] == "The name or the password is not accepted."


@pytest.mark.parametrize("name", ["élise", "ÉLISE"])
def test_names_and_passwords_beyond_ascii_cross_the_wire(gateway: Gateway, slapd: Slapd, stub: Stub, name: str) -> None:
    """B083, B091: with colons, spaces and an umlaut in the password."""
    assert call(gateway, name, slapd.passwords["élise"]).status == 200
    assert told(stub, "x-gateway-subject") == ["%C3%A9lise"]
    headers = {"Authorization": "Basic " + base64.b64encode("élise:x".encode("latin-1")).decode()}
    assert gateway.ask("GET", "/v1/models", headers=headers).status == 401


def test_a_hundred_and_fifty_callers_at_once_each_get_their_own_answer(gateway: Gateway, slapd: Slapd) -> None:
    """B088: fifty of alice's, fifty of bob's, fifty with a wrong password, interleaved."""
    pairs = [("alice", slapd.passwords["alice"]), ("bob", slapd.passwords["bob"]), ("carol", "wrong")] * 50

    def one(pair: tuple[str, str]) -> tuple[str, int, str]:
        answer = call(gateway, *pair, "m")
        return pair[0], answer.status, answer["x-request-id"] or ""

    with ThreadPoolExecutor(30) as callers:
        answers = list(callers.map(one, pairs))
    assert Counter((name, status) for name, status, _ in answers) == {
        ("alice", 200): 50,
        ("bob", 403): 50,
        ("carol", 401): 50,
    }
    for name, status, identity in answers:
        assert gateway.audit_of(identity)["subject"] == (None if status == 401 else name)


def test_calls_on_one_connection_are_one_login(gateway: Gateway, slapd: Slapd) -> None:
    line = connection(gateway.url, gateway.ca)
    before = gateway.metric("gateway_authentications_total", provider="directory", result="cached")
    payload, fields = prepared({"model": "open"}, basic("dora", slapd.passwords["dora"]), None)
    for _ in range(4):
        line.request("POST", "/v1/chat/completions", payload, fields)
        assert whole(line.getresponse()).status == 200
    line.close()
    assert gateway.metric("gateway_authentications_total", provider="directory", result="cached") == before + 3
    assert gateway.metric("gateway_cache_entries", cache="logins") > 0


def test_nothing_that_is_written_holds_a_password(gateway: Gateway, slapd: Slapd) -> None:
    call(gateway, "alice", slapd.passwords["alice"])
    call(gateway, "alice", "hunter2-wrong")
    written = gateway.process.stderr.read_text() + gateway.process.stdout.read_text() + str(gateway.samples())
    for secret in (*slapd.passwords.values(), "hunter2-wrong"):
        assert secret not in written
        assert base64.b64encode(f"alice:{secret}".encode()).decode() not in written


# Each with a directory of its own.


@pytest.fixture
def own(tmp_path: Path, certificates: Paths) -> Iterator[Slapd]:
    slapd = Slapd(tmp_path, certificates)
    yield slapd
    slapd.stop()


def test_while_the_directory_hangs_callers_with_tokens_notice_nothing_and_others_hear_503(
    start_gateway: StartGateway, own: Slapd, stub: Stub, openid: OpenIdProvider, token: Token
) -> None:
    """B085: and whoever logged in a moment ago goes on."""
    gateway = start_gateway(
        [pool("nim", ["m"], stub.url)], issuers=[oidc(openid.issuer)], directories=[own.config(timeout="1s")]
    )
    gateway.backends_up("nim", 1)
    assert call(gateway, "alice", own.passwords["alice"], "m").status == 200
    own.process.pause()
    for _ in range(5):
        answer = call(gateway, "bob", own.passwords["bob"], "m")
        assert (answer.status, answer.json()["error"]["code"]) == (503, "identity_unavailable")
        assert 1 <= int(answer["retry-after"] or 0) <= 60
        assert gateway.ask("POST", "/v1/chat/completions", body={"model": "m"}, token=token("alice")).status == 200
        assert call(gateway, "alice", own.passwords["alice"], "m").status == 200
    wait_until(lambda: not gateway.status()["providers"]["directory"]["ready"], 10, "the outage to be seen")
    assert gateway.readiness() == 200, "there is another way to know callers"
    own.process.resume()
    wait_until(lambda: call(gateway, "bob", own.passwords["bob"], "m").status == 403, 20, "bob to be known again")
    events = [line for line in gateway.process.stderr.read_text().splitlines() if "identity.directory" in line]
    assert [line.split("identity.directory.")[1].split()[0] for line in events] == [
        *("server_failed", "failed", "server_recovered", "recovered"),
    ]


def test_a_directory_that_is_away_at_the_start_is_no_reason_not_to_start(
    start_gateway: StartGateway, own: Slapd, stub: Stub
) -> None:
    own.stop()
    gateway = start_gateway([pool("nim", ["m"], stub.url)], issuers=[], directories=[own.config()])
    assert call(gateway, "alice", own.passwords["alice"], "m").status == 503
    assert gateway.readiness() == 503
    own.start()
    wait_until(lambda: gateway.readiness() == 200, 20, "readiness")
    assert call(gateway, "alice", own.passwords["alice"], "m").status == 200


def test_a_reload_keeps_logins_unless_it_changes_the_directory(
    start_gateway: StartGateway, own: Slapd, stub: Stub
) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)], issuers=[], directories=[own.config()])
    gateway.backends_up("nim", 1)

    def results() -> dict[str, float]:
        rows = gateway.samples().get("gateway_authentications_total", [])
        return {labels["result"]: value for labels, value in rows if labels["provider"] == "directory"}

    def reloaded() -> None:
        before = gateway.status()["generation"]
        gateway.write_config()
        gateway.reload()
        wait_until(lambda: gateway.status()["generation"] > before, 10, "the reload")

    assert call(gateway, "alice", own.passwords["alice"], "m").status == 200
    gateway.config["hide_models"] = True
    reloaded()
    assert call(gateway, "alice", own.passwords["alice"], "m").status == 200
    assert results() == {"ok": 1, "cached": 1}
    gateway.config["identity"]["ldap"][0]["cache"] = {"positive": "60s"}
    reloaded()
    assert call(gateway, "alice", own.passwords["alice"], "m").status == 200
    assert results() == {"ok": 2, "cached": 1}
    gateway.config["identity"]["ldap"][0]["users"]["base"] = "ou=elsewhere,dc=example,dc=test"
    reloaded()
    assert call(gateway, "alice", own.passwords["alice"], "m").status == 503


def test_plain_connections_to_other_machines_are_said_loudly(start_gateway: StartGateway, stub: Stub) -> None:
    """B085: nobody answers there; what counts is what is said at the start."""
    entry: dict[str, Any] = {
        "name": "far",
        "servers": ["ldap://192.0.2.1"],
        "users": {"base": "dc=x"},
        "timeout": "200ms",
    }
    gateway = start_gateway([pool("nim", ["m"], stub.url)], directories=[{**entry, "allow_insecure": True}])
    assert "insecure.allowed directory=far: it is asked without TLS" in gateway.process.stderr.read_text()
    assert call(gateway, "alice", "x", "m").status == 503

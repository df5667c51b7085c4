"""Tokens that the gateway signs itself, as clients use them and operators keep their keys."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from gateway.call import Principal
from gateway.identity.signatures.signing import read
from gateway.identity.tokens.own import OwnTokens
from tests.conftest import StartGateway
from tests.identity.pems import MAKERS, key_file, private
from tests.parts.client import Answer
from tests.parts.gateway import Config, Gateway, allow, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.process import ROOT, wait_until
from tests.parts.stub import Stub

CHAT = {"model": "m", "messages": []}
#: Seconds after which a change must be live.
LIVE = 2.0


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return key_file(tmp_path / "tokens.key", private("ES256"))


def identity(openid: OpenIdProvider, keys: Path, **more: Any) -> Config:
    """People log in with a browser at the provider."""
    return {"oidc": [oidc(openid.issuer, login={"client_id": "app"})], "tokens": {"key": str(keys), **more}}


def mint(gateway: Gateway, openid: OpenIdProvider, keys: Path, lifetime: float = 60.0, **more: Any) -> str:
    """What the pages would give alice, who logged in with her browser."""
    alice = Principal("alice", openid.issuer, "corp", frozenset({"data-science"}), **more)
    own = OwnTokens(read(keys), gateway.url, lifetime, {openid.issuer: "corp"}, time.time, lambda who: who)
    return own.mint(alice).text


def chat(gateway: Gateway, token: str) -> Answer:
    return gateway.ask("POST", "/v1/chat/completions", token=token, body=CHAT)


def becomes(gateway: Gateway, token: str, status: int) -> None:
    wait_until(lambda: chat(gateway, token).status == status, LIVE, f"the token being answered with {status}")


@pytest.mark.parametrize("algorithm", MAKERS)
def test_the_openai_client_is_served_with_a_token_of_the_gateway(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, tmp_path: Path, algorithm: str
) -> None:
    keys = key_file(tmp_path / "tokens.key", private(algorithm))
    gateway = start_gateway([pool("stub", ["m"], stub.url)], identity=identity(openid, keys))
    gateway.backends_up("stub", 1)
    trusting = openai.DefaultHttpxClient(verify=gateway.trust)
    token = mint(gateway, openid, keys)
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=token, max_retries=0, http_client=trusting) as client:
        answer = client.chat.completions.with_raw_response.create(model="m", messages=[])
    line = gateway.audit_of(answer.headers["x-request-id"])
    assert (line["subject"], line["issuer"], line["groups_used"]) == ("alice", openid.issuer, ["data-science"])
    assert not any(token in str(request) for request in stub.requests)


def test_a_policy_decides_alike_for_the_token_of_the_provider_and_that_of_the_gateway(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, keys: Path
) -> None:
    subjects = {"groups": ["data-science"], "issuers": ["corp"]}
    rules = [allow("corp", ["m"], subjects=subjects)]
    gateway = start_gateway([pool("stub", ["m", "n"], stub.url)], rules, identity=identity(openid, keys))
    gateway.backends_up("stub", 1)
    for token in (openid.user_token("alice"), mint(gateway, openid, keys)):
        assert chat(gateway, token).status == 200
        assert gateway.ask("POST", "/v1/chat/completions", token=token, body={"model": "n"}).status == 403


def test_a_group_that_a_provider_may_give_no_more_is_worth_nothing_in_a_token_of_before(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, keys: Path
) -> None:
    rules = [allow("science", ["m"], subjects={"groups": ["data-science"]})]
    gateway = start_gateway([pool("stub", ["m"], stub.url)], rules, identity=identity(openid, keys))
    gateway.backends_up("stub", 1)
    token = mint(gateway, openid, keys)
    assert chat(gateway, token).status == 200
    gateway.config["identity"]["oidc"][0]["groups_allowed"] = ["staff"]
    gateway.write_config()
    becomes(gateway, token, 403)


def test_keys_are_rotated_while_callers_are_served(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, keys: Path
) -> None:
    gateway = start_gateway([pool("stub", ["m"], stub.url)], identity=identity(openid, keys))
    gateway.backends_up("stub", 1)
    before = mint(gateway, openid, keys)
    assert chat(gateway, before).status == 200

    key_file(keys, private("EdDSA"), private("ES256"))
    after = mint(gateway, openid, keys)
    becomes(gateway, after, 200)
    assert chat(gateway, before).status == 200

    key_file(keys, private("EdDSA"))
    becomes(gateway, before, 401)
    assert chat(gateway, after).status == 200


def test_a_token_expires_though_it_was_good_a_moment_ago(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, keys: Path
) -> None:
    gateway = start_gateway([pool("stub", ["m"], stub.url)], identity=identity(openid, keys))
    short = mint(gateway, openid, keys, lifetime=1)
    assert chat(gateway, short).status != 401
    wait_until(lambda: chat(gateway, short).status == 401, 15, "the token being refused")


def test_a_provider_that_lets_nobody_log_in_any_more_vouches_for_no_token(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, keys: Path
) -> None:
    def providers(**more: Any) -> Config:
        elsewhere = oidc(f"{openid.issuer}/second", jwks_uri=f"{openid.issuer}/jwks", login={"client_id": "app"})
        return {"oidc": [oidc(openid.issuer, **more), {**elsewhere, "name": "second"}], "tokens": {"key": str(keys)}}

    gateway = start_gateway([pool("stub", ["m"], stub.url)], identity=providers(login={"client_id": "app"}))
    gateway.backends_up("stub", 1)
    token = mint(gateway, openid, keys)
    assert chat(gateway, token).status == 200
    gateway.config["identity"] = providers()
    gateway.write_config()
    becomes(gateway, token, 401)


def test_a_bad_file_of_keys_changes_nothing_and_is_told(
    start_gateway: StartGateway, stub: Stub, openid: OpenIdProvider, keys: Path
) -> None:
    gateway = start_gateway([pool("stub", ["m"], stub.url)], identity=identity(openid, keys))
    gateway.backends_up("stub", 1)
    token = mint(gateway, openid, keys)
    key_file(keys, private("EdDSA"), mode=0o644)
    wait_until(lambda: gateway.metric("gateway_config_reload_successful") == 0, LIVE, "the reload being refused")
    assert f"{keys} has mode 0644: whoever reads it can make tokens" in str(gateway.status()["reload"]["mistakes"])
    assert chat(gateway, token).status == 200
    key_file(keys, private("ES256"), private("EdDSA"))
    wait_until(lambda: gateway.metric("gateway_config_reload_successful") == 1, LIVE, "the reload being taken")


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_gateway_does_not_start_with_a_key_that_others_can_read(
    start_gateway: StartGateway, openid: OpenIdProvider, keys: Path, command: str
) -> None:
    keys.chmod(0o640 | 0o004)
    gateway = start_gateway([pool("p", ["m"], "http://127.0.0.1:1")], identity=identity(openid, keys), start=False)
    words = [sys.executable, "-m", "gateway", command, "--config", str(gateway.config_file)]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    line, *_ = [line for line in done.stderr.splitlines() if not line.startswith('{"time":')]
    assert line.startswith(f"{gateway.config_file}:")
    assert line.endswith(f"{keys} has mode 0644: whoever reads it can make tokens; set 0600, or 0640")

"""What is revoked is refused within two seconds, also where it is remembered; a bad list changes nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.identity.apikeys.keytext import id_of
from tests.conftest import StartGateway, Token
from tests.e2e.test_api_keys import Kept, chat, with_key
from tests.identity.pems import key_file, private
from tests.parts.gateway import Gateway, oidc, pool
from tests.parts.keys import KeyFile
from tests.parts.openid import OpenIdProvider
from tests.parts.process import wait_until
from tests.parts.slapd import Slapd
from tests.parts.stub import Stub

#: Seconds after which a change must be live (contract, section 3).
LIVE = 2.0


@dataclass(frozen=True)
class Site:
    gateway: Gateway
    key: str
    file: Path

    def revoke(self, **lists: Any) -> None:
        """Make this what is revoked."""
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps({"version": 1, **lists}))
        beside.replace(self.file)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, start_gateway: StartGateway, openid: OpenIdProvider, stub: Stub) -> Site:
    keys, file = KeyFile(tmp_path / "keys.yaml"), tmp_path / "revoked.yaml"
    file.write_text("version: 1\n")
    identity = {
        "oidc": [oidc(openid.issuer)], "api_keys": {"file": str(keys.path)}, "revoked": {"file": str(file)}
    }  # fmt: skip
    key = keys.create()
    gateway = start_gateway([pool("nim", ["m"], stub.url)], identity=identity)
    gateway.backends_up("nim", 1)
    return Site(gateway, key, file)


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def jti_of(token: str) -> str:
    payload = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"])


def test_a_revoked_token_is_refused_in_two_seconds_on_a_kept_connection_and_no_other_is(
    site: Site, openid: OpenIdProvider
) -> None:
    stolen, other = openid.user_token("alice"), openid.user_token("alice")
    with Kept(site.gateway, bearing(stolen)) as line, Kept(site.gateway, bearing(other)) as beside:
        assert [line.status() for _ in range(3)] == [beside.status() for _ in range(3)] == [200] * 3
        assert site.gateway.metric("gateway_authentications_total", result="cached") > 0
        site.revoke(tokens=[{"token": jti_of(stolen), "reason": "lost laptop", "at": "2026-01-31T12:00:00Z"}])
        wait_until(lambda: line.status() == 401, LIVE, "the token being refused")
        assert [line.status() for _ in range(3)] == [401] * 3
        assert beside.status() == 200
        site.revoke()
        wait_until(lambda: line.status() == 200, LIVE, "the token being taken again")


def test_a_refused_token_says_nothing_of_the_list_and_the_audit_line_does(site: Site, openid: OpenIdProvider) -> None:
    token = openid.user_token("alice")
    site.revoke(tokens=[jti_of(token)])
    wait_until(lambda: chat(site.gateway, bearing(token)).status == 401, 10, "the token being refused")
    answer = chat(site.gateway, bearing(token))
    assert answer.json()["error"]["message"] == "The bearer token is not accepted: it does not hold."
    assert 'error="invalid_token"' in (answer["www-authenticate"] or "")
    assert "revoked" not in str(answer.fields) + answer.body.decode()
    record = site.gateway.audit_of(answer["x-request-id"])
    assert record["detail"] == f"revoked token={jti_of(token)} provider=corp"
    assert site.gateway.metric("gateway_authentications_total", provider="corp", result="revoked") >= 1


@pytest.mark.parametrize("entry", ["{subject}", {"subject": "{subject}"}, {"subject": "{subject}", "provider": "corp"}])
def test_a_revoked_caller_is_refused_whatever_token_it_has(site: Site, token: Token, entry: Any) -> None:
    first, second = token("alice"), token("alice", "ES256")
    answers = [chat(site.gateway, bearing(each)) for each in (first, second)]
    subject = site.gateway.audit_of(answers[0]["x-request-id"])["subject"]
    site.revoke(subjects=[json.loads(json.dumps(entry).replace("{subject}", subject))])
    wait_until(lambda: chat(site.gateway, bearing(first)).status == 401, LIVE, "the caller being refused")
    assert chat(site.gateway, bearing(second)).status == 401
    assert chat(site.gateway, with_key(site.key)).status == 200


def test_a_subject_of_another_provider_is_somebody_else(site: Site, token: Token) -> None:
    """A key of an owner of the same name, for example; without a provider all of the name are meant."""
    site.revoke(subjects=[{"subject": "batch", "provider": "corp"}])
    generation = site.gateway.metric("gateway_config_generation")
    wait_until(lambda: site.gateway.metric("gateway_config_generation") > generation, 10, "the list being read")
    assert chat(site.gateway, with_key(site.key)).status == 200
    site.revoke(subjects=["batch"])
    wait_until(lambda: chat(site.gateway, with_key(site.key)).status == 401, LIVE, "the owner being refused")


def test_a_revoked_key_is_refused_in_two_seconds_on_a_kept_connection(site: Site) -> None:
    with Kept(site.gateway, with_key(site.key)) as line:
        assert [line.status() for _ in range(3)] == [200] * 3
        site.revoke(keys=[id_of(site.key)])
        wait_until(lambda: line.status() == 401, LIVE, "the key being refused")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (None, ":1:1: cannot be read: No such file or directory"),
        ("version: 1\nkeys: [", ":3:1: not valid YAML"),
        ("version: 1\ntoken: [x]\n", ":2:1: unknown setting 'token'; did you mean 'tokens'?"),
        ("version: 1\nsubjects: [{subject: alice, provider: corq}]\n", ":2:29: no identity provider is called 'corq'"),
    ],
)
def test_a_bad_list_changes_nothing_and_is_told_with_its_place(site: Site, bad: str | None, said: str) -> None:
    """What was revoked stays so: a file that is gone gives nobody a right back."""
    site.revoke(keys=[id_of(site.key)])
    wait_until(lambda: chat(site.gateway, with_key(site.key)).status == 401, 10, "the key being refused")
    if bad is None:
        site.file.unlink()
    else:
        site.file.write_text(bad)
    wait_until(lambda: site.gateway.metric("gateway_config_reload_successful") == 0, 5, "the bad file being noticed")
    assert f"{site.file}{said}" in str(site.gateway.status()["reload"])
    assert chat(site.gateway, with_key(site.key)).status == 401
    site.gateway.stop()
    process = site.gateway.launch()
    assert process.wait() == 2
    assert f"{site.file}{said}" in process.stderr.read_text()


def test_who_is_revoked_is_refused_though_the_directory_takes_the_password_and_gets_no_token(
    tmp_path: Path, start_gateway: StartGateway, slapd: Slapd, stub: Stub
) -> None:
    """Also in the middle of a login that is remembered: directories outlive a reload."""
    key, file = key_file(tmp_path / "tokens.key", private("EdDSA")), tmp_path / "revoked.yaml"
    file.write_text("version: 1\n")
    identity = {"ldap": [slapd.config()], "tokens": {"key": str(key)}, "revoked": {"file": str(file)}}
    site = Site(start_gateway([pool("nim", ["m"], stub.url)], identity=identity), "", file)
    site.gateway.backends_up("nim", 1)
    words = {"authorization": "Basic " + base64.b64encode(f"alice:{slapd.passwords['alice']}".encode()).decode()}
    minted = site.gateway.ask("POST", "/auth/token", headers=words).json()["access_token"]
    with Kept(site.gateway, words) as line, Kept(site.gateway, bearing(minted)) as other:
        assert [line.status() for _ in range(3)] == [other.status() for _ in range(3)] == [200] * 3
        site.revoke(subjects=[{"subject": "alice", "provider": "directory"}])
        wait_until(lambda: line.status() == 401, LIVE, "the caller being refused")
        assert other.status() == 401
    refused = chat(site.gateway, words)
    assert refused.json()["error"]["message"] == "The name or the password is not accepted."
    answer = site.gateway.ask("POST", "/auth/token", headers=words)
    assert (answer.status, answer.json()["error"]) == (401, "invalid_client")
    site.revoke(tokens=[jti_of(minted)])
    wait_until(lambda: chat(site.gateway, words).status == 200, LIVE, "the caller being taken again")
    assert chat(site.gateway, bearing(minted)).status == 401

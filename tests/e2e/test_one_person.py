"""One person with one policy, whatever proves who calls: a token, a password, a key, a certificate."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartGateway, Token
from tests.identity.pems import key_file, private
from tests.parts.client import Answer, prepared, whole
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.keys import KeyFile
from tests.parts.openid import OpenIdProvider
from tests.parts.people import Authority, Certificate
from tests.parts.slapd import Slapd
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
MODELS = ("by-group", "by-user", "by-other-group", "denied-by-group", "denied-by-user", "everybody", "nobody")
RULES = [
    allow("group", ["by-group", "denied-by-group", "denied-by-user"], subjects={"groups": ["data-science"]}),
    allow("user", ["by-user"], subjects={"users": ["alice"]}),
    allow("other", ["by-other-group"], subjects={"groups": ["guests"]}),
    allow("all", ["everybody"], subjects={"issuers": ["corp", "directory", "api_keys", "mtls"]}),
    {**allow("no-group", ["denied-by-group"], subjects={"groups": ["data-science"]}), "effect": "deny"},
    {**allow("no-user", ["denied-by-user"], subjects={"users": ["alice"]}), "effect": "deny"},
]
ALLOWED = {"by-group", "by-user", "everybody"}
WAYS = {
    "a token of the provider": "corp",
    "a password": "directory",
    "a token of the gateway": "directory",
    "an API key as bearer": "api_keys",
    "an API key in its own field": "api_keys",
    "a certificate": "mtls",
}


class Alice:
    """Everything that proves who she is: header fields, or a certificate, by the way."""

    def __init__(self, gateway: Gateway, token: str, password: str, key: str, shows: Certificate) -> None:
        self._gateway = gateway
        basic = {"authorization": "Basic " + base64.b64encode(f"alice:{password}".encode()).decode()}
        minted = gateway.ask("POST", "/auth/token", headers=basic).json()["access_token"]
        self._fields: dict[str, dict[str, str]] = {
            "a token of the provider": {"authorization": f"Bearer {token}"},
            "a password": basic,
            "a token of the gateway": {"authorization": f"Bearer {minted}"},
            "an API key as bearer": {"authorization": f"Bearer {key}"},
            "an API key in its own field": {"x-api-key": key},
            "a certificate": {},
        }
        self._trust = dict.fromkeys(WAYS, gateway.trust) | {"a certificate": shows.show(gateway.trust)}

    def ask(self, way: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        payload, fields = prepared(body, self._fields[way], None) if body else (None, self._fields[way])
        line = http.client.HTTPSConnection("localhost", self._gateway.port, timeout=60, context=self._trust[way])
        with closing(line):
            line.request(method, path, payload, fields)
            return whole(line.getresponse())


@pytest.fixture(scope="module")
def gateway(
    start_shared_gateway: StartGateway,
    openid: OpenIdProvider,
    slapd: Slapd,
    people: Authority,
    folder: Path,
    key: str,
) -> Iterator[Gateway]:
    """`key` is in its file before."""
    identity = {
        "oidc": [oidc(openid.issuer)],
        "ldap": [slapd.config()],
        "api_keys": {"file": str(folder / "keys.yaml")},
        "tokens": {"key": str(key_file(folder / "tokens.key", private("ES256")))},
        "mtls": {"subject": "cn", "groups_from": "directory"},
    }
    with Stub() as stub:
        running = start_shared_gateway([pool("nim", MODELS, stub.url)], RULES, start=False, identity=identity)
        running.config["listen"]["tls"]["client_ca"] = str(people.file)
        running.write_config()
        running.start()
        running.backends_up("nim", 1)
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("alice")


@pytest.fixture(scope="module")
def key(folder: Path) -> str:
    return KeyFile(folder / "keys.yaml").create("--owner", "alice", "--groups", "data-science,llm-users")


@pytest.fixture(scope="module")
def alice(key: str, gateway: Gateway, token: Token, slapd: Slapd, people: Authority) -> Alice:
    return Alice(gateway, token("alice"), slapd.passwords["alice"], key, people.issue(common=("alice",)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_who_calls_is_what_decides_and_not_what_proves_it(alice: Alice, gateway: Gateway, way: str, model: str) -> None:
    answer = alice.ask(way, "POST", CHAT, {"model": model, "messages": []})
    assert answer.status == (200 if model in ALLOWED else 403)
    record = gateway.audit_of(answer["x-request-id"])
    assert (record["subject"], record["provider"]) == ("alice", WAYS[way])


@pytest.mark.parametrize("way", WAYS)
def test_the_list_of_models_is_the_same_too(alice: Alice, way: str) -> None:
    listed = alice.ask(way, "GET", "/v1/models").json()["data"]
    assert {one["id"] for one in listed} == ALLOWED


def test_a_call_without_any_of_them_is_told_what_there_is(gateway: Gateway) -> None:
    answer = gateway.ask("POST", CHAT, body={"model": "everybody", "messages": []})
    assert answer.status == 401
    assert answer.json()["error"]["message"] == (
        "A credential is needed: send 'Authorization: Bearer <token>' or 'x-api-key: <key>' or a name and password "
        "(HTTP Basic) or a client certificate."
    )

"""API keys: made with the command, used with real clients, changed while the gateway runs."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openai
import pytest
from tritonclient import http as tritonhttp
from tritonclient.http.auth import BasicAuth
from tritonclient.utils import InferenceServerException

from gateway.identity.apikeys.keyedit import stamp
from gateway.identity.apikeys.keytext import id_of, new_key
from tests.conftest import StartGateway, Token
from tests.parts.client import Answer, connection, prepared, whole
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.keys import KeyFile
from tests.parts.llama import HEALTH, Llama
from tests.parts.openid import OpenIdProvider
from tests.parts.process import wait_until
from tests.parts.stub import Stub
from tests.parts.triton import Triton

CHAT = "/v1/chat/completions"
HELLO = {"model": "meta/tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
#: Seconds after which a change must be live (contract, section 3).
LIVE = 2.0


@dataclass(frozen=True)
class Site:
    gateway: Gateway
    keys: KeyFile
    key: str


@pytest.fixture(scope="module")
def real(
    tmp_path_factory: pytest.TempPathFactory,
    start_shared_gateway: StartGateway,
    openid: OpenIdProvider,
    llama: Llama,
    triton: Triton,
) -> Site:
    """A gateway before the real servers that knows keys, and tokens of the real provider."""
    keys = KeyFile(tmp_path_factory.mktemp("keys") / "keys.yaml")
    key = keys.create()
    kserve = {"protocols": ["kserve"], "health": {"path": "/v2/health/ready"}}
    pools = [pool("llama", ["meta/tiny"], llama.url, health=HEALTH), pool("triton", ["addsub"], triton.url, **kserve)]
    identity = {"oidc": [oidc(openid.issuer)], "api_keys": {"file": str(keys.path)}}
    gateway = start_shared_gateway(pools, [allow("data-science", ["**"])], identity=identity)
    gateway.backends_up("llama", 1)
    gateway.backends_up("triton", 1)
    return Site(gateway, keys, key)


def sdk(gateway: Gateway, key: str) -> openai.OpenAI:
    trusting = openai.DefaultHttpxClient(verify=gateway.trust)
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=60, http_client=trusting)


def test_the_openai_sdk_works_with_a_key(real: Site) -> None:
    with sdk(real.gateway, real.key) as client:
        answer = client.chat.completions.with_raw_response.create(
            model="meta/tiny", messages=[{"role": "user", "content": "hello"}], max_tokens=3
        )
    assert answer.parse().choices[0].message.content
    record = real.gateway.audit_of(answer.headers["x-request-id"])
    assert (record["subject"], record["issuer"], record["provider"]) == ("batch", "api_keys", "api_keys")
    assert record["client"] == record["credential"] == id_of(real.key)
    assert record["groups_used"] == ["data-science"]


def test_the_openai_sdk_tells_a_key_that_nobody_knows(real: Site) -> None:
    with sdk(real.gateway, new_key("nobody00")) as client, pytest.raises(openai.AuthenticationError) as refused:
        client.models.list()
    assert refused.value.code == "invalid_api_key"
    assert "The API key is not accepted" in refused.value.message


@pytest.fixture
def infer(real: Site) -> Iterator[tritonhttp.InferenceServerClient]:
    address = real.gateway.url.removeprefix("https://")
    client = tritonhttp.InferenceServerClient(address, ssl=True, ssl_context_factory=lambda: real.gateway.trust)
    yield client
    client.close()


def pair() -> list[tritonhttp.InferInput]:
    made = [tritonhttp.InferInput(name, [4], "FP32") for name in "AB"]
    for tensor in made:
        tensor.set_data_from_numpy(np.arange(4, dtype=np.float32))
    return made


@pytest.mark.parametrize("name", ["anybody", "batch", "a:b"[:1]])
def test_the_basic_auth_plugin_of_tritonclient_works_with_a_key_as_password(
    real: Site, infer: tritonhttp.InferenceServerClient, name: str
) -> None:
    infer.register_plugin(BasicAuth(name, real.key))
    assert infer.infer("addsub", pair()).as_numpy("SUM").tolist() == [0.0, 2.0, 4.0, 6.0]


def test_the_basic_auth_plugin_is_told_of_a_key_that_nobody_knows(
    real: Site, infer: tritonhttp.InferenceServerClient
) -> None:
    infer.register_plugin(BasicAuth("batch", new_key("nobody00")))
    with pytest.raises(InferenceServerException) as refused:
        infer.infer("addsub", pair())
    assert refused.value.status() == "401"


@pytest.mark.parametrize(
    "words",
    [
        ["-H", "x-api-key: {key}"],
        ["-H", "X-Api-Key:{key}", "-H", "anthropic-version: 2023-06-01"],
        ["-H", "Authorization: Bearer {key}"],
        ["-u", "anybody:{key}"],
        ["--oauth2-bearer", "{key}"],
    ],
)
def test_curl_works_with_a_key_in_every_field(real: Site, words: list[str]) -> None:
    given = [word.format(key=real.key) for word in words]
    body = ["-H", "Content-Type: application/json", "-d", json.dumps(HELLO)]
    line = ["curl", "-sS", "--cacert", str(real.gateway.ca), *given, *body, f"{real.gateway.url}{CHAT}"]
    done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["choices"]


def test_keys_and_tokens_of_a_provider_work_beside_each_other(real: Site, token: Token) -> None:
    for credential, provider in ((real.key, "api_keys"), (token("alice"), "corp")):
        answer = real.gateway.ask("POST", CHAT, token=credential, body=HELLO)
        assert answer.status == 200
        record = real.gateway.audit_of(answer["x-request-id"])
        assert record["provider"] == provider
        assert record["credential"]


# What needs no real server.


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, start_gateway: StartGateway, openid: OpenIdProvider, stub: Stub) -> Site:
    keys = KeyFile(tmp_path / "keys.yaml")
    key = keys.create()
    identity = {"oidc": [oidc(openid.issuer)], "api_keys": {"file": str(keys.path)}}
    gateway = start_gateway([pool("nim", ["m"], stub.url, identity_headers=True)], identity=identity)
    gateway.backends_up("nim", 1)
    return Site(gateway, keys, key)


def chat(gateway: Gateway, headers: Mapping[str, str]) -> Answer:
    return gateway.ask("POST", CHAT, body={"model": "m"}, headers=headers)


def with_key(key: str) -> dict[str, str]:
    return {"x-api-key": key}


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize("form", ["x-api-key: {key}", "authorization: Bearer {key}", "authorization: {basic}"])
def test_a_backend_learns_whose_key_it_was_and_never_the_key(site: Site, stub: Stub, form: str) -> None:
    name, _, value = form.format(key=site.key, basic=basic("x", site.key)).partition(": ")
    assert chat(site.gateway, {name: value}).status == 200
    request = stub.requests[-1]
    assert (request.values("x-gateway-subject"), request.values("x-gateway-groups")) == (["batch"], ["data-science"])
    assert site.key.encode() not in request.head
    assert basic("x", site.key).encode() not in request.head
    assert not request.values("x-api-key") + request.values("authorization")


def test_of_two_credentials_none_is_picked_and_no_backend_is_asked(site: Site, stub: Stub, token: Token) -> None:
    for bearer in (site.key, token("alice")):
        answer = chat(site.gateway, {"authorization": f"Bearer {bearer}", "x-api-key": site.key})
        assert answer.status == 401
        assert "one credential" in answer.json()["error"]["message"]
    assert stub.requests == []


def test_where_no_keys_are_configured_the_field_says_nothing(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = start_gateway([pool("nim", ["m"], stub.url)])
    gateway.backends_up("nim", 1)
    key = new_key("nobody00")
    assert chat(gateway, {"authorization": f"Bearer {token('alice')}", "x-api-key": key}).status == 200
    assert stub.requests[-1].values("x-api-key") == []
    assert chat(gateway, {"x-api-key": key}).status == 401


class Kept:
    """Calls with one head on one connection."""

    def __init__(self, gateway: Gateway, headers: Mapping[str, str]) -> None:
        self._line = connection(gateway.url, gateway.ca)
        self._payload, self._headers = prepared({"model": "m"}, headers, None)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def status(self) -> int:
        self._line.request("POST", CHAT, self._payload, self._headers)
        return whole(self._line.getresponse()).status


def test_a_new_key_holds_in_two_seconds_and_a_revoked_one_no_more_also_on_a_kept_connection(site: Site) -> None:
    other = site.keys.create("--owner", "batch", "--groups", "data-science")
    wait_until(lambda: chat(site.gateway, with_key(other)).status == 200, LIVE, "the new key being taken")
    with Kept(site.gateway, with_key(site.key)) as line:
        assert [line.status() for _ in range(3)] == [200] * 3
        site.keys.revoke(site.key)
        wait_until(lambda: line.status() == 401, LIVE, "the revoked key being refused")
    assert chat(site.gateway, with_key(other)).status == 200


def test_while_a_key_is_rotated_both_hold_until_the_old_one_ends(site: Site) -> None:
    new = site.keys.create("--replaces", str(id_of(site.key)), "--overlap", "1h")
    wait_until(lambda: chat(site.gateway, with_key(new)).status == 200, LIVE, "the new key being taken")
    with Kept(site.gateway, with_key(site.key)) as line:
        assert line.status() == 200
        (ends,) = re.findall(r'expires: "(.*)"', site.keys.path.read_text())
        soon = time.time() + 4
        site.keys.path.write_text(site.keys.path.read_text().replace(ends, stamp(soon)))
        wait_until(lambda: line.status() == 401, 10, "the old key ending")
        assert time.time() >= int(soon)
    assert chat(site.gateway, with_key(new)).status == 200
    refused = chat(site.gateway, with_key(site.key))
    assert "it has expired" in refused.json()["error"]["message"]
    assert site.gateway.audit_of(refused["x-request-id"])["detail"] == f"expired key={id_of(site.key)}"


def test_a_key_that_is_taken_out_of_the_file_holds_no_more(site: Site) -> None:
    assert chat(site.gateway, with_key(site.key)).status == 200
    site.keys.path.write_text("version: 1\nkeys: []\n")
    wait_until(lambda: chat(site.gateway, with_key(site.key)).status == 401, 10, "the key being refused")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("version: 1\nkeys:\n- {id: x}\n", ":3:4: expected the id of a key"),
        ("version: 1\n", ":1:1: the setting 'keys' is missing"),
        ("", ":1:1: the file is empty"),
        (None, ":1:1: does not exist; nim-gateway key create makes it"),
    ],
)
def test_a_bad_file_of_keys_changes_nothing_and_is_told_with_its_place(site: Site, bad: str | None, said: str) -> None:
    if bad is None:
        site.keys.path.unlink()
    else:
        site.keys.path.write_text(bad)
    wait_until(lambda: site.gateway.metric("gateway_config_reload_successful") == 0, 5, "the bad file being noticed")
    assert f"{site.keys.path}{said}" in str(site.gateway.status()["reload"])
    assert chat(site.gateway, with_key(site.key)).status == 200


def test_a_gateway_does_not_start_with_a_bad_file_of_keys_or_revocations(site: Site) -> None:
    """And says everything that is wrong in both, and in the policies."""
    site.gateway.stop()
    site.keys.path.write_text("version: 1\nkeys: [{}]\n")
    revoked = site.keys.path.with_name("revoked.yaml")
    revoked.write_text("version: 1\nsubjects: [{subject: a, provider: nobody}]\n")
    site.gateway.config["identity"]["revoked"] = {"file": str(revoked)}
    site.gateway.write_config()
    site.gateway.write_rules([])
    process = site.gateway.launch()
    assert process.wait() == 2
    said = process.stderr.read_text()
    assert f"{site.keys.path}:2:8: the setting 'id' is missing\n" in said
    assert f"{revoked}:2:25: no identity provider is called 'nobody'; there is api_keys, corp\n" in said
    assert "rules.yaml:" in said


def test_the_metrics_say_when_each_key_was_used_last_and_when_it_ends(site: Site) -> None:
    soon = site.keys.create("--owner", "visitor", "--expires", "1h")
    ends = "gateway_api_key_expiry_timestamp_seconds"
    wait_until(lambda: site.gateway.metric(ends, key=str(id_of(soon))), LIVE, "the new key being known")
    assert site.gateway.metric(ends, key=str(id_of(soon))) == pytest.approx(time.time() + 3600, abs=60)
    assert site.gateway.metric(ends, key=str(id_of(site.key))) == float("inf")
    assert "gateway_api_key_last_used_timestamp_seconds" not in site.gateway.samples()
    before = time.time()
    assert chat(site.gateway, with_key(site.key)).status == 200
    assert chat(site.gateway, with_key(site.key[:15] + new_key("nobody00")[15:])).status == 401
    ((labels, at),) = site.gateway.samples()["gateway_api_key_last_used_timestamp_seconds"]
    assert labels == {"key": id_of(site.key)}
    assert before - 1 <= at <= time.time()
    assert site.gateway.metric("gateway_authentications_total", provider="api_keys", result="ok") == 1
    assert site.gateway.metric("gateway_authentications_total", provider="api_keys", result="malformed") == 1


def test_keys_alone_are_enough_to_serve(tmp_path: Path, start_gateway: StartGateway, stub: Stub) -> None:
    keys = KeyFile(tmp_path / "keys.yaml")
    key = keys.create()
    gateway = start_gateway([pool("nim", ["m"], stub.url)], identity={"api_keys": {"file": str(keys.path)}})
    gateway.backends_up("nim", 1)
    wait_until(lambda: gateway.readiness() == 200, 10, "being ready")
    assert chat(gateway, with_key(key)).status == 200
    assert chat(gateway, {}).status == 401


def test_nothing_that_the_gateway_writes_holds_a_key(site: Site) -> None:
    chat(site.gateway, with_key(site.key))
    chat(site.gateway, with_key(new_key("nobody00")))
    chat(site.gateway, {"authorization": basic("x", site.key)})
    wait_until(lambda: len([*site.gateway.audit()]) >= 3, 5, "the audit lines")
    written = site.gateway.process.tail(1_000_000) + str(site.gateway.status()) + str(site.gateway.samples())
    assert site.key[15:] not in written
    assert "nobody00_" not in written

"""Somebody with a name and a password in a directory, and a client that can send one bearer string only."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import openai
import pytest

from tests.conftest import StartGateway
from tests.identity.pems import key_file, private
from tests.parts.client import Answer
from tests.parts.gateway import Config, Gateway, allow, pool
from tests.parts.process import ROOT
from tests.parts.slapd import Slapd, entry, person
from tests.parts.stub import Stub


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(
    start_shared_gateway: StartGateway, stub: Stub, slapd: Slapd, tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """People are in the directory alone; data-science may use `m`."""
    key = key_file(tmp_path_factory.mktemp("keys") / "tokens.key", private("EdDSA"))
    identity: Config = {"ldap": [slapd.config()], "tokens": {"key": str(key), "lifetime": "10m"}}
    subjects = {"groups": ["data-science"], "issuers": ["directory"]}
    running = start_shared_gateway(
        [pool("stub", ["m"], stub.url)], [allow("ds", ["m"], subjects=subjects)], identity=identity
    )
    running.backends_up("stub", 1)
    return running


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def asked(gateway: Gateway, name: str, password: str) -> Answer:
    return gateway.ask("POST", "/auth/token", headers=basic(name, password))


def chat(gateway: Gateway, **credential: Any) -> Answer:
    return gateway.ask("POST", "/v1/chat/completions", body={"model": "m", "messages": []}, **credential)


def login(gateway: Gateway, name: str, password: str) -> subprocess.CompletedProcess[str]:
    words = ["login", "--url", gateway.url, "--ca", str(gateway.ca), "--user", name, "--password-stdin"]
    return subprocess.run(
        [sys.executable, "-m", "gateway", *words],
        cwd=ROOT, check=False, capture_output=True, text=True, input=password, timeout=60,
    )  # fmt: skip


def test_the_openai_client_works_with_what_the_command_prints(gateway: Gateway, slapd: Slapd) -> None:
    said = login(gateway, "alice", slapd.passwords["alice"])
    assert (said.returncode, said.stderr) == (0, "")
    trusting = openai.DefaultHttpxClient(verify=gateway.trust)
    key = said.stdout.removesuffix("\n")
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, http_client=trusting) as client:
        answer = client.chat.completions.with_raw_response.create(model="m", messages=[])
    line = gateway.audit_of(answer.headers["x-request-id"])
    assert (line["subject"], line["issuer"], line["rule"]) == ("alice", "ldap:directory", "ds")


def test_a_password_and_the_token_for_it_get_the_same_decision(gateway: Gateway, slapd: Slapd) -> None:
    for name, status in (("alice", 200), ("bob", 403)):
        token = asked(gateway, name, slapd.passwords[name]).json()["access_token"]
        direct, minted = chat(gateway, headers=basic(name, slapd.passwords[name])), chat(gateway, token=token)
        assert direct.status == minted.status == status
        lines = [gateway.audit_of(answer["x-request-id"]) for answer in (direct, minted)]
        for field in ("subject", "issuer", "groups_used", "rule", "reason"):
            assert lines[0][field] == lines[1][field], field


def test_the_token_names_its_holder_as_the_directory_does_and_not_as_they_typed(gateway: Gateway, slapd: Slapd) -> None:
    answer = asked(gateway, "ALICE", slapd.passwords["alice"])
    called = chat(gateway, token=answer.json()["access_token"])
    assert gateway.audit_of(called["x-request-id"])["subject"] == "alice"


def test_a_wrong_password_gives_nothing(gateway: Gateway, slapd: Slapd) -> None:
    answer = asked(gateway, "carol", "wrong")
    assert (answer.status, answer.json()["error"]) == (401, "invalid_client")
    assert (answer["www-authenticate"] or "").startswith("Basic ")
    said = login(gateway, "carol", "wrong")
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("nim-gateway: ")
    assert said.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["disabled", "expired", "locked"])
def test_an_account_that_is_not_to_be_used_gets_no_token(gateway: Gateway, slapd: Slapd, name: str) -> None:
    assert asked(gateway, name, slapd.passwords[name]).status == 401


def test_a_token_buys_no_other_token(gateway: Gateway, slapd: Slapd) -> None:
    token = asked(gateway, "alice", slapd.passwords["alice"]).json()["access_token"]
    assert gateway.ask("POST", "/auth/token", token=token).status == 401


def test_the_keys_are_there_for_everybody_and_whoever_asks_for_tokens_is_told_apart_in_the_log(
    gateway: Gateway, slapd: Slapd
) -> None:
    answer = gateway.ask("GET", "/.well-known/jwks.json")
    (key,) = answer.json()["keys"]
    assert (answer.status, key["alg"], "d" in key) == (200, "EdDSA", False)
    issued = asked(gateway, "alice", slapd.passwords["alice"])
    log = gateway.process.stderr.read_text()
    assert f"request_id={issued['x-request-id']}" in log
    assert slapd.passwords["alice"] not in log
    assert issued.json()["access_token"] not in log


def test_one_address_cannot_pass_for_another(gateway: Gateway, slapd: Slapd) -> None:
    """Failed logins are counted by address, so whoever could choose theirs could go on guessing."""
    answer = gateway.ask("POST", "/auth/token", headers={**basic("dora", "wrong"), "X-Forwarded-For": "198.51.100.7"})
    assert answer.status == 401
    lines = [line for line in gateway.process.stderr.read_text().splitlines() if "token.refused" in line]
    assert "peer=127.0.0.1" in lines[-1]


@pytest.mark.parametrize("field", ["Authorization", "Cookie", "Accept"])
def test_the_pages_take_whatever_head_the_gateway_takes(gateway: Gateway, field: str) -> None:
    """A ticket of Kerberos, the cookies of all neighbours under the same domain: `limits.header` says how long."""
    value = "Negotiate " + "k3rb" * 4000
    before = len(gateway.process.stderr.read_text())
    for method, path, status in (
        ("GET", "/ui/", 200),
        ("POST", "/auth/token", 401),
        ("GET", "/auth/x?" + "q" * 9000, 404),
    ):
        answer = gateway.ask(method, path, headers={field: value})
        assert answer.status == status
        assert answer["cache-control"] == "no-store"
    assert gateway.ask("GET", "/ui/", headers={field: value * 3}).status == 431
    log = gateway.process.stderr.read_text()[before:]
    assert "k3rb" not in log
    assert "trace" not in log


def test_a_browser_that_leaves_the_last_slash_out_is_led_to_the_pages(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/ui", headers={"Accept": "text/html"})
    assert (answer.status, answer["location"], answer["www-authenticate"]) == (303, "/ui/", None)
    assert gateway.ask("GET", "/uix").status == 401


@pytest.mark.parametrize("path", ["/auth/nothing", "/auth/%2e%2e/ui/", "/ui/a%0aevil", "/ui/%ff%fe"])
def test_a_page_that_does_not_exist_is_refused_in_our_words(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("GET", path)
    assert answer.status == 404
    assert "frame-ancestors 'none'" in (answer["content-security-policy"] or "")
    assert (answer["x-request-id"] or "").encode() in answer.body


def test_the_audit_line_says_who_got_a_token_and_why_somebody_got_none(gateway: Gateway, slapd: Slapd) -> None:
    given, wrong, none = (
        asked(gateway, "ALICE", slapd.passwords["alice"]),
        asked(gateway, "alice", "wrong"),
        gateway.ask("POST", "/auth/token"),
    )
    lines = [gateway.audit_of(answer["x-request-id"]) for answer in (given, wrong, none)]
    assert [(line["decision"], line["status"], line["reason"], line["detail"]) for line in lines] == [
        ("allow", 200, "ok", None),
        ("deny", 401, "invalid_api_key", "bind answered with 49 invalidCredentials"),
        ("deny", 401, "invalid_api_key", "no_credential"),
    ]
    got = lines[0]
    assert (got["subject"], got["issuer"], got["provider"]) == ("alice", "ldap:directory", "directory")
    used = gateway.audit_of(chat(gateway, token=given.json()["access_token"])["x-request-id"])
    assert used["credential"] == got["credential"]
    assert [line["subject"] for line in lines[1:]] == [None, None]
    assert given["x-gateway-told"] is None


def test_whose_account_is_deleted_makes_no_token_on_the_page_any_more(gateway: Gateway, slapd: Slapd) -> None:
    name, password = "leaver", "soon-gone"
    slapd.add(_person(name, password))
    try:
        first = gateway.ask("GET", "/ui/")
        form = {"guard": _guard(first), "name": name, "password": password}
        session = _post(gateway, "/auth/login", form, _cookies(first))
        assert session.status == 303
        cookies = _cookies(session)
        guard = _guard(gateway.ask("GET", "/ui/", headers={"Cookie": cookies}))
    finally:
        slapd.change(f"dn: {person(name)}\nchangetype: delete\n")
    answer = _post(gateway, "/ui/token", {"guard": guard}, cookies)
    assert answer.status == 403
    assert b"Your account is not to be used any more." in answer.body
    assert b"Log in" in gateway.ask("GET", "/ui/", headers={"Cookie": cookies}).body


def _person(name: str, password: str) -> str:
    return entry(person(name), "inetOrgPerson", uid=name, cn=name, sn=name, userPassword=password)


def _guard(page: Answer) -> str:
    return page.body.decode().split('name="guard" value="')[1].split('"')[0]


def _cookies(answer: Answer) -> str:
    return "; ".join(value.split(";")[0] for name, value in answer.fields if name == "set-cookie")


def _post(gateway: Gateway, path: str, form: dict[str, str], cookies: str) -> Answer:
    """As a browser sends a form of ours."""
    fields = {"Cookie": cookies, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    return gateway.ask("POST", path, body=urlencode(form).encode(), headers=fields)

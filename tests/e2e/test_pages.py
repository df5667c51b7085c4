"""The pages as a gateway serves them: a real browser, a real provider, real models, and calls that are copied."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import StartGateway
from tests.identity.pems import key_file, private
from tests.parts.browser import Browser, StartBrowser
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.llama import HEALTH, Llama
from tests.parts.openid import OpenIdProvider
from tests.parts.process import free_port, wait_until
from tests.parts.slapd import Slapd
from tests.parts.triton import Triton

TINY = "meta/tiny"
#: Seconds after which a change must be live.
LIVE = 2.0


@pytest.fixture(scope="module")
def port() -> int:
    """Of the gateway: the provider has to know where browsers come back to."""
    return free_port()


@pytest.fixture(scope="module")
def provider(port: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    backs = [f"https://localhost:{port}/auth/callback/corp"]
    running = OpenIdProvider(tmp_path_factory.mktemp("openid"), backs=backs)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def gateway(
    port: int,
    provider: OpenIdProvider,
    start_shared_gateway: StartGateway,
    llama: Llama,
    triton: Triton,
    slapd: Slapd,
    tmp_path_factory: pytest.TempPathFactory,
) -> Gateway:
    """People log in at the provider, or with the password of the directory."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "client").write_text(provider.secret)
    login = {"client_id": "pages", "client_secret": {"file": str(folder / "client")}, "scopes": ["openid", "groups"]}
    key = key_file(folder / "tokens.key", private("ES256"))
    pools = [
        pool("llama", [TINY], llama.url, health=HEALTH),
        pool("triton", ["addsub", "echo"], triton.url, protocols=["kserve"], health={"path": "/v2/health/ready"}),
    ]
    uses = {"operations": ["infer", "stream", "list", "metadata"]}
    rules = [allow("science", [TINY, "addsub"], **uses), allow("others", ["echo"], subjects={"groups": ["nobody"]})]
    running = start_shared_gateway(
        pools,
        rules,
        start=False,
        identity={
            "oidc": [oidc(provider.issuer, login=login)],
            "ldap": [slapd.config()],
            "tokens": {"key": str(key)},
        },
        aliases=[{"name": "shared-by-some", "targets": [{"model": TINY, "weight": 1}]}],
    )
    running.config["listen"]["port"] = running.port = port
    running.url = f"https://localhost:{port}"
    running.write_config()
    running.start()
    running.backends_up("llama", 1)
    running.backends_up("triton", 1)
    return running


@pytest.fixture
def browser(start_browser: StartBrowser) -> Browser:
    browser = start_browser()
    browser.forget()
    return browser


def log_in(browser: Browser, gateway: Gateway, name: str = "alice") -> None:
    browser.open(gateway.url)
    browser.until("Log in with corp")
    browser.press("Log in with corp")
    browser.until("The provider")
    browser.type("#user", name)
    browser.press("Go on")
    browser.until("Your models")


def new_token(browser: Browser) -> str:
    browser.press("Make a token")
    browser.until("it is not shown again")
    return browser.find("pre").text


def copied(browser: Browser, model: str) -> dict[str, str]:
    """The calls that the page has for a model, by tool."""
    browser.press(model)
    block = "details[open] "
    tools, calls = browser.all(f"{block}h3"), browser.all(f"{block}pre")
    return {tool.text: call.text for tool, call in zip(tools, calls, strict=True)}


def run(call: str, tool: str, gateway: Gateway, token: str) -> subprocess.CompletedProcess[str]:
    """As whoever pasted it: in a shell, or in Python."""
    command = (
        ["bash", "-c", f"{call} -sS --fail-with-body"]
        if tool == "curl"
        else [sys.executable, "-W", "ignore", "-c", call]
    )
    trusted = dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"), str(gateway.ca))
    environment = {**os.environ, **trusted, "NIM_GATEWAY_TOKEN": token, "NO_PROXY": "localhost"}
    return subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)


def test_a_browser_is_led_from_the_root_to_its_models_and_only_those_it_may_use(
    browser: Browser, gateway: Gateway
) -> None:
    log_in(browser, gateway)
    assert browser.url == f"{gateway.url}/ui/"
    seen = browser.text
    who, models = ("alice", "corp", "data-science", "llm-users"), (TINY, "addsub", "shared-by-some")
    assert all(word in seen for word in who + models)
    assert "echo" not in seen
    assert browser.complaints() == []


def test_somebody_of_the_directory_logs_in_with_their_password_and_gets_a_token(
    browser: Browser, gateway: Gateway, slapd: Slapd
) -> None:
    browser.open(gateway.url)
    browser.type("#name", "ALICE")
    browser.type("#password", "wrong")
    browser.press("Log in")
    browser.until("The name or the password is not accepted.")
    browser.type("#password", slapd.passwords["alice"])
    browser.press("Log in")
    browser.until("Your models")
    assert all(word in browser.text for word in ("alice", "directory", "data-science", TINY))
    token = new_token(browser)
    assert gateway.ask("GET", "/v2/models/addsub", token=token).status == 200
    record = gateway.audit_of(gateway.ask("GET", "/v2/models/addsub", token=token)["x-request-id"])
    assert (record["subject"], record["issuer"]) == ("alice", "ldap:directory")
    assert slapd.passwords["alice"] not in gateway.process.stderr.read_text() + gateway.process.stdout.read_text()


def test_the_calls_on_the_page_work_as_they_are_with_the_token_of_the_page(browser: Browser, gateway: Gateway) -> None:
    log_in(browser, gateway)
    calls = [*copied(browser, f"{TINY} openai nim-mgmt").items(), *_triton_calls(browser)]
    assert [tool for tool, _ in calls] == ["curl", "OpenAI SDK", "curl", "tritonclient"]
    token = new_token(browser)
    for (tool, call), shown in zip(calls, ('"choices"', "", '"inputs"', "'inputs'"), strict=True):
        done = run(call, tool, gateway, token)
        assert done.returncode == 0, (call, done.stderr)
        assert shown in done.stdout
    assert run(calls[0][1], "curl", gateway, "made-up").returncode != 0


def _triton_calls(browser: Browser) -> list[tuple[str, str]]:
    browser.find("summary").click()  # shut the first
    return list(copied(browser, "addsub kserve").items())


def test_a_token_of_the_page_is_an_api_key_with_the_rights_of_its_maker(browser: Browser, gateway: Gateway) -> None:
    log_in(browser, gateway)
    token = new_token(browser)
    assert gateway.ask("GET", "/v2/models/addsub", token=token).status == 200
    assert gateway.ask("GET", "/v2/models/echo", token=token).status == 403
    record = gateway.audit_of(gateway.ask("GET", "/v2/models/addsub", token=token)["x-request-id"])
    assert (record["subject"], record["issuer"]) == ("alice", gateway.config["identity"]["oidc"][0]["issuer"])


def test_whoever_is_in_no_group_sees_no_model(browser: Browser, gateway: Gateway) -> None:
    log_in(browser, gateway, "carol")
    assert "None so far. Your administrator decides who may use which model" in browser.text


def test_rights_that_a_reload_gives_are_on_the_page_at_once(browser: Browser, gateway: Gateway) -> None:
    log_in(browser, gateway)
    rules = (gateway.policies / "rules.yaml").read_text()
    gateway.write_rules([allow("science", ["echo"], operations=["infer"])])
    try:
        wait_until(lambda: _seen_again(browser, "echo"), LIVE + 1, "the model of the new rule on the page")
        assert "addsub" not in browser.text
    finally:
        (gateway.policies / "rules.yaml").write_text(rules)
        wait_until(lambda: _seen_again(browser, "addsub"), 10, "the old rules")


def test_only_what_may_be_used_from_where_the_browser_is_is_on_the_page(browser: Browser, gateway: Gateway) -> None:
    log_in(browser, gateway)
    rules = (gateway.policies / "rules.yaml").read_text()
    here = allow("here", ["echo"], operations=["infer"], **{"from": ["127.0.0.0/8", "::1/128"]})
    gateway.write_rules([here, allow("there", ["addsub"], operations=["infer"], **{"from": ["192.0.2.0/24"]})])
    try:
        wait_until(lambda: _seen_again(browser, "echo"), LIVE + 1, "the model of the new rule on the page")
        assert "addsub" not in browser.text
    finally:
        (gateway.policies / "rules.yaml").write_text(rules)
        wait_until(lambda: _seen_again(browser, "addsub"), 10, "the old rules")


def test_a_group_that_the_provider_may_give_no_more_is_worth_nothing_in_a_session_of_before(
    browser: Browser, gateway: Gateway
) -> None:
    log_in(browser, gateway)
    assert "addsub" in browser.text
    (provider,) = gateway.config["identity"]["oidc"]
    provider["groups_allowed"] = ["nobody-is-in-this"]
    gateway.write_config()
    try:
        wait_until(lambda: _seen_again(browser, "None so far."), LIVE + 1, "no model on the page")
    finally:
        del provider["groups_allowed"]
        gateway.write_config()
        wait_until(lambda: _seen_again(browser, "addsub"), 10, "the old groups")


def _seen_again(browser: Browser, word: str) -> bool:
    browser.open(browser.url)
    return word in browser.text


def test_a_session_outlives_a_restart(browser: Browser, gateway: Gateway) -> None:
    log_in(browser, gateway)
    assert gateway.stop() == 0
    gateway.start()
    browser.open(f"{gateway.url}/ui/")
    assert "data-science" in browser.text
    browser.press("Log out")
    browser.until("Log in with corp")
    gateway.backends_up("triton", 1)
    gateway.backends_up("llama", 1)


def test_a_page_has_the_id_of_its_audit_line_and_says_nothing_of_what_it_is_made_of(gateway: Gateway) -> None:
    answer = _page(gateway, "/ui/nothing")
    assert answer.status == 404
    identity = answer["x-request-id"] or ""
    assert identity.encode() in answer.body
    record = gateway.audit_of(identity)
    assert (record["path"], record["status"]) == ("/ui/nothing", 404)
    assert answer["server"] is None


def test_no_secret_of_a_login_is_written_down(browser: Browser, gateway: Gateway, provider: OpenIdProvider) -> None:
    log_in(browser, gateway)
    session = browser.cookies()["__Host-nimgw-session"]["value"]
    token = new_token(browser)
    written = gateway.process.stdout.read_text() + gateway.process.stderr.read_text()
    assert "pages.logged_in" in written
    for secret in (session, token, token.split(".")[2], provider.secret, "code="):
        assert secret not in written


def test_logins_are_counted_by_provider_and_result(browser: Browser, gateway: Gateway) -> None:
    before = gateway.metric("gateway_authentications_total", provider="corp", result="ok")
    log_in(browser, gateway)
    assert gateway.metric("gateway_authentications_total", provider="corp", result="ok") == before + 1


def test_where_nobody_can_log_in_there_are_no_pages(start_gateway: StartGateway, llama: Llama) -> None:
    plain = start_gateway([pool("llama", [TINY], llama.url, health=HEALTH)])
    assert _page(plain, "/ui/").status in {401, 404}
    assert _page(plain, "/").status in {401, 404}


def _page(gateway: Gateway, path: str) -> Answer:
    return gateway.ask("GET", path, headers={"Accept": "text/html"})

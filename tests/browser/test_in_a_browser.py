"""The pages in a real browser, and with a real provider: what somebody sees, types and presses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gateway.call import Principal
from gateway.devcerts import Paths
from gateway.fetch import Fetch
from gateway.identity.browser.codeflow import Around as AroundLogin
from gateway.identity.browser.codeflow import CodeFlow
from gateway.identity.contracts import Begun
from gateway.identity.provider.keys import KeySet
from gateway.identity.provider.oauth import Client
from gateway.portal.services import Granted
from gateway.settings import Login, OidcIssuer
from tests.browser.conftest import GROUPS, MODELS, PASSWORD
from tests.browser.here import Around, People, Site, Visitor
from tests.parts.browser import Browser, StartBrowser
from tests.parts.openid import OpenIdProvider
from tests.parts.process import free_port

BAD = "\"'><img src=x onerror=document.title='broken'><script>document.title='broken'</script>"
LONG = "a-group-with-a-name-that-is-much-longer-than-a-telephone-is-wide-" * 4


class Corp:
    """The gateway's side of a login with a real provider, made in the loop of the site that asks for it."""

    def __init__(self, name: str, issuer: str, secret: str) -> None:
        self.name = name
        self._login = Login("pages", client_secret=secret, scopes=("openid", "groups"))
        self._issuer = OidcIssuer(name, issuer, ("nim-gateway",), login=self._login)
        self._fetch = Fetch()
        self._flow: CodeFlow | None = None

    async def begin(self, back: str) -> tuple[str, Begun]:
        return await (await self._made()).begin(back)

    async def finish(self, begun: Begun, answer: Mapping[str, str]) -> Principal:
        return await (await self._made()).finish(begun, answer)

    async def close(self) -> None:
        await self._fetch.__aexit__(None, None, None)

    async def _made(self) -> CodeFlow:
        if self._flow is None:
            await self._fetch.__aenter__()
            keys = KeySet(self._issuer, self._fetch, time.monotonic)
            await keys.refresh()
            around = AroundLogin(self._fetch, lambda *_: None)
            self._flow = CodeFlow(self._issuer, self._login, Client(self._login), keys, around)
        return self._flow


@pytest.fixture(scope="module")
def shared(certificates: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, OpenIdProvider]]:
    """One site for all tests here, since the provider has to know where it is."""
    site = Site(Around(), certificates)
    provider = OpenIdProvider(tmp_path_factory.mktemp("openid"), backs=[f"{site.url}/auth/callback/corp"])
    corp, gone = Corp("corp", provider.issuer, provider.secret), Corp("gone", f"http://127.0.0.1:{free_port()}", "x")
    site.services.logins, site.closing = [corp, gone], [corp.close, gone.close]
    with site:
        yield site, provider
    provider.stop()


@pytest.fixture
def provider(shared: tuple[Site, OpenIdProvider]) -> OpenIdProvider:
    return shared[1]


@pytest.fixture
def here(shared: tuple[Site, OpenIdProvider]) -> Site:
    """With a directory, a provider that is there and one that is not, two models, and nobody revoked."""
    site, _ = shared
    people = People({"alice": (PASSWORD, GROUPS), "bob": (PASSWORD, frozenset())})
    services = site.services
    services.directories, services.models, services.minted = [people], MODELS, []
    services.revoked.clear()
    return site


@pytest.fixture
def browser(start_browser: StartBrowser) -> Browser:
    browser = start_browser()
    browser.forget()
    browser.size(1000, 900)
    return browser


def by_name(browser: Browser, site: Site, name: str = "alice") -> None:
    browser.open(f"{site.url}/ui/")
    browser.type("#name", name)
    browser.type("#password", PASSWORD)
    browser.press("Log in")


def by_provider(browser: Browser, site: Site, name: str = "alice") -> None:
    browser.open(f"{site.url}/ui/")
    browser.press("Log in with corp")
    browser.until("The provider")
    browser.type("#user", name)
    browser.press("Go on")


@pytest.mark.parametrize("log_in", [by_name, by_provider])
def test_somebody_logs_in_sees_their_models_makes_a_token_and_logs_out(
    browser: Browser, here: Site, log_in: Callable[[Browser, Site], None]
) -> None:
    log_in(browser, here)
    browser.until("Your models")
    assert browser.url == f"{here.url}/ui/"
    assert all(word in browser.text for word in ("alice", "data-science", "llm-users", "addsub"))
    browser.press("addsub kserve")
    browser.until("tritonclient")
    browser.press("Make a token")
    browser.until("Copy it now: it is not shown again")
    assert browser.find("pre").text == "token-1-of-alice"
    browser.press("Log out")
    browser.until("With your name and password")
    browser.open(f"{here.url}/ui/")
    assert "With your name and password" in browser.text
    assert browser.complaints() == []  # no violation of the policy, nothing that was not found


def test_pages_ask_nobody_but_the_gateway(browser: Browser, here: Site) -> None:
    by_name(browser, here)
    browser.until("Your models")
    browser.press("Make a token")
    browser.until("not shown again")
    assert browser.hosts_asked() == {f"localhost:{here.port}"}


def test_a_wrong_password_is_said_and_read_aloud_and_the_name_stays(browser: Browser, here: Site) -> None:
    browser.open(f"{here.url}/ui/")
    browser.type("#name", "alice")
    browser.type("#password", "wrong")
    browser.press("Log in")
    browser.until("The name or the password is not accepted.")
    assert browser.find("[role=alert]").text == "The name or the password is not accepted."
    assert browser.find("#name").get_property("value") == "alice"
    browser.type("#password", PASSWORD)
    browser.press("Log in")
    browser.until("Your models")


def test_all_works_without_javascript(start_browser: StartBrowser, here: Site) -> None:
    browser = start_browser(javascript=False)
    browser.forget()
    by_provider(browser, here)
    browser.until("Your models")
    browser.press("addsub kserve")
    browser.until("tritonclient")
    assert "Copy" not in [button.text for button in browser.all("button")]  # no button that does nothing
    browser.press("Make a token")
    browser.until("not shown again")
    browser.press("Log out")
    browser.until("With your name and password")


def test_a_call_is_copied_as_it_stands_there(browser: Browser, here: Site) -> None:
    by_name(browser, here)
    browser.until("Your models")
    browser.press("addsub kserve")
    shown = browser.find("details[open] pre").text
    browser.permit_clipboard(here.url)
    browser.find("details[open] .copy button").click()
    browser.until("Copied")
    assert browser.clipboard() == shown
    assert shown.startswith(f"curl {here.url}/v2/models/addsub")


def test_names_with_markup_in_them_are_text(browser: Browser, here: Site) -> None:
    services = here.services
    services.directories = [People({BAD: (PASSWORD, frozenset({BAD, "data-science"}))}, name=BAD)]
    services.models = [Granted(BAD, (BAD,), ("openai", BAD))]
    browser.open(f"{here.url}/ui/")
    browser.type("#name", BAD)
    browser.type("#password", "wrong")
    browser.press("Log in")
    browser.until("not accepted")
    assert browser.find("#name").get_property("value") == BAD
    browser.type("#password", PASSWORD)
    browser.press("Log in")
    browser.until("Your models")
    browser.find("summary").click()
    assert browser.text.count(BAD) >= 4
    assert browser.all("main img, main script") == []
    assert browser.script("document.title") == "Your models · Model gateway"
    assert [line for line in browser.complaints() if "403" not in line] == []


def test_nothing_inline_would_run_even_if_it_stood_there(browser: Browser, here: Site) -> None:
    browser.open(f"{here.url}/ui/")
    browser.script("document.body.insertAdjacentHTML('beforeend', '<p onclick=\"document.title=1\" id=x>x</p>')")
    browser.find("#x").click()
    browser.script(
        "const s = document.createElement('script'); s.textContent = 'document.title = 2'; document.body.append(s)"
    )
    browser.script(
        "const f = document.createElement('form'); f.action = 'https://evil.test/'; document.body.append(f); f.submit()"
    )
    assert browser.script("document.title") == "Log in · Model gateway"
    browser.until_complaints("Content Security Policy", 3)


@pytest.mark.parametrize("dark", [False, True])
def test_a_telephone_has_no_need_to_scroll_sideways(
    start_browser: StartBrowser, here: Site, dark: bool, tmp_path: Path
) -> None:
    browser = start_browser(dark=dark)
    browser.forget()
    here.services.directories = [People({"alice": (PASSWORD, GROUPS | {LONG, "CN=with spaces, in,OU=it"})})]
    browser.size(360, 740)
    browser.open(f"{here.url}/ui/")
    browser.type("#name", LONG)
    browser.type("#password", "wrong")
    browser.press("Log in")
    browser.until("not accepted")
    assert not browser.is_wider_than_its_window()
    by_name(browser, here)
    browser.until("Your models")
    for summary in browser.all("summary"):
        summary.click()
    assert not browser.is_wider_than_its_window()
    browser.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    browser.press("Make a token")
    browser.until("not shown again")
    assert not browser.is_wider_than_its_window()
    ground = browser.script("getComputedStyle(document.body).backgroundColor")
    assert (sum(json.loads(ground.replace("rgb(", "[").replace(")", "]"))) < 200) == dark


def test_who_reads_with_ears_or_keys_finds_their_way(browser: Browser, here: Site) -> None:
    """Each page has one first heading, a language and a title; each field has a label; what scrolls can be reached."""
    by_name(browser, here)
    browser.until("Your models")
    seen = [browser.source]
    for page in ("ui/", "ui/nothing"):
        browser.open(f"{here.url}/{page}")
        assert len(browser.all("h1")) == 1
        assert browser.script("document.documentElement.lang") == "en"
        assert browser.script("document.title").endswith("Model gateway")
        assert all(
            pre.get_attribute("tabindex") == "0" and pre.get_attribute("aria-label") for pre in browser.all("pre")
        )
        seen.append(browser.source)
    browser.open(f"{here.url}/ui/")
    browser.press("Log out")
    browser.until("With your name and password")
    for field in browser.all("input:not([type=hidden])"):
        assert browser.find(f"label[for={field.get_attribute('id')}]").text
    assert all("<main" in source for source in seen)


def test_who_stops_at_the_provider_is_told_kindly_and_may_begin_again(browser: Browser, here: Site) -> None:
    browser.open(f"{here.url}/ui/")
    browser.press("Log in with corp")
    browser.until("The provider")
    browser.press("Stop")
    browser.until("The login was cancelled, or your provider does not let you in here.")
    browser.press("Log in with corp")
    browser.until("The provider")
    browser.type("#user", "alice")
    browser.press("Go on")
    browser.until("Your models")


def test_what_the_browser_keeps_is_out_of_reach_of_scripts_and_bound_to_the_host(browser: Browser, here: Site) -> None:
    by_provider(browser, here)
    browser.until("Your models")
    cookies = browser.cookies()
    assert set(cookies) == {"__Host-nimgw-session", "__Host-nimgw-form"}  # that of the login is gone
    for cookie in cookies.values():
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, True, "Lax", "/")
        assert cookie["domain"] == "localhost"
        assert "expiry" not in cookie
    assert browser.script("document.cookie") == ""


def test_a_page_of_somebody_else_can_neither_send_a_form_nor_begin_a_login(
    browser: Browser, here: Site, provider: OpenIdProvider
) -> None:
    by_name(browser, here)
    browser.until("Your models")
    browser.open(f"{provider.issuer}/.well-known/openid-configuration")
    browser.script(
        f"const f = document.createElement('form'); f.method = 'post'; f.action = '{here.url}/ui/token';"
        "document.body.append(f); f.submit()"
    )
    browser.until("You are not logged in any more")  # the cookie stays behind with a form of another site
    assert here.services.minted == []
    browser.open(f"{provider.issuer}/.well-known/openid-configuration")
    browser.script(f"location.href = '{here.url}/auth/login/corp'")
    browser.until("Your models")
    assert "__Host-nimgw-login" not in browser.cookies()


def test_an_answer_of_the_provider_is_good_once_and_in_its_own_browser_only(browser: Browser, here: Site) -> None:
    other = Visitor(here)
    begun = other.get("/auth/login/corp")
    browser.open(begun["location"] or "")
    browser.until("The provider")
    browser.type("#user", "alice")
    browser.press("Go on")
    browser.until("This login was begun in another window, or too long ago.")
    answer = browser.url.removeprefix(here.url)
    assert answer.startswith("/auth/callback/corp?code=")
    kept = dict(other.cookies)
    assert other.get(answer).status == 303
    replayed = other.get(answer)
    assert (replayed.status, b"begun in another window" in replayed.body) == (403, True)
    other.cookies.update({name: kept[name] for name in kept if name.endswith("login")})
    replayed = other.get(answer)  # with a copy of the cookie: the provider takes no code twice
    assert (replayed.status, b"was used already" in replayed.body) == (403, True)


def test_an_answer_to_a_login_with_one_provider_is_none_of_another(here: Site) -> None:
    other = Visitor(here)
    sent = other.get("/auth/login/corp")["location"] or ""
    state = sent.split("state=")[1].split("&")[0]
    answer = other.get(f"/auth/callback/gone?code=x&state={state}")
    assert (answer.status, b"begun in another window" in answer.body) == (403, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer.split("&state=")[0],
        lambda answer: answer.replace("state=", "state=x"),
        lambda answer: answer.replace("iss=http", "iss=https"),
        lambda answer: answer.split("&iss=")[0],
        lambda answer: answer + "&state=again",
    ],
)
def test_an_answer_that_was_meddled_with_logs_nobody_in(
    browser: Browser, here: Site, change: Callable[[str], str]
) -> None:
    other = Visitor(here)
    browser.open(other.get("/auth/login/corp")["location"] or "")
    browser.until("The provider")
    browser.type("#user", "alice")
    browser.press("Go on")
    browser.until("This login was begun in another window")
    answer = other.get(change(browser.url.removeprefix(here.url)))
    assert answer.status == 403
    assert "__Host-nimgw-session" not in other.cookies
    assert "__Host-nimgw-login" not in other.cookies


def test_a_provider_that_is_away_is_said_and_the_other_ways_are_still_there(browser: Browser, here: Site) -> None:
    browser.open(f"{here.url}/ui/")
    browser.press("Log in with gone")
    browser.until("Nobody can say who you are at the moment.")
    browser.type("#name", "alice")
    browser.type("#password", PASSWORD)
    browser.press("Log in")
    browser.until("Your models")

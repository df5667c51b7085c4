"""Logging in with a name and a password, and what somebody else may try with the pages: on the level of HTTP."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Mapping

import pytest

from gateway.errors import IdentityUnavailable
from gateway.identity.apikeys.keytext import new_key
from gateway.portal.services import Granted
from gateway.portal.sessions import COOKIE_LIMIT, LONGEST
from tests.browser.conftest import GROUPS, PASSWORD, StartSite
from tests.browser.here import FROM_HERE, Around, People, Site, Visitor, throttled
from tests.parts.client import Answer

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BINDING = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
MARKUP = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}"


def text(answer: Answer) -> str:
    """What a reader sees, roughly."""
    return html.unescape(re.sub(r"<[^>]+>", " ", answer.body.decode()))


def test_who_is_not_logged_in_is_asked_to_wherever_they_come(visitor: Visitor) -> None:
    for path in ("/", "/ui", "/ui/token", "/auth/login", "/auth/logout"):
        answer = visitor.get(path)
        assert (answer.status, answer["location"]) == (303, "/ui/")
    page = visitor.get("/ui/")
    assert page.status == 200
    assert "With your name and password" in text(page)


def test_a_name_and_its_password_lead_to_the_models_one_may_use(visitor: Visitor) -> None:
    answer = visitor.log_in("alice", PASSWORD)
    assert (answer.status, answer["location"]) == (303, "/ui/")
    page = text(visitor.get("/ui/"))
    assert all(word in page for word in ("alice", "staff", "data-science", "llm-users", "addsub", "llama-8b"))


def test_who_may_use_no_model_is_told_so_and_what_to_do(visitor: Visitor) -> None:
    visitor.log_in("bob", PASSWORD)
    assert "None so far. Your administrator decides" in text(visitor.get("/ui/"))


@pytest.mark.parametrize(
    ("name", "password"),
    [("alice", "wrong"), ("nobody", PASSWORD), ("alice", ""), ("", ""), ("a\x00b", "x"), ("x" * 5000, "")],
)
def test_what_is_not_accepted_is_said_in_the_same_words_and_the_name_is_kept(
    visitor: Visitor, name: str, password: str
) -> None:
    answer = visitor.log_in(name, password)
    assert answer.status == 403
    assert "The name or the password is not accepted." in text(answer)
    assert f'value="{html.escape(name)}"'.encode() in answer.body
    assert "__Host-nimgw-session" not in visitor.cookies


@pytest.mark.parametrize("key_is", ["name", "password"])
def test_an_api_key_in_the_form_is_shown_to_no_directory(visitor: Visitor, people: People, key_is: str) -> None:
    answer = visitor.log_in(**{"name": "alice", "password": PASSWORD, key_is: new_key("svcbatch")})
    assert answer.status == 403
    assert "The name or the password is not accepted." in text(answer)
    assert people.asked == []


def test_a_directory_hears_from_where_somebody_logs_in(visitor: Visitor, people: People) -> None:
    form = {"guard": visitor.guard(), "name": "alice", "password": "wrong"}
    visitor.post("/auth/login", form, {**FROM_HERE, "X-Forwarded-For": "192.0.2.7"})
    assert people.asked == ["192.0.2.7"]


def test_who_has_to_wait_is_told_how_long(visitor: Visitor, people: People) -> None:
    people.trouble = throttled(17)
    answer = visitor.log_in("alice", PASSWORD)
    assert (answer.status, answer["retry-after"]) == (429, "17")
    assert "Wait 17 seconds before you try again." in text(answer)


def test_a_directory_that_is_away_is_a_page_that_offers_the_other_ways(visitor: Visitor, people: People) -> None:
    people.trouble = IdentityUnavailable(retry_after=5, detail="ldaps://10.0.0.1 is gone")
    answer = visitor.log_in("alice", PASSWORD)
    assert (answer.status, answer["retry-after"]) == (503, "5")
    assert "Try again in 5 seconds, or log in another way." in text(answer)
    assert "10.0.0.1" not in text(answer)


@pytest.mark.parametrize("name", ["next", "return_to", "redirect_uri", "url"])
def test_no_login_leads_anywhere_but_to_the_first_page(visitor: Visitor, name: str) -> None:
    form = {"guard": visitor.guard(f"/ui/?{name}=https://evil.test/"), "name": "alice", "password": PASSWORD}
    answer = visitor.post(
        f"/auth/login?{name}=//evil.test", {**form, name: "https://evil.test/"}, {**FROM_HERE, "Host": "evil.test"}
    )
    assert (answer.status, answer["location"]) == (303, "/ui/")
    assert b"evil.test" not in visitor.get("/ui/").body


def test_every_cookie_is_bound_to_this_host_and_out_of_reach_of_scripts(visitor: Visitor) -> None:
    lines = [value for _, value in _cookies(visitor.get("/ui/"))]
    lines += [value for _, value in _cookies(visitor.log_in("alice", PASSWORD))]
    lines += [value for _, value in _cookies(visitor.get("/ui/"))]
    assert len(lines) >= 3
    for line in lines:
        name, *flags = re.split(r"; *", line)
        assert name.startswith("__Host-nimgw-")
        assert {flag.lower() for flag in flags} >= {"secure", "httponly", "samesite=lax", "path=/"}
        assert "domain" not in line.lower()


def test_every_page_binds_the_browser(alice: Visitor) -> None:
    guard = alice.guard()
    pages = [
        alice.get("/ui/"),
        alice.post("/ui/token", {"guard": guard}),
        alice.post("/ui/token", {"guard": "none"}),
        alice.get("/ui/nothing"),
        alice.post("/auth/logout", {"guard": guard}),
        alice.get("/ui/"),
    ]
    assert [page.status for page in pages] == [200, 200, 403, 404, 303, 200]
    for page in pages:
        assert BINDING.items() <= dict(page.fields).items()
        assert page["cache-control"] == "no-store"
        assert page["server"] is None
    asset = alice.get("/ui/style.css")
    assert BINDING.items() <= dict(asset.fields).items()
    assert "immutable" in (asset["cache-control"] or "")


def test_no_page_has_anything_inline(alice: Visitor) -> None:
    for page in (alice.get("/ui/"), alice.post("/ui/token", {"guard": alice.guard()}), alice.get("/ui/nothing")):
        source = page.body.decode()
        assert not re.search(r"<style|style=|javascript:| on\w+=|<script(?! src=\"/ui/copy\.js)", source)
        assert set(re.findall(r'(?:src|href|action)="([^"]+)"', source)) <= {
            *re.findall(r'"(/ui/[a-z.]+\?v=[0-9a-f]{16})"', source), "/ui/", "/ui/token", "/auth/logout",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "headers"),
    [
        ({"guard": ""}, FROM_HERE),
        ({"guard": "a guard of somebody else"}, FROM_HERE),
        ({}, {**FROM_HERE, "Sec-Fetch-Site": "cross-site"}),
        ({}, {**FROM_HERE, "Sec-Fetch-Site": "same-site"}),
        ({}, {**FROM_HERE, "Sec-Fetch-Site": "none"}),
        ({}, {**FORM, "Origin": "https://evil.test"}),
        ({}, {**FORM, "Origin": "null"}),
        ({}, FORM),
    ],
)
@pytest.mark.parametrize("path", ["/auth/login", "/ui/token", "/auth/logout"])
def test_a_form_from_elsewhere_does_nothing(
    visitor: Visitor, services: Around, people: People, path: str, change: dict[str, str], headers: Mapping[str, str]
) -> None:
    form = {"guard": visitor.guard(), "name": "alice", "password": PASSWORD}
    if path != "/auth/login":
        visitor.post("/auth/login", form)
        form["guard"] = visitor.guard()
    people.asked.clear()
    answer = visitor.post(path, {**form, **change}, headers)
    assert answer.status == 403
    assert "not sent from a page of the gateway" in text(answer)
    assert (services.minted, people.asked) == ([], [])
    assert ("alice" in text(visitor.get("/ui/"))) == (path != "/auth/login")  # still logged in, or still not


@pytest.mark.parametrize("guard", ["", "x", "None"])
def test_a_form_without_the_cookie_of_its_page_does_nothing(visitor: Visitor, people: People, guard: str) -> None:
    answer = visitor.post("/auth/login", {"guard": guard, "name": "alice", "password": PASSWORD})
    assert (answer.status, people.asked) == (403, [])


def test_a_browser_that_does_not_say_where_a_form_comes_from_has_to_name_the_origin(visitor: Visitor) -> None:
    form = {"guard": visitor.guard(), "name": "alice", "password": PASSWORD}
    assert visitor.post("/auth/login", form, {**FORM, "Origin": visitor.site.url}).status == 303


def test_the_guard_of_one_visitor_is_none_for_another_nor_that_of_the_login_for_a_session(
    alice: Visitor, site: Site
) -> None:
    other = Visitor(site)
    before = other.guard()
    other.log_in("alice", PASSWORD)
    for guard in (before, alice.guard()):
        assert other.post("/ui/token", {"guard": guard}).status == 403
    assert other.post("/ui/token", {"guard": other.guard()}).status == 200


def test_a_session_is_made_at_the_login_and_never_taken_from_before(alice: Visitor) -> None:
    before, guard = alice.cookies["__Host-nimgw-session"], alice.guard()
    alice.post("/auth/logout", {"guard": guard})
    alice.cookies["__Host-nimgw-session"] = "planted"
    alice.log_in("alice", PASSWORD)
    assert alice.cookies["__Host-nimgw-session"] not in {before, "planted"}
    assert alice.guard() != guard


def test_a_token_is_shown_once_with_its_end_and_only_to_who_is_logged_in(alice: Visitor, services: Around) -> None:
    page = alice.post("/ui/token", {"guard": alice.guard()})
    assert page.status == 200
    assert "token-1-of-alice" in text(page)
    assert "for 1 hour" in text(page)
    assert services.minted[0].groups == GROUPS
    assert "token-1-of-alice" not in text(alice.get("/ui/"))
    alice.cookies.clear()
    guard = alice.guard()
    refused = alice.post("/ui/token", {"guard": guard})
    assert refused.status == 403
    assert "You are not logged in any more" in text(refused)
    assert len(services.minted) == 1


def test_a_token_of_the_page_holds_no_longer_than_the_session_it_is_made_in(alice: Visitor, services: Around) -> None:
    begun = time.time()
    alice.post("/ui/token", {"guard": alice.guard()})
    assert services.minted[0].expires <= begun + LONGEST


def test_whose_account_is_gone_gets_no_token_and_is_out(alice: Visitor, services: Around, people: People) -> None:
    copies, guard = dict(alice.cookies), alice.guard()
    del people.people["alice"]
    answer = alice.post("/ui/token", {"guard": guard})
    assert answer.status == 403
    assert "Your account is not to be used any more." in text(answer)
    assert services.minted == []
    alice.cookies.update(copies)
    assert "With your name and password" in text(alice.get("/ui/"))


def test_a_token_has_the_groups_of_the_moment_and_the_page_too(
    alice: Visitor, services: Around, people: People
) -> None:
    people.people["alice"] = (PASSWORD, frozenset({"guests"}))
    alice.post("/ui/token", {"guard": alice.guard()})
    assert services.minted[0].groups == {"guests"}
    assert "data-science" not in text(alice.get("/ui/"))


def test_while_the_directory_is_away_there_is_no_token_and_nobody_is_out(
    alice: Visitor, services: Around, people: People
) -> None:
    guard = alice.guard()
    people.trouble = IdentityUnavailable(retry_after=5)
    answer = alice.post("/ui/token", {"guard": guard})
    assert (answer.status, answer["retry-after"]) == (503, "5")
    assert services.minted == []
    people.trouble = None
    assert alice.post("/ui/token", {"guard": guard}).status == 200


def test_without_a_key_there_is_no_word_of_tokens(alice: Visitor, services: Around) -> None:
    services.mints = False
    assert "Make a token" not in text(alice.get("/ui/"))


def test_who_logs_out_is_out_also_for_copies_of_the_cookie(alice: Visitor) -> None:
    copies = dict(alice.cookies)
    assert alice.post("/auth/logout", {"guard": alice.guard()}).status == 303
    assert "__Host-nimgw-session" not in alice.cookies
    alice.cookies.update(copies)
    assert "With your name and password" in text(alice.get("/ui/"))


def test_who_is_revoked_is_out_at_once_and_cannot_come_back(alice: Visitor, services: Around) -> None:
    services.revoked.add("alice")
    guard = alice.guard()  # of a login page
    assert "With your name and password" in text(alice.get("/ui/"))
    assert alice.post("/ui/token", {"guard": guard}).status == 403
    answer = alice.log_in("alice", PASSWORD)
    assert answer.status == 403
    assert "You may not log in here any more." in text(answer)
    services.revoked.clear()
    assert "With your name and password" in text(alice.get("/ui/"))  # the session of before is over for good


def test_whatever_names_hold_is_shown_and_never_run(start_site: StartSite) -> None:
    people = People({MARKUP: (PASSWORD, frozenset({MARKUP, "data-science"}))}, name="staff<b>")
    services = Around(directories=[people], models=[Granted(MARKUP, (MARKUP,), ("openai", "kserve", MARKUP))])
    visitor = Visitor(start_site(services))
    refused = visitor.log_in(MARKUP + "x", "wrong")
    visitor.log_in(MARKUP, PASSWORD)
    pages = [refused, visitor.get("/ui/"), visitor.post("/ui/token", {"guard": visitor.guard()})]
    for page in pages:
        source = page.body.decode()
        assert "<img src=x" not in source
        assert "<script>" not in source
        assert "<b>" not in source
        assert MARKUP in html.unescape(source)


def test_somebody_in_thousands_of_groups_can_log_in(start_site: StartSite) -> None:
    groups = frozenset(f"CN=project {n * 7919},OU=groups,DC=corp,DC=example" for n in range(3000))
    people = People({"alice": (PASSWORD, groups | GROUPS)})
    visitor = Visitor(start_site(Around(directories=[people])))
    visitor.log_in("alice", PASSWORD)
    assert "CN=project 7919," in text(visitor.get("/ui/"))
    assert max(map(len, visitor.cookies.values())) <= COOKIE_LIMIT


def test_a_session_outlives_a_restart_and_a_change_of_keys_where_replicas_share_them(
    start_site: StartSite, alice: Visitor, people: People
) -> None:
    later = start_site(Around(directories=[people], secrets=(b"n" * 32, b"s" * 32)))
    alice.site = later
    assert "data-science" in text(alice.get("/ui/"))
    alice.site = start_site(Around(directories=[people], secrets=(b"n" * 32,)))  # sealed by the new one meanwhile
    assert "data-science" in text(alice.get("/ui/"))
    alice.site = start_site(Around(directories=[people], secrets=(b"x" * 32,)))
    assert "With your name and password" in text(alice.get("/ui/"))


def test_what_is_not_there_is_a_page_that_says_so_with_the_number_of_the_request(visitor: Visitor) -> None:
    for path in ("/ui/nothing", "/auth/login/nobody", "/auth/callback/nobody?code=x&state=y"):
        answer = visitor.get(path, **{"X-Request-Id": "0123abcd"})
        assert answer.status == 404
        assert "There is no such page" in text(answer)
        assert "0123abcd" in text(answer)
        assert (answer["content-type"] or "").startswith("text/html")


def test_a_fault_of_ours_is_a_page_without_its_cause(
    alice: Visitor, people: People, caplog: pytest.LogCaptureFixture
) -> None:
    people.trouble = RuntimeError("secret words")
    answer = alice.post("/auth/login", {"guard": _form_guard(alice), "name": "alice", "password": "x"})
    assert answer.status == 500
    assert "it is not your fault" in text(answer)
    assert "secret words" not in text(answer)
    assert any("pages.fault" in record.message for record in caplog.records)


def _form_guard(visitor: Visitor) -> str:
    session = visitor.cookies.pop("__Host-nimgw-session")
    guard = visitor.guard()
    visitor.cookies["__Host-nimgw-session"] = session
    return guard


def _cookies(answer: Answer) -> list[tuple[str, str]]:
    return [(name, value) for name, value in answer.fields if name == "set-cookie"]

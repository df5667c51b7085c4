"""A login on another device: how often the provider is asked, when to give up, and what somebody is told then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fetch import Fetched, FetchFailed
from gateway.identity.provider.device import LONGEST, DeviceLogin, NotLoggedIn, plain
from gateway.identity.provider.oauth import Client, DeviceCode, Request
from gateway.settings import OAuthClient

CODES, TOKENS = "https://idp.test/device", "https://idp.test/token"
CODE = DeviceCode("secret-of-the-device", "ABCD-EFGH", "https://idp.test/d", None, 600.0, 5.0)
TOKEN: dict[str, Any] = {"access_token": "t0", "token_type": "Bearer"}


def answer(body: object, status: int = 200) -> Fetched:
    return Fetched(status, body if isinstance(body, bytes) else json.dumps(body).encode(), ())


def error(code: str, **more: str) -> Fetched:
    return answer({"error": code, **more}, 400)


PENDING = error("authorization_pending")
Said = Fetched | FetchFailed


class Provider:
    """Says what it is told to, in order, and the last of it again and again. Its time passes with waiting alone."""

    def __init__(self, *said: Said) -> None:
        self.said = list(said)
        self.asked: list[Request] = []
        self.now = 0.0
        self.waited: list[float] = []
        self.login = DeviceLogin(Client(OAuthClient("cli")), self.ask, lambda: self.now, self.sleep)

    async def ask(self, request: Request) -> Fetched:
        self.asked.append(request)
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, FetchFailed):
            raise said
        return said

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


def form(request: Request) -> dict[str, list[str]]:
    return parse_qs(request.body.decode())


async def test_a_code_is_asked_for_in_the_name_of_the_client_and_shown_as_it_came() -> None:
    given: dict[str, Any] = {
        "device_code": "secret-of-the-device", "user_code": "ABCD-EFGH", "verification_uri": "https://idp.test/d",
        "verification_uri_complete": "https://idp.test/d?c=ABCD-EFGH", "expires_in": 1800, "interval": 7,
    }  # fmt: skip
    provider = Provider(answer(given))
    code = await provider.login.begin(CODES, {"scope": "openid a b", "resource": "urn:gw"})

    assert code == DeviceCode(
        "secret-of-the-device", "ABCD-EFGH", "https://idp.test/d", given["verification_uri_complete"], 1800, 7
    )
    assert "secret" not in repr(code)
    assert provider.asked[0].url == CODES
    assert form(provider.asked[0]) == {"client_id": ["cli"], "scope": ["openid a b"], "resource": ["urn:gw"]}


async def test_where_the_provider_names_no_interval_it_is_asked_each_five_seconds() -> None:
    """RFC 8628 section 3.2."""
    given = {"device_code": "d", "user_code": "u", "verification_uri": "https://idp.test/d", "expires_in": 600}
    assert (await Provider(answer(given)).login.begin(CODES, {})).interval == 5


@pytest.mark.parametrize("said", [
    answer({}), answer([]), answer(b"<html>"), answer({"device_code": "d", "user_code": "u", "verification_uri": "v"}),
    answer({"device_code": "d", "user_code": "", "verification_uri": "v", "expires_in": 1}),
    answer({"device_code": "d", "user_code": "u", "verification_uri": "v", "expires_in": True}),
    answer({"device_code": "d", "user_code": "u", "verification_uri": "v", "expires_in": -1}),
    answer({"device_code": 1, "user_code": "u", "verification_uri": "v", "expires_in": 1}), answer(b"", 404),
])  # fmt: skip
async def test_an_answer_without_a_code_to_show_is_no_login(said: Fetched) -> None:
    with pytest.raises(NotLoggedIn, match="the provider gave no code"):
        await Provider(said).login.begin(CODES, {})


async def test_a_provider_that_does_not_know_the_client_is_quoted() -> None:
    said = error("invalid_client", error_description="client is \x1b[31mnot\n registered")
    with pytest.raises(NotLoggedIn) as caught:
        await Provider(said).login.begin(CODES, {})
    assert str(caught.value) == "the provider says: invalid_client (client is ?[31mnot? registered)"


async def test_the_token_is_asked_for_until_somebody_has_logged_in() -> None:
    provider = Provider(PENDING, PENDING, answer(TOKEN))
    assert await provider.login.token(TOKENS, CODE, {"resource": "urn:gw"}) == "t0"
    assert provider.waited == [5, 5, 5]
    assert {request.url for request in provider.asked} == {TOKENS}
    assert form(provider.asked[-1]) == {
        "grant_type": ["urn:ietf:params:oauth:grant-type:device_code"],
        "device_code": ["secret-of-the-device"],
        "client_id": ["cli"],
        "resource": ["urn:gw"],
    }
    assert "secret" not in repr(provider.asked)


async def test_a_provider_that_is_asked_too_often_is_asked_more_slowly_from_then_on() -> None:
    """RFC 8628 section 3.5: five seconds more, for this and all later questions."""
    provider = Provider(PENDING, error("slow_down"), PENDING, error("slow_down"), answer(TOKEN))
    await provider.login.token(TOKENS, CODE, {})
    assert provider.waited == [5, 5, 10, 10, 15]


async def test_a_provider_that_names_no_time_at_all_is_not_asked_without_a_pause() -> None:
    provider = Provider(PENDING, answer(TOKEN))
    await provider.login.token(TOKENS, replace(CODE, interval=0.001), {})
    assert provider.waited == [1, 1]


@pytest.mark.parametrize("said", [FetchFailed("no complete answer in time"), answer(b"Bad gateway", 502)])
async def test_a_provider_that_is_away_for_a_while_is_asked_less_and_less_often(said: Said) -> None:
    provider = Provider(*[said] * 6, answer(TOKEN))
    assert await provider.login.token(TOKENS, CODE, {}) == "t0"
    assert provider.waited == [5, 10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize(("said", "words"), [
    (error("access_denied"), "the login was declined"),
    (error("expired_token"), "the code has expired"),
    (error("invalid_grant", error_description="no such code"), r"the provider says: invalid_grant \(no such code\)"),
    (answer({"token_type": "Bearer"}), "the provider gave no token: the answer holds no access token"),
    (answer({"access_token": ""}), "the provider gave no token"),
    (answer({"access_token": ["t"]}), "the provider gave no token"),
    (answer(b"<html>", 400), "the provider gave no token: status 400"),
])  # fmt: skip
async def test_what_no_waiting_would_change_ends_the_login(said: Fetched, words: str) -> None:
    provider = Provider(PENDING, said)
    with pytest.raises(NotLoggedIn, match=words):
        await provider.login.token(TOKENS, CODE, {})
    assert len(provider.asked) == 2


async def test_a_code_that_nobody_types_is_given_up_when_it_expires() -> None:
    provider = Provider(PENDING)
    with pytest.raises(NotLoggedIn, match="the code has expired"):
        await provider.login.token(TOKENS, CODE, {})
    assert provider.now < CODE.lifetime <= provider.now + 5


STEPS = st.sampled_from([PENDING, error("slow_down"), FetchFailed("away"), answer(b"", 503)])


@given(st.lists(STEPS, min_size=1, max_size=30), st.floats(1, 1e12), st.floats(0.01, 1e12))
async def test_no_provider_makes_anybody_wait_for_ever(said: Sequence[Said], lifetime: float, interval: float) -> None:
    provider = Provider(*said, error("slow_down"))
    code = DeviceCode("d", "u", "v", None, lifetime, interval)
    with pytest.raises(NotLoggedIn):
        await provider.login.token(TOKENS, code, {})
    assert provider.now <= LONGEST


@given(st.text())
def test_what_a_provider_says_moves_no_cursor(text: str) -> None:
    assert plain(text).isprintable()
    assert len(plain(text)) <= 300

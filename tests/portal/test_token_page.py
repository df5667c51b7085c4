"""`POST /auth/token`: what somebody gets for a name and a password, and what they are told when they do not."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable

import pytest

from gateway.errors import IdentityUnavailable, LoginThrottled, Refusal
from gateway.identity.apikeys.keytext import new_key
from gateway.identity.signatures.jwk import signing_keys
from gateway.identity.signatures.jwt import check_signature, parse
from gateway.settings import ALGORITHMS
from tests.portal.serving import URL, Page, People, Relay, Site, served

PASSWORD = "open sesame"


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


GOOD = basic("alice", PASSWORD)


def office() -> People:
    return People("office", {"alice": PASSWORD})


async def asked(site: Site, authorization: str | None = GOOD, form: bytes = b"") -> Page:
    fields = [("Content-Type", "application/x-www-form-urlencoded")] if form else []
    if authorization is not None:
        fields.append(("Authorization", authorization))
    async with served(site) as relay:
        return await relay.ask("POST", "/auth/token", form, also=fields)


def refused(page: Page) -> tuple[int, str]:
    """Status and code of a refusal. Fails if a client could not read it as OAuth's."""
    assert page.fields["cache-control"] == "no-store"
    assert page.fields["content-type"].startswith("application/json")
    assert set(page.json()) == {"error", "error_description"}
    return page.status, page.json()["error"]


async def test_a_name_and_a_password_give_a_token_that_the_published_keys_prove() -> None:
    async with served(Site([office()])) as relay:
        answer = await relay.ask("POST", "/auth/token", Authorization=GOOD)
        published = await relay.ask("GET", "/.well-known/jwks.json")

    assert answer.status == 200
    assert set(answer.json()) == {"access_token", "token_type", "expires_in"}
    assert (answer.json()["token_type"], answer.json()["expires_in"]) == ("Bearer", 3600)
    assert answer.fields["cache-control"] == "no-store"
    token = parse(answer.json()["access_token"])
    assert {name: token.claims[name] for name in ("iss", "aud", "sub", "idp", "groups")} == {
        "iss": URL, "aud": URL, "sub": "alice", "idp": "ldap:office", "groups": ["of-office"]
    }  # fmt: skip
    keys, left_out = signing_keys(published.json(), ALGORITHMS)
    assert left_out == ()
    assert check_signature(token, [key for key in keys if key.kid == token.kid])


async def test_the_key_set_may_be_kept_for_a_while_and_tokens_never() -> None:
    async with served(Site([office()])) as relay:
        assert (await relay.ask("GET", "/.well-known/jwks.json")).fields["cache-control"] == "public, max-age=300"
        assert (await relay.ask("GET", "/auth/nothing")).fields["cache-control"] == "no-store"


async def test_what_the_form_says_changes_nothing() -> None:
    """Clients that can only do the password grant send it along; who asks is in the Basic credential alone."""
    form = b"grant_type=password&username=bob&password=x&scope=admin"
    answer = await asked(Site([office()]), form=form)
    assert answer.status == 200
    assert parse(answer.json()["access_token"]).claims["sub"] == "alice"


async def test_a_password_in_the_form_alone_is_not_looked_at() -> None:
    people = office()
    form = b"grant_type=password&username=alice&password=open+sesame"
    answer = await asked(Site([people]), None, form)
    assert refused(answer) == (401, "invalid_client")
    assert "HTTP Basic" in answer.json()["error_description"]
    assert people.asked == []


@pytest.mark.parametrize("authorization", [
    None, "", "Bearer abc", "Basic", "Basic !", basic("alice", PASSWORD)[:-4] + "é", basic("", PASSWORD), "Basic YQ==",
    basic("alice", PASSWORD) + ", Basic YTpi", basic("alice", "a\nb"),
])  # fmt: skip
async def test_what_is_no_name_and_password_is_asked_for_them_and_no_directory_is(authorization: str | None) -> None:
    people = office()
    answer = await asked(Site([people]), authorization)
    assert refused(answer) == (401, "invalid_client")
    assert answer.fields["www-authenticate"] == 'Basic realm="nim-gateway", charset="UTF-8"'
    assert people.asked == []


async def test_of_two_credentials_neither_is_picked() -> None:
    people = office()
    async with served(Site([people])) as relay:
        for first, second in ((GOOD, GOOD), (GOOD, basic("bob", "x")), (basic("bob", "x"), GOOD)):
            answer = await relay.ask("POST", "/auth/token", also=(("Authorization", second),), Authorization=first)
            assert refused(answer) == (401, "invalid_client")
    assert people.asked == []


async def test_an_api_key_is_shown_to_no_directory() -> None:
    people = office()
    answer = await asked(Site([people]), basic("alice", new_key("svcbatch")))
    assert refused(answer) == (401, "invalid_client")
    assert people.asked == []


async def test_a_wrong_password_and_an_unknown_name_look_alike() -> None:
    wrong, unknown = [await asked(Site([office()]), basic(*pair)) for pair in (("alice", "x"), ("nobody", "x"))]
    assert refused(wrong) == refused(unknown) == (401, "invalid_client")
    assert wrong.body == unknown.body
    assert wrong.fields["www-authenticate"].startswith("Basic ")


async def test_a_caller_who_failed_too_often_is_told_how_long_to_wait() -> None:
    throttling = People("office", {}, lambda: LoginThrottled(retry_after=17))
    answer = await asked(Site([throttling]))
    assert refused(answer) == (429, "slow_down")
    assert answer.fields["retry-after"] == "17"
    assert "www-authenticate" not in answer.fields  # a browser would ask for another password


async def test_a_directory_that_cannot_be_asked_is_no_wrong_password() -> None:
    away = People("office", {}, lambda: IdentityUnavailable(retry_after=5))
    answer = await asked(Site([away]))
    assert refused(answer) == (503, "temporarily_unavailable")
    assert answer.fields["retry-after"] == "5"


async def test_failed_logins_are_counted_by_the_address_that_the_relay_saw() -> None:
    people = office()
    await asked(Site([people]))
    assert people.asked == [("alice", "10.1.2.3")]


async def test_a_person_of_any_directory_gets_a_token_of_theirs() -> None:
    lab = People("lab", {"bob": "b"})
    for authorization, provider in ((GOOD, "ldap:office"), (basic("bob", "b"), "ldap:lab")):
        answer = await asked(Site([office(), lab]), authorization)
        assert parse(answer.json()["access_token"]).claims["idp"] == provider


async def test_a_password_goes_no_further_than_to_the_directory_that_knows_the_name() -> None:
    first, second = office(), People("lab", {"alice": "another", "bob": "b"})
    answer = await asked(Site([first, second]), basic("alice", "another"))
    assert refused(answer) == (401, "invalid_client")
    assert second.asked == []


@pytest.mark.parametrize(("raises", "status"), [
    (lambda: IdentityUnavailable(retry_after=5), 503),
    (lambda: LoginThrottled(retry_after=5), 429),
])  # fmt: skip
async def test_a_directory_that_might_know_the_name_and_was_not_asked_ends_the_search(
    raises: Callable[[], Refusal], status: int
) -> None:
    behind = People("lab", {"bob": "b"})
    answer = await asked(Site([People("office", {}, raises), behind]), basic("bob", "b"))
    assert answer.status == status
    assert behind.asked == []
    assert (await asked(Site([behind, People("office", {}, raises)]), basic("bob", "b"))).status == 200


async def test_without_a_directory_no_password_is_right() -> None:
    assert refused(await asked(Site([]))) == (401, "invalid_client")


async def test_somebody_in_too_many_groups_is_told_so() -> None:
    people = office()
    people.groups = frozenset(f"group-{number:05}" for number in range(2000))
    answer = await asked(Site([people]))
    assert refused(answer) == (403, "access_denied")
    assert "too many groups" in answer.json()["error_description"]


async def test_without_a_key_there_is_no_page_about_tokens() -> None:
    async with served(Site([office()], mints=False)) as relay:
        for method, path in (("POST", "/auth/token"), ("GET", "/.well-known/jwks.json")):
            assert refused(await relay.ask(method, path, Authorization=GOOD)) == (404, "invalid_request")


async def test_a_token_is_not_to_be_had_by_a_link() -> None:
    async with served(Site([office()])) as relay:
        answer = await relay.ask("GET", "/auth/token", Authorization=GOOD)
    assert refused(answer) == (405, "invalid_request")
    assert answer.fields["allow"] == "POST"


async def test_each_token_and_each_refusal_is_told_in_the_log_without_its_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "gateway")
    async with served(Site([office()])) as relay:
        token = (await relay.ask("POST", "/auth/token", Authorization=GOOD)).json()["access_token"]
        await relay.ask("POST", "/auth/token", Authorization=basic("typed-password", "wrong"))
        await relay.ask("POST", "/auth/token")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("gateway")]
    request_id = "0" * 31 + "7"
    jti = parse(token).claims["jti"]
    assert lines == [
        f"token.issued subject='alice' provider=office id={jti} request_id={request_id}",
        f"token.refused reason='bad_password' peer=10.1.2.3 request_id={request_id}",
        f"token.refused reason='no_credential' peer=10.1.2.3 request_id={request_id}",
    ]
    assert not any(secret in line for line in lines for secret in (PASSWORD, token, "typed-password", "wrong"))


async def test_every_page_says_that_nothing_is_to_be_guessed_kept_or_told(relay: Relay) -> None:
    for method, path in (("POST", "/auth/token"), ("GET", "/auth/token"), ("GET", "/nowhere")):
        fields = (await relay.ask(method, path)).fields
        assert fields["x-content-type-options"] == "nosniff"
        assert fields["referrer-policy"] == "no-referrer"
        assert "server" not in fields

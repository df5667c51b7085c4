"""Who comes back from a provider with a browser: what is asked of the provider, and which of its answers count."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from gateway.call import Principal
from gateway.errors import GroupsUnknown, IdentityUnavailable, Refusal
from gateway.fetch import Fetch
from gateway.identity.browser import codeflow
from gateway.identity.browser.codeflow import COOLING, FRESH, UNDERWAY_LIMIT, Around, CodeFlow
from gateway.identity.contracts import Begun
from gateway.identity.groupsource import GroupSource
from gateway.identity.provider.keys import KeySet
from gateway.identity.provider.oauth import Client
from gateway.identity.refused import BadLogin, NotLoggedIn, Result
from gateway.settings import Claims, Login, OidcIssuer
from tests.identity.code_provider import BACK, CLIENT, SECRET, CodeProvider, text
from tests.identity.conftest import EPOCH, Clock, until
from tests.identity.signers import Json, hmac_token, part, rsa_signer


class Staff:
    """A directory that knows groups, or fails as told."""

    def __init__(self, groups: Mapping[str, frozenset[str]], fails: Refusal | None = None) -> None:
        self.groups = groups
        self.fails = fails

    async def groups_of(self, subject: str) -> frozenset[str]:
        if self.fails is not None:
            raise self.fails
        return self.groups[subject]

    def groups_hold(self, subject: str) -> float:
        return 60.0


class Bench:
    """One provider and the gateway's side of a login with it."""

    def __init__(self, provider: CodeProvider, fetch: Fetch) -> None:
        self.provider = provider
        self.fetch = fetch
        self.wall, self.steady = Clock(EPOCH), Clock(1000.0)
        self.counts: Counter[str] = Counter()

    async def build(self, groups: GroupSource | None = None, login: Login | None = None, **settings: Any) -> CodeFlow:
        self.login = login or Login(CLIENT, client_secret=SECRET, scopes=("openid", "groups"))
        issuer = OidcIssuer("corp", self.provider.issuer, ("gw",), login=self.login, **settings)
        self.keys = KeySet(issuer, self.fetch, self.steady)
        await self.keys.refresh()
        self.provider.hits.clear()
        around = Around(self.fetch, self._count, groups=groups, now=self.wall, steady=self.steady)
        self.flow = CodeFlow(issuer, self.login, Client(self.login), self.keys, around)
        return self.flow

    async def begin(self) -> Begun:
        _, begun = await self.flow.begin(BACK)
        self.provider.says(begun)
        return begun

    async def finish(self, begun: Begun, **answer: str) -> Principal:
        return await self.flow.finish(begun, {"code": "c-1", "state": begun.state, **answer})

    async def refused(self, begun: Begun, **answer: str) -> NotLoggedIn:
        with pytest.raises(NotLoggedIn) as caught:
            await self.finish(begun, **answer)
        assert self.counts == {caught.value.reason.value: 1}
        return caught.value

    def _count(self, provider: str, result: str) -> None:
        assert provider == "corp"
        self.counts[result] += 1


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with CodeProvider(EPOCH) as provider, Fetch() as fetch:
        bench = Bench(provider, fetch)
        await bench.build()
        yield bench


async def test_the_request_binds_the_answer_to_this_login(bench: Bench) -> None:
    url, begun = await bench.flow.begin(BACK)
    sent = bench.provider.sent_to(url)
    digest = hashlib.sha256(begun.verifier.encode()).digest()
    assert sent == {
        "tenant": "1",
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": BACK,
        "scope": "openid groups",
        "state": begun.state,
        "nonce": begun.nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    assert all(len(secret) >= 43 for secret in (begun.state, begun.nonce, begun.verifier))
    assert (await bench.flow.begin(BACK))[1].state != begun.state
    assert begun.verifier not in url
    assert begun.verifier not in repr(begun)


async def test_a_good_answer_says_who_it_is_and_the_code_was_asked_for_with_all_that_proves_us(bench: Bench) -> None:
    begun = await bench.begin()
    bench.provider.says(begun, groups=["ds", "ml"], azp=CLIENT, jti="of the ID token")
    principal = await bench.finish(begun)
    assert (principal.subject, principal.issuer, principal.provider) == ("alice", bench.provider.issuer, "corp")
    assert principal.groups == {"ds", "ml"}
    assert principal.expires == math.inf
    assert principal.credential is None  # an ID token is no credential for calls
    ((form, fields),) = bench.provider.redeemed
    assert form == {
        "grant_type": ["authorization_code"],
        "code": ["c-1"],
        "redirect_uri": [BACK],
        "code_verifier": [begun.verifier],
    }
    assert fields["Authorization"].startswith("Basic ")
    assert bench.counts == {"ok": 1}


async def test_a_client_without_a_secret_says_its_name(bench: Bench) -> None:
    await bench.build(login=Login(CLIENT))
    await bench.finish(await bench.begin())
    ((form, fields),) = bench.provider.redeemed
    assert form["client_id"] == [CLIENT]
    assert "Authorization" not in fields


Change = Callable[[Begun, Json], str]


def claims(**more: object) -> Change:
    return lambda _, good: rsa_signer("k1").sign({k: v for k, v in (good | more).items() if v is not ...})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (claims(nonce=...), Result.BAD_CLAIMS),
        (claims(nonce="another"), Result.BAD_CLAIMS),
        (claims(nonce=["n"]), Result.BAD_CLAIMS),
        (claims(nonce="\ud800"), Result.MALFORMED),
        (claims(iss="https://other.test"), Result.BAD_ISSUER),
        (claims(aud="gw"), Result.BAD_AUDIENCE),  # an access token for the gateway is no login
        (claims(aud=...), Result.BAD_AUDIENCE),
        (claims(aud=[CLIENT, "other"]), Result.BAD_AUDIENCE),
        (claims(aud=[CLIENT, "other"], azp="other"), Result.BAD_AUDIENCE),
        (claims(azp="other"), Result.BAD_AUDIENCE),
        (claims(exp=EPOCH - 61), Result.EXPIRED),
        (claims(exp=...), Result.BAD_CLAIMS),
        (claims(iat=EPOCH + 61), Result.NOT_YET_VALID),
        (claims(sub=...), Result.BAD_CLAIMS),
        (claims(typ="Bearer"), Result.WRONG_KIND),
        (claims(typ="Logout"), Result.WRONG_KIND),
        (claims(token_use="access"), Result.WRONG_KIND),
        (claims(cnf={"jkt": "A" * 43}), Result.WRONG_KIND),
        (claims(cnf={}), Result.BAD_CLAIMS),
        (claims(events={"http://schemas.openid.net/event/backchannel-logout": {}}), Result.WRONG_KIND),
        (lambda _, good: rsa_signer("k2").named("k1").sign(good), Result.BAD_SIGNATURE),
        (lambda _, good: rsa_signer("k2").sign(good), Result.UNKNOWN_KEY),
        (lambda _, good: hmac_token(SECRET.encode(), good), Result.BAD_ALGORITHM),
        (lambda _, good: f"{part({'alg': 'none'})}.{part(good)}.", Result.MALFORMED),
        (lambda _, __: "no token", Result.MALFORMED),
    ],
)
async def test_an_id_token_with_one_thing_wrong_logs_nobody_in(bench: Bench, change: Change, reason: Result) -> None:
    begun = await bench.begin()
    bench.provider.id_token = lambda good: change(begun, good)
    refused = await bench.refused(begun)
    assert refused.reason is reason
    assert refused.message.startswith("The provider's answer does not hold here: ")


@pytest.mark.parametrize("more", [{"typ": "ID"}, {"token_use": "id"}, {"aud": [CLIENT, "other"], "azp": CLIENT}])
async def test_what_says_that_it_is_an_id_token_for_us_logs_somebody_in(bench: Bench, more: Json) -> None:
    begun = await bench.begin()
    bench.provider.says(begun, **more)
    assert (await bench.finish(begun)).subject == "alice"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"state": "another"}, Result.MALFORMED),
        ({"state": ""}, Result.MALFORMED),
        ({"state": "é"}, Result.MALFORMED),
        ({"iss": "https://other.test"}, Result.BAD_ISSUER),
        ({"iss": ""}, Result.BAD_ISSUER),
        ({"iss": "https://other.test", "error": "access_denied"}, Result.BAD_ISSUER),
        ({"code": ""}, Result.MALFORMED),
        ({"error": "access_denied"}, Result.REFUSED_ACCOUNT),
        ({"error": "invalid_scope"}, Result.MALFORMED),
        ({"error": "<script>"}, Result.MALFORMED),
    ],
)
async def test_an_answer_that_is_not_the_one_to_this_login_costs_no_code(
    bench: Bench, answer: dict[str, str], reason: Result
) -> None:
    refused = await bench.refused(await bench.begin(), **answer)
    assert refused.reason is reason
    assert "<" not in refused.message
    assert bench.provider.hits["token"] == 0


async def test_a_provider_that_announces_to_name_itself_has_to(bench: Bench) -> None:
    """RFC 9207 section 2.4."""
    bench.provider.discovery["authorization_response_iss_parameter_supported"] = True
    begun = await bench.begin()
    await bench.refused(begun)
    bench.counts.clear()
    assert (await bench.finish(begun, iss=bench.provider.issuer)).subject == "alice"


async def test_a_code_that_is_not_taken_any_more_is_said_kindly(bench: Bench) -> None:
    begun = await bench.begin()
    bench.provider.answer = text(400, '{"error":"invalid_grant","error_description":"secret words"}')
    refused = await bench.refused(begun)
    assert refused.message == "This login was used already, or took too long. Begin again."


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, '{"error":"invalid_client"}'),
        (400, '{"error":"invalid_client"}'),
        (400, '{"error":"invalid_request"}'),
        (500, "oops"),
        (200, "not JSON"),
        (200, "[]"),
        (200, '{"access_token":"a"}'),
        (200, '{"id_token":1}'),
        (302, "{}"),
        (200, '{"id_token":"' + "x" * 2**21 + '"}'),
    ],
)
async def test_a_provider_that_gives_no_id_token_is_one_that_cannot_be_asked(
    bench: Bench, status: int, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = await bench.begin()
    bench.provider.answer = text(status, body)
    with pytest.raises(IdentityUnavailable):
        await bench.finish(begun)
    assert bench.counts == {"unavailable": 1}
    assert "identity.login.failed issuer=corp" in caplog.text
    for secret in (SECRET, begun.verifier, begun.state, "c-1", "secret words"):
        assert secret not in caplog.text


@pytest.mark.parametrize("error", ["temporarily_unavailable", "server_error"])
async def test_a_provider_that_says_that_it_cannot_at_the_moment_is_believed(bench: Bench, error: str) -> None:
    begun = await bench.begin()
    with pytest.raises(IdentityUnavailable):
        await bench.finish(begun, error=error)


async def test_groups_that_the_id_token_leaves_out_are_those_that_the_provider_says_of_the_person(bench: Bench) -> None:
    bench.provider.discovery["userinfo_endpoint"] = f"{bench.provider.issuer}/me"
    bench.provider.person = {"sub": "alice", "groups": ["ds"], "aud": "x", "exp": 0, "scope": "admin"}
    principal = await bench.finish(await bench.begin())
    assert (sorted(principal.groups), principal.expires, sorted(principal.scopes)) == (["ds"], math.inf, [])
    begun = await bench.begin()
    bench.provider.says(begun, groups=["ml"])
    assert (await bench.finish(begun)).groups == {"ml"}  # the token's own word goes first


async def test_a_subject_that_only_the_person_has_is_read_there(bench: Bench) -> None:
    await bench.build(claims=Claims(subject=("email",)))
    bench.provider.discovery["userinfo_endpoint"] = f"{bench.provider.issuer}/me"
    bench.provider.person = {"sub": "alice", "email": "alice@example.com", "email_verified": True}
    assert (await bench.finish(await bench.begin())).subject == "alice@example.com"
    bench.provider.person["email_verified"] = False
    bench.counts.clear()
    assert (await bench.refused(await bench.begin())).reason is Result.BAD_CLAIMS


async def test_what_is_said_of_somebody_else_is_not_believed(bench: Bench) -> None:
    """OpenID Connect Core 1.0 section 5.3.2."""
    bench.provider.discovery["userinfo_endpoint"] = f"{bench.provider.issuer}/me"
    bench.provider.person = {"sub": "bob", "groups": ["admins"]}
    assert (await bench.refused(await bench.begin())).reason is Result.BAD_CLAIMS


@pytest.mark.parametrize("status", [401, 500])
async def test_nobody_is_let_in_with_groups_that_could_not_be_asked_for(bench: Bench, status: int) -> None:
    """A rule that denies a group would not see it."""
    bench.provider.discovery["userinfo_endpoint"] = f"{bench.provider.issuer}/me"
    bench.provider.person, bench.provider.person_status = {"sub": "alice"}, status
    begun = await bench.begin()
    with pytest.raises(IdentityUnavailable):
        await bench.finish(begun)


@pytest.mark.parametrize("said", [
    '{"sub":"bob","sub":"alice","groups":["admins"]}', '{"sub":"alice","groups":["admins"],"groups":[]}', "[]", "{"
])  # fmt: skip
async def test_what_can_be_read_in_two_ways_says_nothing_of_the_person(bench: Bench, said: str) -> None:
    bench.provider.discovery["userinfo_endpoint"] = f"{bench.provider.issuer}/me"
    bench.provider.person = said
    begun = await bench.begin()
    with pytest.raises(IdentityUnavailable):
        await bench.finish(begun)


async def test_groups_come_from_the_directory_where_the_settings_say_so(bench: Bench) -> None:
    await bench.build(groups=Staff({"alice": frozenset({"from-the-directory"})}), groups_from="staff")
    begun = await bench.begin()
    bench.provider.says(begun, groups=["of-the-token"], hasgroups=True)
    principal = await bench.finish(begun)
    assert principal.groups == {"from-the-directory"}
    assert principal.groups_known
    assert bench.provider.hits["me"] == 0


async def test_an_account_that_the_directory_has_locked_is_not_logged_in(bench: Bench) -> None:
    await bench.build(groups=Staff({}, BadLogin(Result.REFUSED_ACCOUNT)))
    refused = await bench.refused(await bench.begin())
    assert refused.message == "Your account may not be used. Ask your administrator."


async def test_somebody_in_more_groups_than_the_directory_tells_is_logged_in_with_groups_unknown(bench: Bench) -> None:
    await bench.build(groups=Staff({}, GroupsUnknown()), groups_from="staff")
    begun = await bench.begin()
    bench.provider.says(begun, groups=["of-the-token"])
    principal = await bench.finish(begun)
    assert (principal.groups, principal.groups_known) == (frozenset(), False)


async def test_nothing_that_the_provider_names_over_plain_http_is_used(bench: Bench) -> None:
    for member in ("authorization_endpoint", "token_endpoint"):
        bench.provider.discovery[member] = "http://elsewhere.test/"
    with pytest.raises(IdentityUnavailable):
        await bench.flow.begin(BACK)


async def test_a_provider_that_is_away_is_asked_by_one_login_in_two_seconds(bench: Bench) -> None:
    await bench.provider.stop()
    for _ in range(100):
        with pytest.raises(IdentityUnavailable) as caught:
            await bench.flow.begin(BACK)
        assert caught.value.retry_after
    await bench.provider.start()
    with pytest.raises(IdentityUnavailable):
        await bench.flow.begin(BACK)
    bench.steady.at += COOLING
    await bench.begin()


async def test_who_waits_for_a_provider_that_says_nothing_waits_as_long_as_one_question_takes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codeflow, "PATIENCE", 0.2)
    await bench.build()
    bench.provider.silent = asyncio.Event()
    answers = await asyncio.gather(*(bench.flow.begin(BACK) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(answer, IdentityUnavailable) for answer in answers)
    assert bench.provider.hits["discovery"] == 1
    assert bench.counts == {"unavailable": 20}


async def test_a_login_that_takes_too_long_in_all_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = await bench.begin()
    bench.provider.hold = asyncio.Event()
    monkeypatch.setattr(codeflow, "LONGEST", 0.1)
    with pytest.raises(IdentityUnavailable):
        await bench.finish(begun)
    assert bench.counts == {"unavailable": 1}


async def test_however_many_begin_a_login_the_provider_is_asked_about_itself_now_and_then(bench: Bench) -> None:
    await asyncio.gather(*(bench.flow.begin(BACK) for _ in range(50)))
    assert bench.provider.hits["discovery"] == 1
    bench.steady.at += FRESH
    await bench.flow.begin(BACK)
    assert bench.provider.hits["discovery"] == 2


async def test_answers_that_come_all_at_once_are_bounded(bench: Bench) -> None:
    begun = await bench.begin()
    bench.provider.hold = asyncio.Event()
    tasks = [asyncio.create_task(bench.finish(begun)) for _ in range(UNDERWAY_LIMIT)]
    await until(lambda: bench.provider.hits["token"] == UNDERWAY_LIMIT)
    with pytest.raises(IdentityUnavailable, match="cannot be asked"):
        await bench.finish(begun)
    bench.provider.hold.set()
    await asyncio.gather(*tasks)
    assert (await bench.finish(begun)).subject == "alice"


async def test_a_login_that_is_given_up_leaves_its_place(bench: Bench) -> None:
    begun = await bench.begin()
    bench.provider.hold = asyncio.Event()
    for _ in range(UNDERWAY_LIMIT + 1):
        bench.provider.hits.clear()
        task = asyncio.create_task(bench.finish(begun))
        await until(lambda: bench.provider.hits["token"] > 0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    bench.provider.hold.set()
    assert (await bench.finish(begun)).subject == "alice"


def test_settings_of_a_login_show_no_secret() -> None:
    assert SECRET not in repr(Login(CLIENT, client_secret=SECRET))

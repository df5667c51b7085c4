"""Tokens that their provider is asked about: what it has to say, how long it counts, what happens when it is away."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.call import ClientCertificate, Principal
from gateway.drive import Drive
from gateway.errors import IdentityUnavailable, Unidentified
from gateway.fetch import Fetch
from gateway.identity.apikeys.keytext import new_id, new_key
from gateway.identity.provider.introspection import AT_ONCE, Introspector
from gateway.identity.refused import BadToken, Result
from gateway.identity.tokens.active import ActiveBearer, Refusals
from gateway.identity.tokens.identity import BearerIdentity
from gateway.settings import Claims, Introspection, OidcIssuer
from tests.identity.conftest import EPOCH, Bench, Start, bearing, call_with, until
from tests.identity.proofs import HOST, KEYS, Prover, thumb
from tests.identity.provider import ANSWERS
from tests.identity.signers import Json, rsa_signer

OPAQUE = "opaque-token_1"


class Asking(Bench):
    """A bench whose provider is asked about tokens."""

    tasks: set[asyncio.Task[None]]
    asked: Introspector

    async def ask(self, how: str = "introspect", *, patience: float = 4.0, **asking: Any) -> None:
        self.rebuild(verify=how, introspection=replace(Introspection("gateway", client_secret="s3"), **asking))
        await self.keys.refresh()
        asked = Introspector(self.settings, None, self.fetch, self.spawn, self.steady, patience=patience)
        self.asked = asked
        signed = self.issuer if how == "both" else None
        self.active = ActiveBearer(self.settings, asked, self.wall, self.steady, signed=signed)
        opaque = self.active if how == "introspect" else None
        self.identity = BearerIdentity([self.active], self.wall, self.count, possession=self.possession, opaque=opaque)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def says(self, token: str = OPAQUE, **more: object) -> str:
        """The provider knows this token as active from now on; a value of `...` leaves a name out."""
        self.provider.active[token] = self.claims(**more)
        return token

    @property
    def questions(self) -> int:
        return len(self.provider.asked)


@pytest.fixture
async def asking(bench: Bench) -> AsyncIterator[Asking]:
    made = Asking(bench.provider, bench.fetch)
    made.tasks = set()
    await made.ask()
    yield made
    for task in tuple(made.tasks):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def unavailable(asking: Asking, token: str = OPAQUE) -> str:
    with pytest.raises(IdentityUnavailable) as caught:
        await asking.identify(token)
    assert caught.value.status == 503
    assert caught.value.retry_after == 5
    assert token not in caught.value.detail
    return caught.value.detail


# What it says.


async def test_an_opaque_token_is_whose_its_provider_says(asking: Asking) -> None:
    asking.says(scope="infer models", client_id="app", jti="j1", token_type="Bearer")
    found = await asking.identify(OPAQUE)
    assert (found.subject, found.groups, found.scopes) == ("alice", frozenset({"ds"}), frozenset({"infer", "models"}))
    assert (found.client, found.credential, found.provider, found.issuer) == (
        "app",
        "j1",
        "corp",
        asking.provider.issuer,
    )
    assert found.expires == EPOCH + 3600
    (question,) = asking.provider.asked
    assert question["token"] == OPAQUE
    assert question["token_type_hint"] == "access_token"
    assert question["authorization"] == "Basic " + base64.b64encode(b"gateway:s3").decode()


async def test_a_client_that_got_a_token_for_itself_is_its_subject(asking: Asking) -> None:
    """As in signed tokens; but not where somebody else is named in whatever way, nor by a name that is none."""
    assert (await asking.identify(asking.says("a", sub=..., client_id="batch"))).subject == "batch"
    for says in ({"username": "alice"}, {"sub": None}, {"client_id": 7}, {"client_id": ""}):
        token = asking.says(f"token-{says}"[:20].encode().hex(), **({"sub": ..., "client_id": "batch"} | says))
        assert await asking.refused(token) == "bad_claims"


async def test_claims_are_read_as_those_of_signed_tokens_are(asking: Asking) -> None:
    asking.rebuild(claims=Claims(("username",), ("realm", "roles")), group_prefix="kc:", groups_allowed=("kc:*",))
    await asking.ask()
    asking.says(sub=..., username="al", realm={"roles": ["ds", 7]})
    found = await asking.identify(OPAQUE)
    assert (found.subject, found.groups) == ("al", frozenset({"kc:ds"}))


async def test_a_token_that_is_not_active_is_refused_and_not_asked_about_again_at_once(asking: Asking) -> None:
    for _ in range(3):
        assert await asking.refused(OPAQUE) == "inactive"
    assert asking.questions == 1
    asking.steady.at += 9.9
    await asking.refused(OPAQUE)
    assert asking.questions == 1
    asking.steady.at += 0.1
    asking.says()
    assert (await asking.identify(OPAQUE)).subject == "alice"


REFUSED: dict[str, tuple[Json, Result]] = {
    "another issuer": ({"iss": "https://evil.test"}, Result.BAD_ISSUER),
    "an issuer that is none": ({"iss": None}, Result.BAD_ISSUER),
    "for another": ({"aud": "elsewhere"}, Result.BAD_AUDIENCE),
    "for others": ({"aud": ["a", "b"]}, Result.BAD_AUDIENCE),
    "for nobody": ({"aud": ...}, Result.BAD_AUDIENCE),
    "for an odd one": ({"aud": {"gw": 1}}, Result.BAD_AUDIENCE),
    "expired": ({"exp": EPOCH - 61}, Result.EXPIRED),
    "exp as text": ({"exp": "9999999999"}, Result.BAD_CLAIMS),
    "exp null": ({"exp": None}, Result.BAD_CLAIMS),
    "not yet": ({"nbf": EPOCH + 61}, Result.NOT_YET_VALID),
    "from the future": ({"iat": EPOCH + 61}, Result.NOT_YET_VALID),
    "a refresh token": ({"token_type": "refresh_token"}, Result.WRONG_KIND),
    "a token of another type": ({"token_type": "mac"}, Result.WRONG_KIND),
    "an odd type": ({"token_type": ["Bearer"]}, Result.WRONG_KIND),
    "Keycloak refresh token": ({"typ": "Refresh"}, Result.WRONG_KIND),
    "Hydra refresh token": ({"token_use": "refresh_token"}, Result.WRONG_KIND),
    "an odd use": ({"token_use": ["access"]}, Result.WRONG_KIND),
    "no subject": ({"sub": ...}, Result.BAD_CLAIMS),
    "an odd subject": ({"sub": "a\nb"}, Result.BAD_CLAIMS),
    "bound in an unknown way": ({"cnf": {"kid": "x"}}, Result.WRONG_KIND),
    "bound to nothing": ({"cnf": {}}, Result.BAD_CLAIMS),
    "DPoP and bound to nothing": ({"token_type": "DPoP"}, Result.BAD_CLAIMS),
    "bound to a key": ({"cnf": {"jkt": "0" * 43}, "token_type": "DPoP"}, Result.NO_PROOF),
    "bound to a certificate": ({"cnf": {"x5t#S256": "0" * 43}}, Result.NO_PROOF),
}  # fmt: skip


@pytest.mark.parametrize("how", ["introspect", "both"])
@pytest.mark.parametrize("name", REFUSED)
async def test_an_active_token_that_is_not_for_here_is_refused(asking: Asking, name: str, how: str) -> None:
    """And asked about once, however often it comes."""
    says, result = REFUSED[name]
    await asking.ask(how)
    token = asking.token()
    asking.says(token, **says)
    if how == "both" and ... in says.values():
        return  # the signed token says it
    for _ in range(3):
        assert await asking.refused(token) == result.value
    assert asking.questions == 1
    assert not asking.counts["corp", "ok"]


async def test_the_provider_may_leave_out_what_it_likes_but_the_audience(asking: Asking) -> None:
    """RFC 7662 section 2.2. Without `exp` it vouches for as long as it is not asked again."""
    asking.says(iss=..., exp=..., iat=..., groups=...)
    found = await asking.identify(OPAQUE)
    assert (found.subject, found.groups, found.expires) == ("alice", frozenset(), EPOCH + 60)


async def test_a_bound_opaque_token_needs_its_proof(asking: Asking) -> None:
    signer = KEYS["ES256"]
    asking.says(cnf={"jkt": thumb(signer)}, token_type="DPoP")
    prover = Prover(signer, OPAQUE, EPOCH)

    def call(proof: str) -> Any:
        field = (b"authorization", b"DPoP " + OPAQUE.encode())
        return call_with((b"host", HOST.encode()), field, (b"dpop", proof.encode()))

    for _ in range(2):
        found = await asking.identity.identify(call(prover.proof()))
        assert found is not None
        with pytest.raises(BadToken):
            await asking.identity.identify(call(prover.proof(ath="x")))
    assert asking.questions == 1


async def test_signed_tokens_of_a_provider_that_is_asked_are_sent_to_it_alone(asking: Asking) -> None:
    token = asking.says(asking.token())
    assert (await asking.identify(token)).subject == "alice"
    foreign = asking.token(iss="https://other.test")
    assert await asking.refused(foreign) == "bad_issuer"
    assert [one["token"] for one in asking.provider.asked] == [token]


@pytest.mark.parametrize("scheme", ["jkt", "x5t#S256"])
async def test_what_a_signed_token_says_it_is_bound_to_holds_where_the_answer_does_not_say(
    asking: Asking, scheme: str
) -> None:
    """RFC 7662 section 2.2 leaves `cnf` to the provider: silence makes no bound token a plain one."""
    mine = {scheme: thumb(KEYS["ES256"])}
    bound = asking.says(asking.token(cnf=mine))
    for _ in range(2):
        assert await asking.refused(bound) == "no_proof"
    agreed = asking.says(asking.token(jti="agreed", cnf=mine), cnf=mine)
    assert await asking.refused(agreed) == "no_proof"
    torn = asking.says(asking.token(jti="torn", cnf=mine), cnf={scheme: thumb(KEYS["ES384"])})
    assert await asking.refused(torn) == "bad_claims"
    assert not asking.counts["corp", "ok"]


async def test_a_signed_token_that_is_bound_in_an_odd_way_is_refused_unasked(asking: Asking) -> None:
    assert await asking.refused(asking.says(asking.token(cnf={}))) == "bad_claims"
    assert await asking.refused(asking.says(asking.token(cnf={"kid": "x"}))) == "wrong_kind"
    assert asking.questions == 0


async def test_a_signature_alone_proves_nothing_where_the_provider_is_to_be_asked(asking: Asking) -> None:
    assert await asking.refused(asking.token()) == "inactive"


@pytest.mark.parametrize("token", ["a.b", "a.b.c.d.e", "a" * 200, "ya29.a0Af-x_y~z", "1/2+3="])
async def test_what_has_no_three_parts_is_opaque(asking: Asking, token: str) -> None:
    assert (await asking.identify(asking.says(token))).subject == "alice"


async def test_three_parts_are_a_signed_token_or_nothing(asking: Asking) -> None:
    """It could be another provider's: nobody is shown it."""
    for token in ("a.b.c", "..", "x.y.z"):
        assert await asking.refused(asking.says(token)) == "malformed"
    assert asking.questions == 0


@pytest.mark.parametrize("scheme", ["Bearer", "DPoP", "bearer", "dpop"])
async def test_an_api_key_is_shown_to_no_provider(asking: Asking, scheme: str) -> None:
    """Whether keys are taken here or not, and under whichever scheme."""
    for key in (new_key(new_id()), "nimgw_half", "nimgw_a.b.c"):
        with pytest.raises(BadToken) as caught:
            await asking.identity.identify(call_with((b"authorization", f"{scheme} {key}".encode())))
        assert caught.value.detail == "wrong_kind"
    assert asking.questions == 0


async def test_where_nobody_is_to_be_asked_about_opaque_tokens_nobody_is(asking: Asking) -> None:
    await asking.ask("both")
    assert await asking.refused(asking.says()) == "malformed"
    assert asking.questions == 0


# Both: signature and provider.


async def test_both_have_to_agree(asking: Asking) -> None:
    await asking.ask("both")
    token = asking.says(asking.token(groups=["ds", "ml"]), groups=["other"])
    found = await asking.identify(token)
    assert (found.subject, found.groups) == ("alice", frozenset({"ds", "ml"}))
    assert await asking.refused(asking.token(jti="x")) == "inactive"
    spoilt = asking.says(token[:-8] + "AAAAAAAA")
    assert await asking.refused(spoilt) in {"bad_signature", "malformed"}
    late = asking.says(asking.token(exp=EPOCH - 61))
    assert await asking.refused(late) == "expired"
    other = asking.says(asking.token(jti="y"), sub="bob")
    assert await asking.refused(other) == "bad_claims"
    assert asking.questions == 3


async def test_a_bare_yes_is_enough_beside_a_signature(asking: Asking) -> None:
    await asking.ask("both")
    token = asking.token()
    asking.provider.active[token] = {}
    found = await asking.identify(token)
    assert (found.subject, found.expires) == ("alice", EPOCH + 3600)


async def test_a_binding_that_either_knows_of_holds(asking: Asking) -> None:
    await asking.ask("both")
    mine, other = ({"x5t#S256": ClientCertificate(der).thumbprint} for der in (b"mine", b"other"))
    told = asking.says(asking.token(jti="1"), cnf=mine)
    signed = asking.says(asking.token(jti="2", cnf=mine), cnf=...)
    for token in (told, signed):
        assert await asking.refused(token) == "no_proof"
    torn = asking.says(asking.token(jti="3", cnf=mine), cnf=other)
    assert await asking.refused(torn) == "bad_claims"


async def test_new_keys_end_what_both_vouched_for(asking: Asking) -> None:
    await asking.ask("both")
    token = asking.says(asking.token())
    await asking.keys.refresh()
    await asking.identify(token)
    asking.provider.keys = [rsa_signer("k2").jwk(kid="k1")]
    await asking.keys.refresh()
    assert await asking.refused(token) == "bad_signature"


# How long it counts.


@pytest.mark.parametrize("how", ["introspect", "both"])
async def test_what_is_active_is_asked_about_again_after_a_minute(asking: Asking, how: str) -> None:
    await asking.ask(how)
    token = asking.says(asking.token())
    await asking.identify(token)
    asking.wall.at += 59.9
    await asking.identify(token)
    assert asking.questions == 1
    asking.provider.active.clear()
    asking.wall.at += 0.1
    assert await asking.refused(token) == "inactive"


async def test_it_counts_no_longer_than_the_token_lives(asking: Asking) -> None:
    await asking.ask(positive=3600.0)
    asking.says(exp=EPOCH + 10)
    await asking.identify(OPAQUE)
    asking.wall.at += 10
    await asking.identify(OPAQUE)
    assert asking.questions == 2


def test_refusals_are_bounded_and_the_oldest_goes_first() -> None:
    refusals = Refusals(10.0, lambda: 0.0, limit=2)
    error = BadToken(Result.INACTIVE, "it is not active")
    for token in ("a", "b", "a", "c"):
        refusals.add(token, error)
    refusals.check("b")
    for token in ("a", "c"):
        with pytest.raises(BadToken):
            refusals.check(token)
    assert "'a'" not in repr(vars(refusals))


# One question at a time.


async def test_calls_with_the_same_token_ask_once(asking: Asking) -> None:
    asking.says()
    found = await asyncio.gather(*(asking.identify(OPAQUE) for _ in range(50)))
    assert {one.subject for one in found} == {"alice"}
    assert asking.questions == 1


async def test_a_caller_who_leaves_takes_nobody_along(asking: Asking) -> None:
    """The path of a call is no task: it is stepped, and stopped, by hand."""
    asking.says()
    seen: list[Principal | None] = []

    async def path() -> None:
        seen.append(await asking.identity.identify(bearing(OPAQUE)))

    leaving, staying = Drive(path()), Drive(path())
    leaving.step()
    staying.step()
    with pytest.raises(RuntimeError, match="left"):
        leaving.stop(RuntimeError("left"))
    await until(lambda: staying.done)
    assert [one.subject for one in seen if one] == ["alice"]
    assert asking.questions == 1


async def test_only_so_many_questions_are_under_way_at_once(asking: Asking) -> None:
    under_way, most = 0, 0
    gate = asyncio.Event()

    async def slow() -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await gate.wait()
        under_way -= 1
        return web.json_response({"active": True} | asking.claims())

    asking.provider.odd = slow
    waiting = asyncio.gather(*(asking.identify(f"token-{n}") for n in range(AT_ONCE * 2)))
    await until(lambda: under_way == AT_ONCE)
    gate.set()
    assert {one.subject for one in await waiting} == {"alice"}
    assert most == AT_ONCE


async def test_calls_beyond_the_bound_are_told_to_come_back(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.identity.provider.introspection.CALLS_LIMIT", 2)
    await asking.ask(patience=0.2)
    asking.provider.fail = "hang"
    waiting = asyncio.gather(*(asking.identify(OPAQUE) for _ in range(2)), return_exceptions=True)
    await until(lambda: asking.questions == 1)
    assert "too many calls wait" in await unavailable(asking)
    assert {type(one) for one in await waiting} == {IdentityUnavailable}
    monkeypatch.setattr("gateway.identity.provider.introspection.TOKENS_LIMIT", 0)
    assert "too many tokens" in await unavailable(asking)


# Outages.

ODD = [*(name for name in ANSWERS if "key" not in name), "refused"]


@pytest.mark.parametrize("name", ODD)
async def test_an_outage_is_503_and_remembered_for_nobody(asking: Asking, name: str) -> None:
    """Whatever it answers that is no answer: never 401, and never a pass."""
    asking.says()
    if name == "refused":
        await asking.provider.stop()
    else:
        asking.provider.odd = ANSWERS[name]
    await unavailable(asking)
    assert asking.counts == {("corp", "unavailable"): 1}
    if name == "refused":
        await asking.provider.start()
        asking.steady.at += 1
    asking.provider.odd = None
    assert (await asking.identify(OPAQUE)).subject == "alice"


async def test_whom_it_vouched_for_is_served_until_it_would_be_asked_again(asking: Asking) -> None:
    asking.says()
    await asking.identify(OPAQUE)
    await asking.provider.stop()
    asking.wall.at += 59
    await asking.identify(OPAQUE)
    asking.wall.at += 1
    await unavailable(asking)


async def test_a_provider_that_hangs_costs_a_call_the_limit_and_no_more(asking: Asking) -> None:
    await asking.ask(patience=0.05)
    asking.provider.fail = "hang"
    assert "no complete answer in time" in await unavailable(asking)


async def test_while_it_fails_one_question_at_a_time_finds_out_whether_it_is_back(asking: Asking) -> None:
    asking.says()
    asking.provider.odd = ANSWERS["500"]
    for _ in range(2):
        assert await asking.asked.try_out()
    gate = asyncio.Event()

    async def slow() -> web.Response:
        await gate.wait()
        return web.json_response({"active": True} | asking.claims())

    asking.provider.odd = slow
    probing = asyncio.create_task(asking.identify("token-3"))
    await until(lambda: asking.questions == 3)
    await unavailable(asking, "token-4")
    gate.set()
    await probing
    assert asking.questions == 3
    await asking.identify("token-4")


async def test_a_provider_that_does_not_take_the_gateway_is_complained_of_loudly(
    asking: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller cannot mend it: 503, not 401."""
    asking.provider.odd = lambda: web.json_response({"error": "invalid_client"}, status=401)
    for n in range(2):
        await unavailable(asking, f"secret-token-{n}")
        assert await asking.asked.try_out()
    (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert record.levelno == logging.ERROR
    assert "does not accept this client" in record.getMessage()
    assert "secret-token" not in caplog.text
    assert "s3" not in caplog.text


async def test_tokens_that_get_odd_answers_are_no_outage_for_others(
    asking: Asking, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever chooses tokens chooses which answers those get; a refusal of the gateway's client may be one of them."""
    monkeypatch.setattr("gateway.identity.provider.introspection.PAUSE", 0.01)
    start(asking.asked.run())
    asking.provider.refuses = lambda token: token.startswith("../")
    looked = asking.provider.hits["discovery"] + 1
    for n in range(20):
        await unavailable(asking, f"../../etc/passwd{n}")
    assert (await asking.identify(asking.says())).subject == "alice"
    await until(lambda: "identity.introspection.odd" in caplog.text)
    assert asking.active.standing().ready
    assert asking.active.standing().outage == 0
    assert asking.provider.hits["discovery"] == looked
    assert [one.levelno for one in caplog.records if "introspection" in one.getMessage()] == [logging.WARNING]


async def test_a_provider_that_was_away_is_found_back_though_nobody_asks(
    asking: Asking, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.provider.introspection.PAUSE", 0.01)
    start(asking.asked.run())
    asking.provider.odd = ANSWERS["500"]
    await unavailable(asking)
    await until(lambda: not asking.active.standing().ready)
    asking.provider.odd = None
    await until(lambda: asking.active.standing().ready)
    asked = asking.questions
    assert (await asking.identify(asking.says())).subject == "alice"
    assert asking.questions == asked + 1


async def test_tokens_that_are_answered_slowly_keep_nobody_from_seeing_that_the_provider_is_there(
    asking: Asking,
) -> None:
    """Those take all places for questions; looking needs none."""
    await asking.ask(patience=0.5)
    asking.provider.fail = "hang"
    waiting = asyncio.gather(*(unavailable(asking, f"slow-{n}") for n in range(AT_ONCE * 2)))
    await until(lambda: asking.questions == AT_ONCE)
    asking.provider.fail = ""
    assert await asking.asked.try_out() == ""
    await waiting


async def test_where_to_ask_is_asked_for_by_one_of_many_and_not_again_at_once(asking: Asking) -> None:
    asking.provider.discovery["issuer"] = "https://evil.test"
    before = asking.provider.hits["discovery"]
    await asyncio.gather(*(unavailable(asking, f"token-{n}") for n in range(50)))
    assert asking.provider.hits["discovery"] == before + 1
    del asking.provider.discovery["issuer"]
    asking.steady.at += 1
    assert (await asking.identify(asking.says())).subject == "alice"


async def test_an_endpoint_that_moved_is_found_again(asking: Asking) -> None:
    asking.says()
    asking.provider.discovery["introspection_endpoint"] = asking.provider.issuer + "/gone"
    await unavailable(asking)
    assert await asking.asked.try_out()
    del asking.provider.discovery["introspection_endpoint"]
    assert (await asking.identify(OPAQUE)).subject == "alice"
    hits = asking.provider.hits["discovery"]
    await asking.identify(asking.says("another"))
    assert asking.provider.hits["discovery"] == hits


async def test_an_endpoint_that_is_given_is_not_looked_up(asking: Asking) -> None:
    await asking.ask(endpoint=asking.provider.issuer + "/introspect")
    hits = asking.provider.hits["discovery"]
    await asking.identify(asking.says())
    assert asking.provider.hits["discovery"] == hits


@pytest.mark.parametrize(
    "odd", [{"introspection_endpoint": "http://idp.example.com/x"}, {"issuer": "https://evil.test"}]
)
async def test_a_token_is_never_sent_where_it_should_not_go(asking: Asking, odd: Json) -> None:
    asking.provider.discovery |= odd
    assert "not https" in (why := await unavailable(asking)) or "another issuer" in why
    assert asking.questions == 0


async def test_how_it_does_is_told(asking: Asking) -> None:
    asking.says()
    standing = asking.active.standing
    assert (standing().ready, standing().outage, standing().bound) == (True, 0, 60)
    await asking.identify(OPAQUE)
    await asking.provider.stop()
    for ready in (True, False):
        asking.steady.at += 10
        assert await asking.asked.try_out()
        assert standing().ready is ready
    assert (standing().provider, standing().outage) == ("corp", 20)
    await asking.provider.start()
    asking.steady.at += 1
    await asking.refused("nobody")
    assert (standing().ready, standing().outage) == (True, 0)


async def test_of_two_that_have_to_answer_the_worse_one_is_told(asking: Asking) -> None:
    await asking.ask("both")
    await asking.keys.refresh()
    asking.steady.at += 100
    asking.provider.fail = "500"
    await asking.keys.refresh()
    told = asking.active.standing()
    assert (told.ready, told.outage, told.bound) == (True, 100, 60)


# Properties.

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    ["iss", "aud", "exp", "nbf", "iat", "sub", "groups", "scope", "typ", "token_type", "token_use", "cnf", "client_id",
     "jti", "events", "active"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(said=st.dictionaries(names, values, max_size=3))
def test_whatever_a_provider_says_is_a_sound_principal_or_refused(said: Json) -> None:
    corp = OidcIssuer("corp", "https://idp.test", ("gw",), introspection=Introspection("gw"))
    asked = Introspector(corp, None, Fetch(), lambda _: None, lambda: 0.0)
    active = ActiveBearer(corp, asked, lambda: EPOCH, lambda: 0.0)
    good: Json = {"iss": "https://idp.test", "aud": "gw", "sub": "alice", "groups": ["ds"], "exp": EPOCH + 3600}
    try:
        vouched = active._told(good | said)
    except Unidentified:
        return
    found = vouched.principal
    assert {type(one) for one in (found.subject, *found.groups, *found.scopes)} == {str}
    assert EPOCH - 60 < found.expires < 2**53
    assert vouched.until <= EPOCH + 60
    assert ("cnf" in said) == (vouched.bound is not None)


async def pauses(asking: Asking, monkeypatch: pytest.MonkeyPatch, looks: int) -> list[float]:
    """Seconds between the looks that follow one question without an answer."""
    spans: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        spans.append(seconds)
        if len(spans) == looks:
            raise asyncio.CancelledError
        await sleep(0)

    await unavailable(asking)
    monkeypatch.setattr("gateway.identity.provider.introspection.asyncio.sleep", noted)
    with pytest.raises(asyncio.CancelledError):
        await asking.asked.run()
    monkeypatch.undo()
    return spans


async def test_a_provider_that_is_away_is_looked_for_less_and_less_often(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking.provider.odd = lambda: web.Response(status=500)
    assert await pauses(asking, monkeypatch, 8) == [1, 1, 2, 4, 8, 16, 30, 30]


async def test_a_provider_that_does_not_take_the_gateway_for_a_client_is_asked_seldom(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lock out a client that fails again and again."""
    asking.provider.odd = lambda: web.json_response({"error": "invalid_client"}, status=401)
    assert await pauses(asking, monkeypatch, 3) == [30, 30, 30]

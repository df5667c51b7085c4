"""The keys of an issuer over time: rotation, storms of unknown keys, and a provider that fails in every way."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.errors import IdentityUnavailable
from gateway.identity.provider.keys import FETCH_SECONDS
from tests.identity.conftest import Bench, Start, until
from tests.identity.provider import FAILURES
from tests.identity.signers import part, rsa_signer

K2 = rsa_signer("k2")
IMPATIENT = 0.3  # seconds for a fetch, where it is to fail by its time


async def _fail(bench: Bench, how: str) -> None:
    """Let the provider fail and the gateway notice."""
    if how == "refused":
        await bench.provider.stop()
    bench.provider.fail = how
    if how == "hang":
        bench.keys._patience = IMPATIENT
    await bench.keys.refresh()
    assert bench.keys.failing


async def _recover(bench: Bench, how: str) -> None:
    bench.provider.fail = ""
    bench.keys._patience = FETCH_SECONDS
    if how == "refused":
        await bench.provider.start()
    await bench.keys.refresh()


# Rotation.


async def test_the_first_token_of_a_new_key_is_served_after_exactly_one_fetch(bench: Bench, start: Start) -> None:
    """B069: 200 calls at once, right after the scheduled fetch, and nobody sees a 401."""
    start(bench.keys.run())
    await until(lambda: bench.fetches == 2)
    bench.provider.keys.append(K2.jwk())
    tokens = [bench.token(K2, jti=str(n)) for n in range(200)]
    principals = await asyncio.gather(*(bench.identify(token) for token in tokens))
    assert {one.subject for one in principals} == {"alice"}
    assert bench.fetches == 3


async def test_a_key_that_is_published_while_a_fetch_is_under_way_is_served_after_the_next(bench: Bench) -> None:
    """B069: that fetch may have read the set before; the one early fetch of the cool-down is still there."""
    under_way = asyncio.create_task(bench.keys.refresh())
    await asyncio.sleep(0)
    asking = asyncio.create_task(bench.identify(bench.token(K2)))
    await under_way
    bench.provider.keys.append(K2.jwk())
    await bench.keys.refresh()
    assert (await asking).subject == "alice"
    assert bench.fetches == 3


async def test_tokens_of_a_withdrawn_key_fail_from_the_next_fetch_on_also_remembered_ones(bench: Bench) -> None:
    """B069."""
    token = bench.token()
    await bench.identify(token)
    await bench.identify(token)
    assert bench.counts["corp", "cached"] == 1
    bench.provider.keys = [K2.jwk()]
    await bench.keys.refresh()
    bench.keys.news()  # the early fetch of this cool-down is spent
    await bench.keys.refresh()
    assert await bench.refused(token) == "unknown_key"
    assert (await bench.identify(bench.token(K2))).subject == "alice"


async def test_another_key_under_the_same_kid_is_taken_up_at_the_next_fetch(bench: Bench) -> None:
    """B069."""
    old, new = bench.token(), bench.token(K2.named("k1"))
    await bench.identify(old)
    assert await bench.refused(new) == "bad_signature"
    bench.provider.keys = [K2.named("k1").jwk()]
    await bench.keys.refresh()
    assert (await bench.identify(new)).subject == "alice"
    assert await bench.refused(old) == "bad_signature"


async def test_a_fetch_that_changes_nothing_forgets_nobody(bench: Bench) -> None:
    token, basis = bench.token(), bench.keys.basis
    await bench.identify(token)
    bench.provider.keys = [dict(reversed(bench.good.jwk().items()))]
    await bench.keys.refresh()
    await bench.identify(token)
    assert bench.counts["corp", "cached"] == 1
    assert bench.keys.basis is basis


async def test_a_key_without_a_name_may_be_rotated_too(bench: Bench, start: Start) -> None:
    """A provider with a single key and no kid: the new key is fetched early as well."""
    bench.provider.keys = [bench.good.jwk(kid=...)]
    start(bench.keys.run())
    await until(lambda: bench.fetches == 2)
    bench.provider.keys = [K2.jwk(kid=...)]
    token = K2.sign(bench.claims(), kid=...)
    assert (await bench.identify(token)).subject == "alice"


# Storms.


async def test_ten_thousand_made_up_kids_cost_one_fetch_each_cool_down(bench: Bench, start: Start) -> None:
    """B068, with good calls in between that are all served."""
    start(bench.keys.run())
    await until(lambda: bench.fetches == 2)
    _, body, signature = bench.token().split(".")
    for n in range(10_000):
        token = f"{part({'alg': 'RS256', 'kid': f'made-up-{n}'})}.{body}.{signature}"
        assert await bench.refused(token) == "unknown_key"
        if n % 1000 == 0:
            await bench.identify(bench.token())
        if n == 5000:
            assert bench.fetches == 3
            bench.steady.at += bench.settings.cooldown
    assert bench.fetches == 4
    assert bench.counts["corp", "unknown_key"] == 10_000


async def test_a_storm_against_an_empty_set_costs_no_fetch_beyond_the_schedule(cold: Bench, start: Start) -> None:
    """The cool-down holds although there is no key at all; callers hear 503, for nothing is known of their tokens."""
    cold.provider.keys = []
    start(cold.keys.run())
    await until(lambda: cold.keys.failing)
    for n in range(1000):
        with pytest.raises(IdentityUnavailable):
            await cold.identify(cold.token(jti=str(n)))
    assert cold.fetches == 1
    assert cold.keys.pause() == cold.settings.cooldown


async def test_those_that_wait_for_one_fetch_are_bounded(cold: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.identity.provider.keys.WAITING_LIMIT", 3)
    waiting = [asyncio.create_task(cold.identify(cold.token(jti=str(n)))) for n in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(IdentityUnavailable) as caught:
        await cold.identify(cold.token(jti="x"))
    assert caught.value.retry_after
    await cold.keys.refresh()
    assert {(await one).subject for one in waiting} == {"alice"}


async def test_a_caller_who_leaves_while_waiting_takes_nobody_along(cold: Bench) -> None:
    leaving, staying = (asyncio.create_task(cold.identify(cold.token(jti=jti))) for jti in "ab")
    await asyncio.sleep(0)
    leaving.cancel()
    await cold.keys.refresh()
    assert (await staying).subject == "alice"
    assert leaving.cancelled()


# Outages.


@pytest.mark.parametrize("how", FAILURES)
async def test_known_keys_serve_on_while_the_provider_is_away(bench: Bench, how: str) -> None:
    """B070."""
    await bench.identify(bench.token(jti="before"))
    basis = bench.keys.basis
    bench.steady.at += 600
    await _fail(bench, how)
    assert (await bench.identify(bench.token(jti="during"))).subject == "alice"
    await bench.identify(bench.token(jti="before"))
    assert bench.counts["corp", "cached"] == 1
    assert bench.keys.basis is basis
    assert bench.keys.age() == 600
    await _recover(bench, how)
    assert bench.keys.age() == 0
    assert not bench.keys.failing


@pytest.mark.parametrize("how", FAILURES)
async def test_a_cold_start_without_the_provider_is_503_and_never_401(cold: Bench, how: str) -> None:
    """B070: nothing is known of the caller's token, so it is not called bad."""
    await _fail(cold, how)
    assert not cold.keys.ready
    assert cold.keys.age() is None
    with pytest.raises(IdentityUnavailable) as caught:
        await cold.identify(cold.token())
    assert caught.value.status == 503
    assert 1 <= (caught.value.retry_after or 0) <= 60
    assert cold.counts["corp", "unavailable"] == 1
    await _recover(cold, how)
    assert (await cold.identify(cold.token())).subject == "alice"


async def test_what_is_bad_whatever_the_keys_is_401_also_without_the_provider(cold: Bench) -> None:
    await _fail(cold, "500")
    assert await cold.refused(cold.token(exp=1)) == "expired"
    assert await cold.refused("a.b.c") == "malformed"


async def test_keys_serve_as_long_as_stated_and_then_the_answer_is_503(bench: Bench) -> None:
    """M2, M4: also for a token that was seen before."""
    token = bench.token(exp=bench.wall.at + 10 * 86400)
    await bench.identify(token)
    await _fail(bench, "500")
    for clock in (bench.steady, bench.wall):
        clock.at += bench.settings.stale - 1
    assert (await bench.identify(token)).subject == "alice"
    for clock in (bench.steady, bench.wall):
        clock.at += 2
    with pytest.raises(IdentityUnavailable):
        await bench.identify(token)
    await _recover(bench, "500")
    assert (await bench.identify(token)).subject == "alice"


async def test_a_key_that_may_be_new_is_not_called_bad_while_the_provider_is_away(bench: Bench) -> None:
    await _fail(bench, "500")
    fetches = bench.fetches
    with pytest.raises(IdentityUnavailable):
        await bench.identify(bench.token(K2))
    assert bench.fetches == fetches


async def test_a_call_waits_no_longer_than_one_fetch_even_if_nobody_fetches(bench: Bench) -> None:
    """The background task may have died; the caller must not hang on it."""
    bench.keys._patience = IMPATIENT
    async with asyncio.timeout(20):
        assert await bench.refused(bench.token(K2)) == "unknown_key"


async def test_a_reload_takes_the_keys_along_unless_the_rules_for_them_changed(bench: Bench) -> None:
    """Another group map must not make everybody wait for a provider that is away."""
    before = bench.keys
    await _fail(bench, "500")
    bench.rebuild(group_map=(("ds", "data"),))
    bench.keys.adopt(before)
    assert (await bench.identify(bench.token())).groups == {"data"}
    for changed in (
        {"algorithms": ("RS256",)},
        {"allow_insecure": True},
        {"jwks_uri": "https://x.test"},
        {"issuer": "http://127.0.0.1:1"},
    ):
        bench.rebuild(**changed)
        bench.keys.adopt(before)
        assert not bench.keys.ready


# The schedule.


async def test_failures_are_asked_again_soon_and_then_less_often(cold: Bench) -> None:
    pauses = []
    for _ in range(8):
        await _fail(cold, "500")
        pauses.append(cold.keys.pause())
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    await _recover(cold, "500")
    assert cold.keys.pause() == cold.settings.refresh


async def test_keys_are_fetched_again_on_schedule_and_so_is_the_discovery_document(cold: Bench, start: Start) -> None:
    cold.rebuild(refresh=0.01)
    start(cold.keys.run())
    await until(lambda: cold.fetches >= 3)
    assert cold.provider.hits["discovery"] >= 3


async def test_each_change_of_state_is_logged_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(3):
        await _fail(bench, "500")
    for _ in range(3):
        await _recover(bench, "500")
    events = [record.getMessage().split()[0] for record in caplog.records if record.name.startswith("gateway.identity")]
    assert events == ["identity.keys.failed", "identity.keys.fetched"]


async def test_a_fault_of_our_own_in_reading_keys_ends_neither_the_fetching_nor_the_known_keys(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Fetching runs beside everything else in one group of tasks, which an error would end."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("gateway.identity.provider.keys.signing_keys", broken)
        await bench.keys.refresh()
    assert bench.keys.failing
    assert "identity.keys.fault" in caplog.text
    assert (await bench.identify(bench.token())).subject == "alice"

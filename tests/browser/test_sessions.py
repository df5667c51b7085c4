"""How long somebody stays logged in, wherever the session is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Principal
from gateway.portal import sessions
from gateway.portal.sessions import COOKIE_LIMIT, IDLE, LONGEST, Sessions
from tests.identity.conftest import Clock

NOW = 1_900_000_000.0
ALICE = Principal("alice", "https://idp.test", "corp", frozenset({"data-science"}))
CROWD = replace(ALICE, groups=frozenset(f"a group with a rather long name and number {n * n}" for n in range(3000)))

names = st.text(max_size=40)
principals = st.builds(
    Principal,
    subject=names,
    issuer=names,
    provider=names,
    groups=st.frozensets(names, max_size=400),
    client=st.none() | names,
    scopes=st.frozensets(names, max_size=5),
    expires=st.just(float("inf")) | st.floats(NOW + 1, NOW + 10**6),
    groups_known=st.booleans(),
    credential=st.none() | names,
)


def made(clock: Clock | None = None, *secrets: bytes) -> Sessions:
    return Sessions(lambda: secrets or (b"s" * 32,), clock or Clock(NOW))


@given(principals)
def test_a_session_comes_back_as_it_was_and_fits_into_a_cookie(who: Principal) -> None:
    known = made()
    session = known.begin(who)
    text = known.sealed(session)
    assert known.find(text) == session
    assert session.principal == who
    assert len(text) <= COOKIE_LIMIT


def test_replicas_with_the_same_secrets_know_each_others_sessions() -> None:
    session = made().begin(ALICE)
    assert made().find(made().sealed(session)) == session


def test_somebody_in_very_many_groups_is_known_where_they_logged_in() -> None:
    here, there = made(), made()
    session = here.begin(CROWD)
    text = here.sealed(session)
    assert here.find(text) == session
    assert len(text) < 400
    assert there.find(text) is None


def test_several_hundred_groups_still_travel_with_the_browser() -> None:
    """Entra ID names at most 200 groups in a token, by ids that hardly compress."""
    many = replace(ALICE, groups=frozenset(f"team-{n}-of-the-platform-department" for n in range(300)))
    assert made().find(made().sealed(made().begin(many))) is not None


def test_a_session_ends_after_a_working_day_or_with_the_credential_it_began_with() -> None:
    clock = Clock(NOW)
    known = made(clock)
    long, short = known.begin(ALICE), known.begin(replace(ALICE, expires=NOW + 300))
    for _ in range(int(LONGEST / 600)):
        for session in (long, short):
            alive = clock.at < (NOW + 300 if session is short else NOW + LONGEST)
            assert (known.find(known.sealed(session)) is not None) == alive
        clock.at += 600
    assert known.find(known.sealed(long)) is None


def test_who_is_idle_for_an_hour_is_logged_out_and_each_page_begins_anew() -> None:
    clock = Clock(NOW)
    known = made(clock)
    text = known.sealed(known.begin(ALICE))
    for _ in range(3):
        clock.at += IDLE - 1
        session = known.find(text)
        assert session is not None
        text = known.sealed(session)
    clock.at += IDLE + 1
    assert known.find(text) is None


@pytest.mark.parametrize("who", [ALICE, CROWD], ids=["in the cookie", "kept"])
def test_a_session_that_was_ended_is_never_found_again(who: Principal) -> None:
    known = made()
    session = known.begin(who)
    copies = [known.sealed(session), known.sealed(session)]
    known.end(session)
    assert [known.find(copy) for copy in copies] == [None, None]
    assert known.find(known.sealed(known.begin(who))) is not None


def test_what_is_kept_here_is_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEPT_NAMES", 3 * len(CROWD.groups))
    known = made()
    begun = [known.begin(CROWD) for _ in range(5)]
    texts = [known.sealed(session) for session in begun]
    assert [known.find(text) is not None for text in texts] == [False, False, True, True, True]
    for session in begun:
        known.end(session)
    assert (len(known._kept), known._kept_names, len(known._ended)) == (0, 0, 1)


def test_who_logs_out_is_out_with_all_sessions_and_nobody_else_is() -> None:
    clock = Clock(NOW)
    known = made(clock)
    texts = [known.sealed(known.begin(ALICE)) for _ in range(3)]
    others = [known.sealed(known.begin(who)) for who in (replace(ALICE, subject="bob"), replace(ALICE, issuer="x"))]
    session = known.find(texts[1])
    assert session is not None
    known.end(session)
    assert [known.find(text) for text in texts] == [None, None, None]
    assert all(known.find(text) is not None for text in others)


def test_however_many_log_out_no_session_that_was_ended_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers could push an ended session out of a table that forgets."""
    monkeypatch.setattr(sessions, "ENDED_LIMIT", 3)
    clock = Clock(NOW)
    known = made(clock)
    mine = known.begin(ALICE)
    text = known.sealed(mine)
    known.end(mine)
    for number in range(10):
        clock.at += 1
        for _ in range(10):
            known.end(known.begin(replace(ALICE, subject=f"stranger {number}")))
    assert known.find(text) is None
    assert len(known._ended) == 3
    again = known.begin(ALICE)
    assert known.find(known.sealed(again)) == again


def test_a_session_that_another_replica_began_ahead_of_this_clock_is_ended_too() -> None:
    here = made(Clock(NOW))
    ahead = made(Clock(NOW + 30)).begin(ALICE)
    here.end(ahead)
    assert here.find(here.sealed(ahead)) is None
    again = here.begin(ALICE)
    assert here.find(here.sealed(again)) == again


def test_what_was_ended_is_forgotten_once_it_would_be_over_anyhow() -> None:
    clock = Clock(NOW)
    known = made(clock)
    known.end(known.begin(ALICE))
    clock.at += LONGEST
    known.end(known.begin(replace(ALICE, subject="bob")))
    assert len(known._ended) == 1


@given(st.text(max_size=300))
def test_no_other_text_is_a_session(text: str) -> None:
    assert made().find(text) is None
    assert made().find("g" * 10_000) is None

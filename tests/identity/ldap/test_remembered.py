"""What is remembered of logins, and how much; and whether a directory that fails is asked."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.ldap.outage import HOLD, HOLD_OWN_ACCOUNT, Outage
from gateway.identity.remembered import Digests, Held, Remembered

WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=4).map(tuple)


@given(WORDS, WORDS)
def test_only_the_same_words_have_the_same_digest(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """A name must not be able to run into its password."""
    digests = Digests()
    assert (digests.of(*one) == digests.of(*other)) is (one == other)


def test_no_two_processes_have_the_same_digests() -> None:
    assert Digests().of("login", "alice", "secret") != Digests().of("login", "alice", "secret")


def test_what_is_remembered_holds_until_its_time_and_not_at_it() -> None:
    remembered: Remembered[str] = Remembered()
    remembered.put(b"a", Held("x", 10.0))
    assert remembered.get(b"a", 9.9) == Held("x", 10.0)
    assert remembered.get(b"a", 10.0) is None
    assert len(remembered) == 0


def test_the_oldest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.identity.remembered.ENTRIES_LIMIT", 3)
    remembered: Remembered[int] = Remembered()
    for n in range(5):
        remembered.put(bytes([n]), Held(n, 10.0))
    assert [n for n in range(5) if remembered.get(bytes([n]), 0.0)] == [2, 3, 4]


def test_people_in_very_many_groups_push_each_other_out_and_not_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.identity.remembered.NAMES_LIMIT", 100)
    remembered: Remembered[int] = Remembered()
    for n in range(4):
        remembered.put(bytes([n]), Held(n, 10.0, 40))
    assert len(remembered) == 2
    remembered.put(b"\x03", Held(3, 10.0, 10))
    remembered.put(b"\x09", Held(9, 10.0, 50))
    assert len(remembered) == 3


def test_while_a_directory_fails_one_at_a_time_sees_for_himself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage("corp", 5.0, 0.0)
    assert outage.may_ask(0.0)
    assert not outage.ready
    outage.failed(1.0, 0.5, "gone", own_account=False)
    assert not outage.may_ask(1.0 + HOLD / 2)
    assert outage.may_ask(1.0 + HOLD)
    assert not outage.may_ask(1.0 + HOLD)  # that one is under way
    outage.failed(3.0, 2.0, "gone", own_account=False)
    assert outage.seconds(7.0) == 7.0
    assert outage.may_ask(4.0)
    outage.answered(8.0)
    assert outage.ready
    assert outage.may_ask(8.0)
    assert outage.may_ask(8.0)
    assert outage.seconds(20.0) == 0.0
    events = [record.getMessage().split()[0] for record in caplog.records]
    assert events == ["identity.directory.failed", "identity.directory.recovered"]


def test_one_who_is_expected_to_tell_and_never_does_bars_the_way_for_a_bounded_time() -> None:
    outage = Outage("corp", 5.0, 0.0)
    outage.failed(0.0, 0.0, "gone", own_account=False)
    assert outage.may_ask(1.0)
    assert not outage.may_ask(6.9)
    assert outage.may_ask(7.0)


def test_a_refused_account_of_the_gateways_own_is_tried_seldom() -> None:
    outage = Outage("corp", 5.0, 0.0)
    outage.failed(0.0, 0.0, "refused", own_account=True)
    assert not outage.may_ask(HOLD_OWN_ACCOUNT - 0.1)
    assert outage.may_ask(HOLD_OWN_ACCOUNT)


def test_one_slow_question_is_no_outage_where_others_were_answered_meanwhile() -> None:
    outage = Outage("corp", 5.0, 0.0)
    outage.answered(3.0)
    outage.failed(6.0, 1.0, "no answer in time", own_account=False)
    assert outage.ready

"""Failed logins slow down whoever causes them, and hardly anybody else."""

from __future__ import annotations

import string
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from gateway.errors import LoginThrottled
from gateway.identity.passwords.pace import LONGEST, LOST, Marks, Pace
from gateway.identity.passwords.throttle import ACCOUNT, ADDRESS, KNOWN_FOR, PAIR, Throttle, folded, place
from tests.identity.conftest import Clock

HERE, THERE, ELSEWHERE = "192.0.2.1", "198.51.100.7", "2001:db8::1"
SCOPES = pytest.mark.parametrize("pace", [PAIR, ACCOUNT, ADDRESS], ids=["pair", "account", "address"])
NAMES = some.text(min_size=1, max_size=20)


class Door:
    """A gateway's throttle with one directory, and a clock that passes when told."""

    def __init__(self, limit: int = 1000) -> None:
        self.clock = Clock(1000.0)
        self.failures: Counter[str] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.throttle = Throttle(self.clock, self._failed, self._refused, limit=limit, known=limit)
        self.logins = self.throttle.logins("corp")

    def _failed(self, provider: str) -> None:
        self.failures[provider] += 1

    def _refused(self, provider: str, scope: str) -> None:
        self.refusals[provider, scope] += 1

    def wait(self, account: str, peer: str) -> int:
        """Seconds that a try would be told to wait, 0 if it may come now. Leaves nothing behind."""
        try:
            self.logins.admit(account, peer)
        except LoginThrottled as refused:
            return refused.retry_after or 0
        self.logins.unanswered(account, peer)
        return 0

    def fail(self, account: str, peer: str) -> bool:
        """Try with a bad password; whether the directory was asked."""
        try:
            self.logins.admit(account, peer)
        except LoginThrottled:
            return False
        self.logins.failed(account, peer)
        return True

    def log_in(self, account: str, peer: str) -> None:
        self.logins.admit(account, peer)
        self.logins.succeeded(account, peer)

    def fail_for(self, account: str, peer: str, seconds: float, every: float = 0.5) -> int:
        """Try all the time; how often the directory was asked."""
        until, asked = self.clock.at + seconds, 0
        while self.clock.at < until:
            asked += self.fail(account, peer)
            self.clock.at += every
        return asked


# -- one account under several names


def guess_as(door: Door, name: str, entry: str, peer: str) -> bool:
    """Try with a bad password and a name that leads to this entry; whether a password was sent."""
    door.logins.admit(name, peer)
    try:
        door.logins.found(entry, peer)
    except LoginThrottled:
        door.logins.unanswered(name, peer)
        return False
    door.logins.failed(name, peer, entry)
    return True


def test_an_account_is_one_under_all_the_names_that_lead_to_it() -> None:
    """A filter may take uid, mail and number; each name alone has its free tries left."""
    door = Door()
    names = ["alice", "alice@example.test", "4711"]
    assert [guess_as(door, name, "uid=alice,dc=test", HERE) for name in names * 2] == [True] * 3 + [False] * 3
    assert door.refusals == {("corp", "pair"): 3}
    assert door.failures == {"corp": 3}
    assert guess_as(door, "bob", "uid=bob,dc=test", HERE)
    assert not door.wait("alice", THERE)


def test_many_addresses_together_get_no_more_tries_with_more_names() -> None:
    door = Door()
    sent = sum(guess_as(door, f"name-{n % 5}", "uid=alice,dc=test", f"192.0.2.{n}") for n in range(40))
    assert sent == ACCOUNT.free


def test_a_good_login_under_one_name_clears_what_failed_under_another_at_that_place() -> None:
    door, entry = Door(), "uid=alice,dc=test"
    for name in ("alice", "4711", "4711"):
        assert guess_as(door, name, entry, HERE)
    assert not guess_as(door, "a@example.test", entry, HERE)
    door.clock.at += 1
    door.logins.admit("a@example.test", HERE)
    door.logins.found(entry, HERE)
    door.logins.succeeded("a@example.test", HERE, entry)
    assert guess_as(door, "alice", entry, HERE)


def test_an_entry_that_is_looked_at_is_free_again_when_nobody_answered() -> None:
    door, entry = Door(), "uid=alice,dc=test"
    for _ in range(20):
        door.logins.admit("alice", HERE)
        door.logins.found(entry, HERE)
        door.logins.unanswered("alice", HERE, entry)
    assert door.throttle.entries == 0


# -- one account from one address


def test_typing_errors_are_free_and_whoever_goes_on_waits_longer_each_time_up_to_a_minute() -> None:
    door, waits = Door(), []
    for _ in range(12):
        assert door.fail("alice", HERE)
        waits.append(door.wait("alice", HERE))
        door.clock.at += waits[-1]
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_who_is_told_to_wait_is_answered_when_he_comes_back_then() -> None:
    door = Door()
    for _ in range(8):
        assert door.fail("alice", HERE)
        door.clock.at += door.wait("alice", HERE)


def test_a_refused_try_costs_nothing_and_is_counted_apart() -> None:
    door = Door()
    for _ in range(3):
        door.fail("alice", HERE)
    before = door.wait("alice", HERE)
    assert not any(door.fail("alice", HERE) for _ in range(100))
    assert door.wait("alice", HERE) == before
    assert door.failures == {"corp": 3}
    assert door.refusals == {("corp", "pair"): 102}


def test_a_job_with_an_old_password_asks_the_directory_once_a_minute_at_most() -> None:
    """B086"""
    door = Door()
    door.fail_for("job", HERE, 600.0, every=1.0)
    assert door.fail_for("job", HERE, 3600.0, every=1.0) <= 61


def test_a_good_login_clears_what_its_account_did_there() -> None:
    door = Door()
    door.fail_for("alice", HERE, 30.0)
    door.clock.at += 60
    door.log_in("alice", HERE)
    assert [door.fail("alice", HERE) for _ in range(3)] == [True] * 3


def test_what_the_directory_did_not_answer_is_nobodys_fault() -> None:
    """503, not a back-off: an outage must not end with everybody slowed down."""
    door = Door()
    for _ in range(100):
        door.logins.admit("alice", HERE)
        door.logins.unanswered("alice", HERE)
    assert door.wait("alice", HERE) == 0
    assert door.throttle.entries == 0
    assert not door.failures


def test_of_many_tries_at_once_no_more_get_through_than_of_as_many_in_turn() -> None:
    door, admitted = Door(), 0
    for _ in range(50):
        with suppress(LoginThrottled):
            door.logins.admit("alice", HERE)
            admitted += 1
    assert admitted == PAIR.free
    assert door.wait("alice", HERE) == 1


def test_tries_of_which_nobody_heard_again_keep_nobody_out_for_good() -> None:
    door = Door()
    for _ in range(3):
        door.logins.admit("alice", HERE)
    assert door.wait("alice", HERE) == 1
    door.clock.at += LOST
    assert door.wait("alice", HERE) == 0
    assert door.throttle.entries == 0


def test_a_throttled_login_is_429_with_words_that_tell_nothing_of_the_account() -> None:
    door = Door()
    for _ in range(3):
        door.fail("alice", HERE)
    with pytest.raises(LoginThrottled) as caught:
        door.logins.admit("alice", HERE)
    assert caught.value.status == 429
    assert "alice" not in f"{caught.value} {caught.value.detail}"


# -- others


def test_who_fails_for_an_account_never_delays_its_owner_elsewhere() -> None:
    door = Door()
    for _ in range(2000):
        door.fail("alice", HERE)
        assert door.wait("alice", THERE) == 0
        door.clock.at += 1


@given(some.lists(some.tuples(some.sampled_from(["admit", "fail"]), some.floats(0, 400)), max_size=60))
def test_no_timing_of_tries_from_one_address_delays_an_account_elsewhere(tries: list[tuple[str, float]]) -> None:
    door, open_tries = Door(), 0
    for what, pause in tries:
        with suppress(LoginThrottled):
            door.logins.admit("alice", HERE)
            open_tries += 1
        if what == "fail" and open_tries:
            door.logins.failed("alice", HERE)
            open_tries -= 1
        assert door.wait("alice", THERE) == 0
        door.clock.at += pause


@given(some.lists(some.tuples(NAMES, some.floats(0, 5)), max_size=80), NAMES)
def test_no_failures_of_other_accounts_elsewhere_delay_an_account(tries: list[tuple[str, float]], mine: str) -> None:
    door = Door()
    for name, pause in tries:
        if folded(name) != folded(mine):
            door.fail(name, HERE)
        door.clock.at += pause
        assert door.wait(mine, THERE) == 0


def test_many_addresses_together_get_one_try_each_five_seconds_for_an_account() -> None:
    door, asked = Door(), 0
    for second in range(600):
        for part in range(10):
            asked += door.fail("alice", f"10.{second // 256}.{second % 256}.{part}")
        door.clock.at += 1
    assert asked <= ACCOUNT.free + 600 / ACCOUNT.longest + 3
    assert door.refusals["corp", "account"] > 5000


def test_the_owner_is_not_delayed_by_them_where_he_logged_in_before() -> None:
    door = Door()
    door.log_in("alice", HERE)
    door.clock.at += 86400
    for number in range(200):
        door.fail("alice", f"10.0.0.{number}")
    assert door.wait("alice", THERE) > 0
    assert door.wait("alice", HERE) == 0
    door.clock.at += KNOWN_FOR
    for number in range(200):
        door.fail("alice", f"10.0.1.{number}")
    assert door.wait("alice", HERE) > 0, "known for ever"


def test_where_an_account_logged_in_before_its_own_failures_count_all_the_same() -> None:
    door = Door()
    door.log_in("alice", HERE)
    assert door.fail_for("alice", HERE, 60.0) <= 9


def test_an_address_that_tries_many_accounts_is_slowed_down_for_all_that_are_new_there() -> None:
    door = Door()
    door.log_in("alice", HERE)
    asked = sum(door.fail(f"user{number}", HERE) for number in range(1000))
    assert asked == ADDRESS.free
    assert door.wait("bob", HERE) > 0
    assert door.refusals["corp", "address"]
    assert door.wait("alice", HERE) == 0
    assert door.wait("bob", THERE) == 0


def test_a_guesser_at_one_address_gets_one_account_a_minute_in_the_long_run_also_with_a_login_of_his_own() -> None:
    door, asked = Door(), 0
    for second in range(7200):
        asked += door.fail(f"user{second}", HERE)
        if second % 10 == 0:
            door.fail("mallory", HERE)
            if not door.wait("mallory", HERE):
                door.log_in("mallory", HERE)
        door.clock.at += 1
    assert asked <= ADDRESS.free + 2 * 7200 / 60 + 10


def test_of_a_burst_that_uses_the_room_of_an_address_each_guess_counts() -> None:
    door, admitted = Door(), 0
    for number in range(1000):
        with suppress(LoginThrottled):
            door.logins.admit(f"user{number}", HERE)
            admitted += 1
    assert admitted == ADDRESS.free + ADDRESS.room
    for number in range(admitted):
        door.logins.failed(f"user{number}", HERE)
    assert sum(door.fail_for(f"late{number}", HERE, 60.0) for number in range(60)) <= 61


def test_who_comes_back_for_another_burst_gains_nothing() -> None:
    door, asked = Door(), 0
    for hour in range(10):
        guesses = [f"user{hour}-{number}" for number in range(400)]
        admitted = []
        for name in guesses:
            with suppress(LoginThrottled):
                door.logins.admit(name, HERE)
                admitted.append(name)
        for name in admitted:
            door.logins.failed(name, HERE)
        asked += len(admitted)
        door.clock.at += 3600
    assert asked <= ADDRESS.free + ADDRESS.room + 10 * 60


def test_an_office_behind_one_address_where_people_mistype_and_then_succeed_is_not_slowed_down() -> None:
    door = Door()
    for number in range(500):
        assert door.fail(f"user{number}", HERE)
        assert door.fail(f"user{number}", HERE)
        door.log_in(f"user{number}", HERE)
        door.clock.at += 1
    assert door.wait("new", HERE) == 0


def test_a_crowd_that_logs_in_at_once_from_one_address_gets_in() -> None:
    door = Door()
    for number in range(200):
        door.logins.admit(f"user{number}", HERE)
    for number in range(200):
        door.logins.succeeded(f"user{number}", HERE)
    assert door.wait("new", HERE) == 0


def test_a_name_in_two_directories_is_two_accounts_and_an_address_one() -> None:
    door = Door()
    other = door.throttle.logins("partner")
    for _ in range(3):
        door.fail("alice", HERE)
    other.admit("alice", HERE)
    other.unanswered("alice", HERE)
    for number in range(30):
        door.fail(f"user{number}", HERE)
    with pytest.raises(LoginThrottled):
        other.admit("bob", HERE)
    assert door.refusals["partner", "address"] == 1


def test_whose_logins_succeed_after_typing_errors_in_many_places_is_not_delayed_in_the_next() -> None:
    door = Door()
    for number in range(20):
        peer = f"10.0.0.{number}"
        assert door.fail("alice", peer)
        assert door.fail("alice", peer)
        door.log_in("alice", peer)
    assert door.wait("alice", HERE) == 0


# -- names and addresses


@pytest.mark.parametrize(
    "spelling",
    [
        "ALICE",
        " alice ",
        "ａlice",
        "al\u00adice",
        "a\u200blice",
        "ali\ufe00ce",
        "alicé",
        "ali ce",
        "al\u1806ice",
        "\ufffcalice",
    ],
)
def test_a_spelling_that_a_directory_takes_for_the_same_is_no_fresh_account(spelling: str) -> None:
    door = Door()
    for _ in range(3):
        door.fail("alice", HERE)
    assert door.wait(spelling, HERE) > 0


@given(some.text())
def test_a_name_has_one_folded_spelling(name: str) -> None:
    assert folded(folded(name)) == folded(name)


@given(some.text(alphabet=string.ascii_letters + string.digits + ".-_@\\", min_size=1))
def test_plain_names_stay_apart_unless_they_differ_by_case_only(name: str) -> None:
    assert folded(name) == name.lower()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("unix", "unix", True),
        ("unix", "other", False),
    ],
)
def test_a_host_is_one_address_whichever_of_its_own_it_uses(one: str, other: str, same: bool) -> None:
    assert (place(one) == place(other)) is same


# -- the arithmetic


@SCOPES
@given(more=some.floats(0, 300), less=some.floats(0, 300))
def test_more_failures_never_wait_less_and_nobody_waits_beyond_a_minute(pace: Pace, more: float, less: float) -> None:
    more, less = max(more, less), min(more, less)
    assert 0 <= pace.wait(less) <= pace.wait(more) <= pace.longest <= LONGEST
    assert pace.wait(pace.most) == pace.longest
    assert pace.places(less) >= pace.places(more) >= 1


@SCOPES
@given(pauses=some.lists(some.floats(0, 1), max_size=40))
def test_who_tries_again_as_soon_as_he_may_never_waits_less_than_before(pace: Pace, pauses: list[float]) -> None:
    marks, now, before = Marks(pace, 10), 0.0, 0.0
    for pause in pauses:
        marks.add(b"k", now)
        wait = marks.wait(b"k", now)
        assert wait >= before - 1e-9
        before, now = wait, now + wait + pause / 100


@given(begin=some.floats(0, 1e9))
@example(0.7881509094018387)  # 60 seconds later is 60.00000000000001 seconds later
def test_nobody_is_told_to_wait_for_less_than_a_second_or_more_than_a_minute(begin: float) -> None:
    door = Door()
    door.clock.at = begin
    for _ in range(20):
        door.fail("alice", HERE)
        assert 0 <= door.wait("alice", HERE) <= 60
        door.clock.at += door.wait("alice", HERE)


@SCOPES
def test_failures_are_forgotten_and_so_is_whom_they_were_counted_for(pace: Pace) -> None:
    marks = Marks(pace, 10)
    for _ in range(300):
        marks.add(b"k", 0.0)
    marks.begin(b"other", pace.most * pace.forgotten + 1)
    assert marks.wait(b"k", pace.most * pace.forgotten) == 0
    assert len(marks) == 1


@pytest.mark.parametrize("wrong", [{"free": 0}, {"longest": 61.0}, {"longest": 0.5}, {"forgotten": 0.0}, {"room": -1}])
def test_a_pace_that_would_never_let_go_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a minute"):
        Pace(**{"free": 1, "longest": 5.0, "forgotten": 1.0, "room": 0, **wrong})


# -- bounds


@given(some.lists(some.tuples(some.sampled_from(["fail", "log in", "begin"]), some.integers(0, 40)), max_size=200))
def test_whatever_is_tried_the_tables_keep_their_bound(tries: list[tuple[str, int]]) -> None:
    door = Door(limit=8)
    for what, number in tries:
        account, peer = f"user{number % 13}", f"10.0.0.{number}"
        try:
            door.logins.admit(account, peer)
        except LoginThrottled:
            continue
        if what == "fail":
            door.logins.failed(account, peer)
        elif what == "log in":
            door.logins.succeeded(account, peer)
        assert door.throttle.entries <= 8


def test_filling_the_tables_with_made_up_names_does_not_clear_ones_own_failures() -> None:
    door = Door(limit=100)
    door.fail_for("alice", HERE, 60.0)
    for number in range(5000):
        door.fail(f"made-up-{number}", f"10.{number % 7}.{number // 256}.{number % 256}")
    assert door.wait("alice", HERE) > 0


def test_however_many_are_slowed_down_made_up_names_clear_nobodys_failures() -> None:
    marks = Marks(PAIR, 100)
    for number in range(40):
        for _ in range(5):
            marks.add(b"slow%d" % number, 0.0)
    for number in range(5000):
        marks.add(b"made up %d" % number, 1.0)
    assert all(marks.wait(b"slow%d" % number, 1.0) > 0 for number in range(40))


def test_made_up_names_do_not_make_the_gateway_forget_tries_that_are_under_way() -> None:
    marks = Marks(PAIR, 100)
    for _ in range(3):
        marks.begin(b"k", 0.0)
    for number in range(5000):
        marks.add(b"made up %d" % number, 1.0)
    assert marks.wait(b"k", 1.0) > 0


def test_of_those_who_are_known_no_more_are_kept_than_fit() -> None:
    door = Door(limit=8)
    for number in range(50):
        door.log_in(f"user{number}", HERE)
    assert door.throttle.entries == 8


def test_strangers_who_fail_push_out_nobody_who_is_known() -> None:
    door = Door(limit=100)
    door.log_in("alice", HERE)
    for number in range(5000):
        door.fail("alice", f"10.{number % 7}.{number // 256}.{number % 256}")
        door.fail(f"made-up-{number}", f"10.{number % 7}.{number // 256}.{number % 256}")
    assert door.wait("alice", HERE) == 0


def test_no_name_stands_in_memory() -> None:
    door = Door()
    door.fail("alice", HERE)
    door.log_in("bob", HERE)
    kept = [*door.throttle._pairs._marks, *door.throttle._accounts._marks, *door.throttle._known]
    assert not any(b"alice" in key or b"bob" in key for key in kept)

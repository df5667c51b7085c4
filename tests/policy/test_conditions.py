"""A rule holds on the days and in the hours that the wall of its zone shows, and for clients in its networks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.policy.conditions import ALL_DAYS, DAY, DAYS, Window, address_of
from tests.policy.reference import open_at, some_where, some_window

MINUTE, HOUR = 60, 3600
#: 1972 to 2100: before, some zones were off by seconds.
SOME_TIME = st.integers(63_072_000, 4_102_444_800)
SOME_ZONE = st.sampled_from(sorted(available_timezones() - {"localtime", "posixrules", "Factory"}))


def window(zone: str = "UTC", days: str = "", hours: str = "") -> Window:
    """As in a policy file."""
    begin, end = (int(text[:2]) * 60 + int(text[3:]) for text in (hours or "00:00-00:00").split("-"))
    return Window(zone, frozenset(map(DAYS.index, days.split())) or ALL_DAYS, begin, end or DAY)


def at(text: str, zone: str = "UTC", *, second_time: bool = False) -> float:
    """The UNIX time at which a wall of the zone shows this."""
    shown = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=int(second_time))
    assert datetime.fromtimestamp(shown.timestamp(), shown.tzinfo).replace(fold=0) == shown.replace(fold=0), "never"
    return shown.timestamp()


@given(some_window, some_where)
def test_a_window_is_open_in_the_minutes_of_the_week_that_it_says(wanted: Window, where: tuple[float, str]) -> None:
    assert wanted.holds(where[0]) is open_at(wanted, where[0])


@given(some_window, SOME_ZONE, SOME_TIME)
@example(window(hours="00:00-00:01"), "Asia/Kathmandu", 1_700_000_100)
def test_a_window_opens_and_closes_only_as_a_minute_of_unix_time_begins(wanted: Window, zone: str, time: int) -> None:
    wanted = Window(zone, wanted.days, wanted.begin, wanted.end)
    begins = time // MINUTE * MINUTE
    assert {wanted.holds(begins + part) for part in (0, 0.001, 31.5, 59.999)} == {wanted.holds(time)}


@given(some_window, SOME_TIME)
def test_a_window_and_the_rest_of_the_week_are_never_open_together_and_never_closed_together(
    wanted: Window, time: int
) -> None:
    """The hours of each day, and what is between them: also while clocks are put forward or back."""
    daily = Window(wanted.zone, ALL_DAYS, wanted.begin, wanted.end)
    rest = Window(wanted.zone, ALL_DAYS, wanted.end % DAY, wanted.begin or DAY)
    if (wanted.begin, wanted.end) != (0, DAY):
        assert daily.holds(time) is not rest.holds(time)
    others = Window(wanted.zone, ALL_DAYS - wanted.days, wanted.begin, wanted.end)
    assert daily.holds(time) is (wanted.holds(time) or others.holds(time))
    assert not (wanted.holds(time) and others.holds(time))


@pytest.mark.parametrize(
    ("days", "hours", "time", "is_open"),
    [
        ("", "08:00-20:00", "2026-12-01T07:59:59.999", False),
        ("", "08:00-20:00", "2026-12-01T08:00", True),
        ("", "08:00-20:00", "2026-12-01T19:59:59.999", True),
        ("", "08:00-20:00", "2026-12-01T20:00", False),
        ("", "20:00-00:00", "2026-12-01T23:59:59", True),
        ("", "20:00-00:00", "2026-12-02T00:00", False),
        ("tue", "20:00-00:00", "2026-12-02T00:00", False),
        ("", "00:00-08:00", "2026-12-02T00:00", True),
        ("tue", "", "2026-11-30T23:59:59.999", False),
        ("tue", "", "2026-12-01T00:00", True),
        ("tue", "", "2026-12-01T23:59:59.999", True),
        ("tue", "", "2026-12-02T00:00", False),
        # Across midnight a day is the one on which the hours begin.
        ("fri", "22:00-06:00", "2026-12-04T21:59", False),
        ("fri", "22:00-06:00", "2026-12-04T22:00", True),
        ("fri", "22:00-06:00", "2026-12-05T05:59:59", True),
        ("fri", "22:00-06:00", "2026-12-05T06:00", False),
        ("fri", "22:00-06:00", "2026-12-04T05:00", False),
        ("sun", "22:00-06:00", "2026-12-07T05:00", True),
        ("mon", "22:00-06:00", "2026-12-07T05:00", False),
        ("", "22:00-06:00", "2026-12-07T12:00", False),
        ("", "12:00-11:59", "2026-12-07T11:59:59", False),
        ("", "12:00-11:59", "2026-12-07T12:00", True),
    ],
)
def test_hours_and_days_begin_and_end_to_the_minute(days: str, hours: str, time: str, *, is_open: bool) -> None:
    for zone in ("UTC", "Europe/Madrid", "Asia/Kathmandu", "America/St_Johns"):
        assert window(zone, days, hours).holds(at(time, zone)) is is_open, zone


class TestOnDaysOnWhichClocksChange:
    def minutes(self, wanted: Window, day: str) -> int:
        """How long it is open from noon to noon around the night that ends on this day."""
        zone = ZoneInfo(wanted.zone)
        noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=zone)
        begin, end = ((noon - timedelta(days=days)).timestamp() for days in (1, 0))
        return sum(wanted.holds(time) for time in range(int(begin), int(end), MINUTE))

    @pytest.mark.parametrize(
        ("zone", "day", "change"),
        [
            ("UTC", "2026-03-29", 0),
            ("Europe/Madrid", "2026-03-29", -60),
            ("Europe/Madrid", "2026-10-25", 60),
            ("America/New_York", "2026-03-08", -60),
            ("America/New_York", "2026-11-01", 60),
            ("Australia/Lord_Howe", "2026-10-04", -30),
            ("Australia/Lord_Howe", "2026-04-05", 30),
        ],
    )
    def test_a_night_shift_is_as_long_as_the_night(self, zone: str, day: str, change: int) -> None:
        assert self.minutes(window(zone, hours="22:00-06:00"), day) == 8 * 60 + change
        assert self.minutes(window(zone, hours="13:00-14:00"), day) == 60

    def test_an_hour_that_is_left_out_never_is(self) -> None:
        assert self.minutes(window("Europe/Madrid", hours="02:00-03:00"), "2026-03-29") == 0
        assert self.minutes(window("Europe/Madrid", hours="02:30-04:00"), "2026-03-29") == 60
        assert self.minutes(window("Australia/Lord_Howe", hours="02:00-03:00"), "2026-10-04") == 30

    def test_an_hour_that_is_shown_twice_is_open_both_times(self) -> None:
        twice = window("Europe/Madrid", hours="02:00-03:00")
        times = [at("2026-10-25T02:30", "Europe/Madrid", second_time=second) for second in (False, True)]
        assert times[1] - times[0] == HOUR
        assert [twice.holds(time) for time in times] == [True, True]
        assert self.minutes(twice, "2026-10-25") == 120
        assert self.minutes(window("Australia/Lord_Howe", hours="01:30-02:00"), "2026-04-05") == 60

    def test_a_day_that_was_left_out_is_no_day(self) -> None:
        """Samoa went from Thursday to Saturday in the last days of 2011."""
        zone, midnight = "Pacific/Apia", at("2011-12-31T00:00", "Pacific/Apia")
        friday, thursday = window(zone, "fri"), window(zone, "thu")
        assert [thursday.holds(midnight - 1), friday.holds(midnight - 1)] == [True, False]
        assert [window(zone, "sat").holds(midnight), friday.holds(midnight)] == [True, False]
        assert not any(friday.holds(midnight + hours * HOUR) for hours in range(-48, 48))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::FFFF:a01:203", "10.1.2.3"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("", None),
        ("unix:", None),
        ("010.1.2.3", None),
        ("10.1.2.3:80", None),
        ("10.1.2", None),
        ("localhost", None),
    ],
)
def test_an_address_is_read_in_one_way_or_is_none(text: str, address: str | None) -> None:
    found = address_of(text)
    assert (found and str(found)) == address


def test_a_time_is_that_of_the_zone_and_not_of_the_machine() -> None:
    madrid = window("Europe/Madrid", "mon", "00:00-01:00")
    assert madrid.holds(datetime(2026, 12, 6, 23, 30, tzinfo=UTC).timestamp())
    assert not madrid.holds(datetime(2026, 12, 7, 0, 30, tzinfo=UTC).timestamp())

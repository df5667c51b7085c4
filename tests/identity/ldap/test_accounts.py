"""Accounts that may not be used, as the directories of the world mark them."""

from __future__ import annotations

import pytest

from gateway.identity.ldap import accounts
from gateway.identity.ldap.session import BindAnswer, Entry

NOW = 1_900_000_000.0  # 2030-03-17
DAYS = int(NOW // 86_400)
AD_NOW = int((NOW + 11_644_473_600) * 10_000_000)


def marked(**attributes: str) -> Entry:
    return Entry(
        "uid=a,dc=test", {name.replace("_", "-").lower(): (value.encode(),) for name, value in attributes.items()}
    )


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ({"userAccountControl": "514"}, "disabled"),
        ({"userAccountControl": "66050"}, "disabled"),
        ({"nsAccountLock": "TRUE"}, "disabled"),
        ({"nsAccountLock": "true"}, "disabled"),
        ({"loginDisabled": "TRUE"}, "disabled"),
        ({"ds_pwp_account_disabled": "true"}, "disabled"),
        ({"msDS_User_Account_Control_Computed": "16"}, "locked"),
        ({"pwdAccountLockedTime": "000001010000Z"}, "locked"),
        ({"accountExpires": str(AD_NOW - 1)}, "expired"),
        ({"shadowExpire": str(DAYS)}, "expired"),
        ({"shadowExpire": "0"}, "expired"),
    ],
)
@pytest.mark.parametrize("asked_bind", [True, False])
def test_an_account_that_is_marked_is_refused(mark: dict[str, str], why: str, asked_bind: bool) -> None:
    assert accounts.refused(marked(**mark), NOW, asked_bind=asked_bind) == why


@pytest.mark.parametrize(
    "mark",
    [
        {},
        {"userAccountControl": "512"},
        {"userAccountControl": "66048", "msDS_User_Account_Control_Computed": "0", "lockoutTime": "0"},
        {"nsAccountLock": "FALSE"},
        {"accountExpires": "0"},
        {"accountExpires": "9223372036854775807"},
        {"accountExpires": str(AD_NOW + 10_000_000)},
        {"shadowExpire": "-1"},
        {"shadowExpire": str(DAYS + 1)},
        {"shadowExpire": "soon"},
    ],
)
@pytest.mark.parametrize("asked_bind", [True, False])
def test_an_account_against_which_nothing_speaks_is_not(mark: dict[str, str], asked_bind: bool) -> None:
    assert accounts.refused(marked(**mark), NOW, asked_bind=asked_bind) == ""


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ({"pwdAccountLockedTime": "20300317000000Z"}, "locked"),
        ({"lockoutTime": str(AD_NOW - 1)}, "locked"),
        # The directory itself knows when a lock-out is over; the time of the last one stays until the next login.
        ({"lockoutTime": str(AD_NOW - 1), "msDS_User_Account_Control_Computed": "0"}, ""),
    ],
)
def test_a_lock_out_that_may_be_over_is_left_to_the_bind_where_there_is_one(mark: dict[str, str], why: str) -> None:
    assert accounts.refused(marked(**mark), NOW, asked_bind=True) == ""
    assert accounts.refused(marked(**mark), NOW, asked_bind=False) == why


AD = "80090308: LdapErr: DSID-0C09044E, comment: AcceptSecurityContext error, data {}, v2580\0"


@pytest.mark.parametrize("code", ["530", "531", "532", "533", "534", "701", "773", "775"])
def test_an_active_directory_says_why_it_refuses_a_right_password(code: str) -> None:
    answer = BindAnswer(49, "invalidCredentials", AD.format(code))
    assert code in accounts.refused_at_bind(answer)
    assert not accounts.unknown_at_bind(answer)


@pytest.mark.parametrize("code", ["52e", "525", "57"])
def test_a_wrong_name_or_password_is_no_refused_account(code: str) -> None:
    answer = BindAnswer(49, "invalidCredentials", AD.format(code))
    assert accounts.refused_at_bind(answer) == ""
    assert accounts.unknown_at_bind(answer) is (code == "525")


@pytest.mark.parametrize(
    ("value", "refuses"),
    [
        (b"\x30\x03\x81\x01\x00", True),  # passwordExpired
        (b"\x30\x03\x81\x01\x01", True),  # accountLocked
        (b"\x30\x03\x81\x01\x02", True),  # changeAfterReset
        (b"\x30\x03\x81\x01\x05", False),  # insufficientPasswordQuality
        (b"\x30\x08\xa0\x03\x80\x01\x02\x81\x01\x02", True),  # a warning before it
        (b"\x30\x05\xa0\x03\x80\x01\x02", False),  # a warning alone
        (b"\x30\x00", False),
        (b"", False),
        (b"\x30\x03\x81\x01", False),
        (b"\x30\x03\x81", False),
        (b"\xff" * 10, False),
    ],
)
def test_the_password_policy_of_a_directory_is_heard(value: bytes, refuses: bool) -> None:
    assert bool(accounts.refused_at_bind(BindAnswer(0, "success", "", value))) is refuses

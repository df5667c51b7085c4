"""Whether an account may be used at all, from what its entry and its bind say.

Knows: the marks that directories put on accounts which are disabled, locked or have expired. Must not know: passwords.
Pure: the time comes in.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.identity.ldap.session import BindAnswer, Entry

#: Attributes that these decisions are made from; operational ones come only when they are asked for by name.
ATTRIBUTES: Final = (
    "userAccountControl",
    "msDS-User-Account-Control-Computed",
    "lockoutTime",
    "accountExpires",
    "pwdAccountLockedTime",
    "nsAccountLock",
    "loginDisabled",
    "ds-pwp-account-disabled",
    "shadowExpire",
)
#: Switches of 389 Directory and FreeIPA, eDirectory, PingDirectory.
SWITCHES: Final = ("nsAccountLock", "loginDisabled", "ds-pwp-account-disabled")

DISABLED: Final = 0x0002  # userAccountControl: MS-ADTS 2.2.16
LOCKED: Final = 0x0010  # in msDS-User-Account-Control-Computed, which knows when a lock-out is over
NEVER: Final = frozenset({0, 0x7FFFFFFFFFFFFFFF})  # accountExpires: MS-ADA1 2.2
FILETIME_EPOCH: Final = 11_644_473_600  # seconds from 1601 to 1970
DAY: Final = 86_400
LOCKED_FOR_GOOD: Final = "000001010000Z"  # draft-behera-ldap-password-policy section 5.3.3

#: What Active Directory says, in hexadecimal, when the name is known and the account is not to be used: hours,
#: workstation, password expired, disabled, kind of logon, account expired, password must change, locked.
REFUSING: Final = frozenset({"530", "531", "532", "533", "534", "701", "773", "775", "777"})
UNKNOWN_USER: Final = "525"
_CODE = re.compile(r"\bdata ([0-9a-fA-F]{1,8})\b")

#: Errors in the control of the password policy: passwordExpired, accountLocked, changeAfterReset.
POLICY_REFUSES: Final = {0: "the password has expired", 1: "it is locked", 2: "its password has to be changed first"}


def refused(entry: Entry, now: float, *, asked_bind: bool) -> str:
    """Why the account is not to be used, "" where nothing speaks against it. `now` is UNIX time in seconds.

    `asked_bind`: a bind will tell as well, so a lock-out that may be over is left to it.
    """
    control = _number(entry, "userAccountControl") or 0
    if control & DISABLED or any(entry.text(name) in {"TRUE", "true", "True"} for name in SWITCHES):
        return "disabled"
    if _locked(entry, asked_bind=asked_bind):
        return "locked"
    expires = _number(entry, "accountExpires")
    if expires is not None and expires not in NEVER and expires / 10_000_000 - FILETIME_EPOCH <= now:
        return "expired"
    last_day = _number(entry, "shadowExpire")  # RFC 2307: the day from which it may not be used, since 1970
    if last_day is not None and last_day != -1 and now >= last_day * DAY:
        return "expired"
    return ""


def _locked(entry: Entry, *, asked_bind: bool) -> bool:
    locked_at = entry.text("pwdAccountLockedTime")
    if locked_at is not None and (locked_at == LOCKED_FOR_GOOD or not asked_bind):
        return True
    computed = _number(entry, "msDS-User-Account-Control-Computed")
    if computed is not None:
        return bool(computed & LOCKED)
    return not asked_bind and bool(_number(entry, "lockoutTime"))


def refused_at_bind(answer: BindAnswer) -> str:
    """Why the account is not to be used, from the answer to a bind; "" where it says nothing of that."""
    if (code := _ad_code(answer)) in REFUSING:
        return f"refused by the directory, code {code}"
    error = _policy_error(answer.policy)
    return f"refused by the password policy: {POLICY_REFUSES[error]}" if error in POLICY_REFUSES else ""


def unknown_at_bind(answer: BindAnswer) -> bool:
    """True where the directory says that it does not know the name."""
    return _ad_code(answer) == UNKNOWN_USER


def _ad_code(answer: BindAnswer) -> str:
    code = _CODE.search(answer.message)
    return code[1].lower() if code else ""


def _policy_error(value: bytes) -> int | None:
    """PasswordPolicyResponseValue: a sequence of a warning [0] and an error [1], each optional."""
    at = 2
    while value[:1] == b"\x30" and at + 2 <= len(value):
        kind, size = value[at], value[at + 1]
        if kind == 0x81 and size == 1 and at + 2 < len(value):
            return value[at + 2]
        at += 2 + size
    return None


def _number(entry: Entry, attribute: str) -> int | None:
    text = entry.text(attribute)
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,20}", text) else None

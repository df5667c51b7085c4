"""Decide again what an audit line says was decided.

Knows: which fields of a line a decision hangs on. Pure: policies are found for it.
Must not know: files, where policies are kept, how a difference is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.call import Grant, ModelRef, Operation, Principal
from gateway.policy.asked import Asked
from gateway.policy.engine import Policy
from gateway.policy.explain import outcome

_OPERATIONS: Final = {operation.value: operation for operation in Operation}

# A day before the year 10000 in UNIX time, which no calendar shows, not even that of a zone in which it begins earlier.
_LAST: Final = 253402300799 - 24 * 60 * 60

_NOT_OURS: Final = "not an audit line of a gateway that records what a decision hangs on"


class NotReplayable(Exception):  # noqa: N818  named for what happened, like the refusals
    """This line is no decision that could be made again. The text says why, the same for all such lines.

    `harmless`: because no rule was asked, or many questions at once.
    """

    def __init__(self, why: str, *, harmless: bool = False) -> None:
        super().__init__(why)
        self.harmless = harmless


@dataclass(frozen=True, slots=True)
class Logged:
    """What was asked, under the policy of which digest, and what came out.

    `reason`: `ok` or the answer's code, with its `status` and `detail`.
    """

    asked: Asked
    policy: str
    hide_models: bool
    allowed: bool
    rule: str | None
    reason: str
    groups_used: tuple[str, ...]
    decision_id: str
    status: int
    detail: str


def logged(line: Mapping[str, Any]) -> Logged:
    """From the members of an audit line. Raises `NotReplayable`."""
    try:
        return _logged(line)
    except _Odd:
        raise NotReplayable(_NOT_OURS) from None


def _logged(line: Mapping[str, Any]) -> Logged:
    if _member(line, "decision_id", str, type(None)) is None:
        raise NotReplayable("no decision: nobody was identified", harmless=True)
    if _time(line) is None:
        raise NotReplayable("no decision: the call was answered before any rule was asked", harmless=True)
    name = _member(line, "model", str, type(None))
    if name is None:
        raise NotReplayable("a list of models, filtered by many decisions; name one with --model", harmless=True)
    operation = _OPERATIONS.get(_member(line, "operation", str))
    if operation is None:
        raise _Odd
    return _decided(
        line, ModelRef(name, operation, _member(line, "version", str, type(None)), _member(line, "explicit", bool))
    )


def logged_for(line: Mapping[str, Any], model: ModelRef) -> Logged:
    """As `logged`, as if the call had been for this model. Raises `NotReplayable`."""
    try:
        return _decided(line, model)
    except _Odd:
        raise NotReplayable("nobody was identified, or it is not an audit line of such a gateway") from None


def _decided(line: Mapping[str, Any], model: ModelRef) -> Logged:
    if _member(line, "left_out", int):
        raise NotReplayable("more groups, scopes or longer names than a line holds")
    principal = Principal(
        subject=_member(line, "subject", str),
        issuer=_member(line, "issuer", str),
        provider=_member(line, "provider", str),
        groups=frozenset(_names(line, "groups")),
        client=_member(line, "client", str, type(None)),
        scopes=frozenset(_names(line, "scopes")),
        groups_known=_member(line, "groups_known", bool),
    )
    return Logged(
        Asked(principal, model, _time(line) or 0.0, _member(line, "peer", str)),
        _member(line, "policy", str),
        _member(line, "hide_models", bool),
        _member(line, "decision", str) == "allow",
        _member(line, "rule", str, type(None)),
        _member(line, "reason", str),
        _names(line, "groups_used"),
        _member(line, "decision_id", str),
        _member(line, "status", int),
        _member(line, "detail", str, type(None)) or "no detail is logged",
    )


class _Odd(Exception):  # noqa: N818  named for what the line is
    """A member is missing, or is nothing that a gateway writes there."""


def _member(line: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """What stands there, if it is exactly of one of these kinds: no `bool` is a number. Raises `_Odd`."""
    value = line.get(name, _Odd)
    if type(value) not in kinds:
        raise _Odd
    return value


def _names(line: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts; a text is none of letters. Raises `_Odd`."""
    names = _member(line, name, list)
    if not all(type(each) is str for each in names):
        raise _Odd
    return tuple(names)


def _time(line: Mapping[str, Any]) -> float | None:
    """UNIX time that a calendar can show; None where nothing was decided. Raises `_Odd`."""
    at = _member(line, "decided_at", int, float, type(None))
    if at is not None and not 0 <= at <= _LAST:
        raise _Odd
    return None if at is None else float(at)


def difference(policy: Policy, made: Logged) -> str:
    """What comes out otherwise under this policy; an empty text where it is the same."""
    asked = made.asked
    again = outcome(policy, asked, policy.holding(asked.at, asked.peer))
    if isinstance(again, Grant):
        if not made.allowed:
            return f"was denied ({made.reason}), and {again.rule} allows it"
        if again.rule != made.rule:
            return f"was allowed by {made.rule}, and now {again.rule} allows it"
        return "" if again.groups_used == made.groups_used else f"{again.rule} allowed it for other groups"
    if made.allowed:
        return f"was allowed by {made.rule}, and now it is denied ({again.code})"
    if again.code != made.reason:
        return f"was answered {made.reason}, and now {again.code}"
    now = again.rule or None
    return "" if now == made.rule else f"was denied by {_by(made.rule)}, and now by {_by(now)}"


def _by(rule: str | None) -> str:
    return rule or "no rule"

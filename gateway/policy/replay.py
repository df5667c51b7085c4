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
    except (KeyError, TypeError, AttributeError):
        raise NotReplayable("not an audit line of a gateway that records what a decision hangs on") from None


def _logged(line: Mapping[str, Any]) -> Logged:
    if line["decision_id"] is None:
        raise NotReplayable("no decision: nobody was identified", harmless=True)
    if line["decided_at"] is None:
        raise NotReplayable("no decision: the call was answered before any rule was asked", harmless=True)
    if line["model"] is None:
        raise NotReplayable("a list of models, filtered by many decisions; name one with --model", harmless=True)
    return _decided(line, ModelRef(line["model"], _OPERATIONS[line["operation"]], line["version"], line["explicit"]))


def logged_for(line: Mapping[str, Any], model: ModelRef) -> Logged:
    """As `logged`, as if the call had been for this model. Raises `NotReplayable`."""
    try:
        return _decided(line, model)
    except (KeyError, TypeError, AttributeError):
        raise NotReplayable("nobody was identified, or it is not an audit line of such a gateway") from None


def _decided(line: Mapping[str, Any], model: ModelRef) -> Logged:
    if line["left_out"]:
        raise NotReplayable("more groups, scopes or longer names than a line holds")
    principal = Principal(
        subject=line["subject"],
        issuer=line["issuer"],
        provider=line["provider"],
        groups=frozenset(line["groups"]),
        client=line["client"],
        scopes=frozenset(line["scopes"]),
        groups_known=line["groups_known"],
    )
    return Logged(
        Asked(principal, model, float(line["decided_at"] or 0), line["peer"]),
        line["policy"],
        line["hide_models"],
        line["decision"] == "allow",
        line["rule"],
        line["reason"],
        tuple(line["groups_used"]),
        line["decision_id"],
        line["status"],
        line["detail"] or "no detail is logged",
    )


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
    return "" if now == made.rule else f"was denied by {made.rule}, and now by {now}"

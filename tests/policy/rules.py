"""A caller, a question and rules that differ in what a test is about."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.call import ModelRef, Operation, Principal
from gateway.errors import Refusal
from gateway.policy.engine import Policy
from gateway.policy.rules import Effect, Rule

ANN = Principal("ann", "https://idp.test", "corp", frozenset({"ds", "staff"}), client="app")
OVERFULL = Principal("ann", "https://idp.test", "corp", groups_known=False)
CHAT = ModelRef("meta/llama", Operation.INFER)


def rule(id_: str = "r", effect: Effect = Effect.ALLOW, **more: Any) -> Rule:
    """A rule for `ds` on every model unless told otherwise; `operations` count as written out."""
    given_ = {"groups": frozenset({"ds"})} if not more.keys() & {"users", "groups", "clients", "issuers"} else {}
    if "operations" in more:
        more["explicit_operations"] = more["operations"] = frozenset(more["operations"])
    return Rule(**{"id": id_, "file": "p.yaml", "line": 7, "effect": effect, "models": ("*",), **given_, **more})


def refused(policy: Policy, caller: Principal = ANN, model: ModelRef = CHAT) -> Refusal:
    with pytest.raises(Refusal) as caught:
        policy.authorize(caller, model)
    return caught.value

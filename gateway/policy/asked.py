"""A question to the rules, and everything in which a rule may fail to let the call in.

Knows: what a decision hangs on. Must not know: rules, how they decide, words for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gateway.call import ModelRef, Principal


class Respect(Enum):
    """In what a rule may fail to let a call in."""

    SUBJECT = "subject"
    GROUPS_UNKNOWN = "groups_unknown"
    ISSUER = "issuer"
    SCOPE = "scope"
    NOT_GROUPS = "not_groups"
    MODEL = "model"
    OPERATION = "operation"
    EXPLICIT = "explicit"
    VERSION = "version"
    TIME = "time"
    NETWORK = "network"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for what, `at` which UNIX time, from which address (None where nobody knows it)."""

    principal: Principal
    model: ModelRef
    at: float
    peer: str | None = None

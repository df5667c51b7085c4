"""Who may do what with which model: rules, and the decision they make together.

Knows: rules, callers, models, operations. Pure: no clock, no I/O; a `Policy` never changes, a reload makes a new one.
Must not know: files, tokens, directories, HTTP, which models exist.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeVar

from gateway.call import Grant, ModelRef, Operation, Principal
from gateway.errors import Forbidden, GroupsUnknown, NotFound, Refusal, RouteForbidden, UnknownModel
from gateway.globs import GlobMasks, compile_glob

Key = TypeVar("Key")

DEFAULT_OPERATIONS = frozenset({Operation.INFER, Operation.STREAM, Operation.LIST, Operation.METADATA})

# Decisions kept per policy: about 10 MB at worst, and far more (caller, model) pairs than are busy at one time.
DECISIONS_LIMIT = 10_000

# Triton reads a version with `stol`, to which "02", "+2" and "2x" are 2 as well: only one spelling names it here.
VERSION = re.compile(r"0|[1-9][0-9]{0,18}")

# What the caller wanted, in words that fit before the name of a model.
WORDS = {
    Operation.INFER: "run inference on",
    Operation.STREAM: "stream from",
    Operation.LIST: "list",
    Operation.METADATA: "read the metadata of",
    Operation.HEALTH: "read the health of",
    Operation.METRICS: "read the metrics of",
    Operation.ADMIN: "administer",
}


class Effect(StrEnum):
    """What a rule does where it matches."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the policy, and where it stands.

    A caller is meant who is one of `users`, in one of `groups` or comes through one of `clients`, and whom one of
    `issuers` (names of providers) vouches for; empty `issuers` are any, `issuers` alone is everybody they vouch for.
    `explicit_operations` are those of `operations` that were written out rather than defaulted. Empty `versions`: any.
    Raises `ValueError` when it could never match, or would match everybody.
    """

    id: str
    file: str
    line: int
    effect: Effect
    models: tuple[str, ...]
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    issuers: frozenset[str] = frozenset()
    operations: frozenset[Operation] = DEFAULT_OPERATIONS
    explicit_operations: frozenset[Operation] = frozenset()
    versions: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not (self.users or self.groups or self.clients or self.issuers):
            raise ValueError("a rule names at least one user, group, client or issuer")
        if not self.models or not self.operations:
            raise ValueError("a rule names at least one model and one operation")
        if not self.explicit_operations <= self.operations:
            raise ValueError("what is written out is part of the operations")
        for version in self.versions:
            if not VERSION.fullmatch(version):
                raise ValueError(f"a version is a whole number without leading zeros, not {version!r}")
        for pattern in self.models:
            compile_glob(pattern)

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    @property
    def anybody(self) -> bool:
        """Whether everybody whom its issuers vouch for is meant."""
        return not (self.users or self.groups or self.clients)


class Why(Enum):
    """How a decision came about; only `ALLOWED` lets a call pass."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOTHING = "nothing"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say of one caller and one model, and the rule that decided (for `GROUPS`: that might have)."""

    why: Why
    rule: Rule | None = None

    @property
    def detail(self) -> str:
        """For the log."""
        if self.rule is None:
            return "no rule allows it"
        place = f"rule={self.rule.id} at {self.rule.place}"
        return f"groups of the caller unknown, {place}" if self.why is Why.GROUPS else place


NOTHING = Decision(Why.NOTHING)


class _Masks:
    """For each value a rule can ask for, the rules that ask for it: bit n stands for rule n.

    One decision is then a handful of `&` and `|` over numbers as wide as there are rules.
    """

    __slots__ = (
        "any_issuer",
        "any_version",
        "anybody",
        "clients",
        "deny",
        "explicit",
        "group_names",
        "grouped",
        "groups",
        "issuers",
        "models",
        "operations",
        "users",
        "versions",
    )

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        numbered = [(1 << number, rule) for number, rule in enumerate(rules)]
        self.anybody = sum(bit for bit, rule in numbered if rule.anybody)
        self.any_issuer = sum(bit for bit, rule in numbered if not rule.issuers)
        self.any_version = sum(bit for bit, rule in numbered if not rule.versions)
        self.deny = sum(bit for bit, rule in numbered if rule.effect is Effect.DENY)
        self.grouped = sum(bit for bit, rule in numbered if rule.groups)
        self.users = _joined((user, bit) for bit, rule in numbered for user in rule.users)
        self.groups = _joined((group, bit) for bit, rule in numbered for group in rule.groups)
        self.group_names = frozenset(self.groups)
        self.clients = _joined((client, bit) for bit, rule in numbered for client in rule.clients)
        self.issuers = _joined((issuer, bit) for bit, rule in numbered for issuer in rule.issuers)
        self.versions = _joined((version, bit) for bit, rule in numbered for version in rule.versions)
        self.operations = _joined((operation, bit) for bit, rule in numbered for operation in rule.operations)
        self.explicit = _joined((operation, bit) for bit, rule in numbered for operation in rule.explicit_operations)
        self.models = GlobMasks((pattern, bit) for bit, rule in numbered for pattern in rule.models)

    def naming(self, principal: Principal) -> int:
        """The rules whose subjects the caller is, leaving issuers aside."""
        named = self.anybody | self.users.get(principal.subject, 0)
        if principal.client is not None:
            named |= self.clients.get(principal.client, 0)
        for group in principal.groups & self.group_names:
            named |= self.groups[group]
        return named

    def written(self, model: ModelRef) -> int:
        """The rules that list the operation by name."""
        return self.explicit.get(model.operation, 0)

    def covering(self, principal: Principal, model: ModelRef, operation: Operation) -> tuple[int, int]:
        """The allowing and the denying rules for `operation` on this model and version under the caller's issuer."""
        covers = self.models(model.name) & self.operations.get(operation, 0)
        covers &= self.any_issuer | self.issuers.get(principal.provider, 0)
        allow, deny = covers & ~self.deny, covers & self.deny
        if model.explicit:
            allow &= self.explicit.get(operation, 0)
        if model.version and VERSION.fullmatch(model.version):
            versions = self.any_version | self.versions.get(model.version, 0)
            return allow & versions, deny & versions
        # The server picks the version: it may be the one that is denied, and need not be the one that is allowed.
        return allow & self.any_version, deny


def _joined(pairs: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    table: dict[Key, int] = {}
    for key, bit in pairs:
        table[key] = table.get(key, 0) | bit
    return table


class Policy:
    """All rules of one generation. Deny by default; a denying rule that matches wins over any that allows.

    `hide_models`: a model that is not granted answers like one that does not exist.
    """

    __slots__ = ("_decided", "_masks", "hide_models", "rules")

    def __init__(self, rules: Iterable[Rule], *, hide_models: bool = False) -> None:
        # In the order of their places: which of several rules is named must not depend on the order given.
        self.rules = tuple(sorted(rules, key=lambda rule: (rule.file, rule.line, rule.id)))
        self.hide_models = hide_models
        self._masks = _Masks(self.rules)
        self._decided: OrderedDict[tuple[Principal, ModelRef], Grant | Decision] = OrderedDict()

    def authorize(self, principal: Principal, model: ModelRef) -> Grant:
        """The grant of this caller for this model and operation.

        Raises `Forbidden`, `GroupsUnknown`, or with `hide_models` `UnknownModel`; where the operation has to be listed
        by name, `NotFound`, or `RouteForbidden` if a rule names and denies it. `detail` says which rule, and where.
        """
        outcome = self._outcome(principal, model)
        if isinstance(outcome, Grant):
            return outcome
        refusal = self._refusal(outcome, model)
        if outcome.rule is not None and outcome.why is Why.DENIED:
            refusal.rule = outcome.rule.id
        raise refusal

    @property
    def entries(self) -> int:
        """Decisions remembered."""
        return len(self._decided)

    def may(self, principal: Principal, model: ModelRef) -> bool:
        """Whether `authorize` would give a grant."""
        return isinstance(self._outcome(principal, model), Grant)

    def decide(self, principal: Principal, model: ModelRef) -> Decision:
        """What the rules say, and which of them; not remembered."""
        masks = self._masks
        named = masks.naming(principal)
        doubtful = 0 if principal.groups_known else masks.grouped
        allow, deny = masks.covering(principal, model, model.operation)
        if model.operation is Operation.HEALTH and model.name and not model.explicit:
            # Whether a model is ready is no secret to those who may run it.
            infer, no_infer = masks.covering(principal, model, Operation.INFER)
            allow |= 0 if no_infer & (named | doubtful) else infer
        if denied := deny & named:
            return self._decision(Why.DENIED, denied & masks.written(model) or denied)
        if (allowed := allow & named) and not deny & doubtful:
            return self._decision(Why.ALLOWED, allowed)
        if hoped := allow & (named | doubtful):
            return self._decision(Why.GROUPS, deny & doubtful or hoped)
        return NOTHING

    def _decision(self, why: Why, rules: int) -> Decision:
        first = (rules & -rules).bit_length() - 1
        return Decision(why, self.rules[first])

    def _outcome(self, principal: Principal, model: ModelRef) -> Grant | Decision:
        key = (principal, model)
        outcome = self._decided.get(key)
        if outcome is None:
            outcome = _granted(self.decide(principal, model), principal, model)
            if len(self._decided) >= DECISIONS_LIMIT:
                self._decided.popitem(last=False)
            self._decided[key] = outcome
        return outcome

    def _refusal(self, decision: Decision, model: ModelRef) -> Refusal:
        """A new exception each time: one that is raised again would grow by a traceback each time."""
        detail = decision.detail
        if model.explicit:
            named = decision.rule is not None and model.operation in decision.rule.explicit_operations
            closed = self.hide_models or not named or decision.why is not Why.DENIED
            return NotFound(detail=detail) if closed else RouteForbidden(detail=detail)
        if self.hide_models:
            return UnknownModel(detail=detail, param="model")
        if decision.why is Why.GROUPS:
            return GroupsUnknown(detail=detail, param="model")
        return Forbidden(_sentence(model), detail=detail, param="model")


def _granted(decision: Decision, principal: Principal, model: ModelRef) -> Grant | Decision:
    rule = decision.rule
    if decision.why is not Why.ALLOWED or rule is None:
        return decision
    return Grant(principal, model, rule.id, rule.place, tuple(sorted(principal.groups & rule.groups)))


def _sentence(model: ModelRef) -> str:
    version = f" version {model.version}" if model.version and VERSION.fullmatch(model.version) else ""
    return (
        f"You are not allowed to {WORDS[model.operation]} model '{model.name}'{version}; "
        f"ask an administrator of this gateway for a group that may (operation '{model.operation.value}')."
    )

"""Who may do what with which model: the decision that rules make together.

Knows: rules, callers, models, operations. Pure: no clock, no I/O; a `Policy` never changes, a reload makes a new one.
A decision is made under `holding`: the rules, one bit each, whose conditions hold for this time and client address.
Must not know: files, tokens, directories, HTTP, which models exist.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from gateway.call import Grant, ModelRef, Operation, Principal, Rulebook
from gateway.errors import Forbidden, GroupsUnknown, NotFound, Refusal, RouteForbidden, UnknownModel
from gateway.globs import GlobMasks
from gateway.policy.holding import Holding
from gateway.policy.rules import VERSION, Effect, Rule
from gateway.terms import NO_TERMS, Terms

Key = TypeVar("Key")

# Decisions kept per policy: about 10 MB at worst, and far more (caller, model) pairs than are busy at one time. Where
# rules ask for networks each may have a `holding` of its own, a bit for each rule: 14 MB more with 10 000 rules.
DECISIONS_LIMIT = 10_000

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


class Why(Enum):
    """How a decision came about; only `ALLOWED` lets a call pass."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOTHING = "nothing"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say of one caller and one model, and the rule that decided (for `GROUPS`: that might have).

    `terms`: see `Grant`.
    """

    why: Why
    rule: Rule | None = None
    terms: tuple[tuple[str, Terms], ...] = ()

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
        "not_grouped",
        "not_groups",
        "operations",
        "same_terms",
        "scoped",
        "scopes",
        "terms",
        "users",
        "versions",
    )

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        numbered = [(1 << number, rule) for number, rule in enumerate(rules)]
        self.anybody = sum(bit for bit, rule in numbered if rule.anybody)
        self.any_issuer = sum(bit for bit, rule in numbered if not rule.issuers)
        self.any_version = sum(bit for bit, rule in numbered if not rule.versions)
        self.deny = sum(bit for bit, rule in numbered if rule.effect is Effect.DENY)
        self.scoped = sum(bit for bit, rule in numbered if rule.scopes)
        self.not_grouped = sum(bit for bit, rule in numbered if rule.not_groups)
        self.terms = sum(bit for bit, rule in numbered if rule.terms != NO_TERMS)
        self.same_terms = _joined((rule.terms, bit) for bit, rule in numbered)
        self.grouped = sum(bit for bit, rule in numbered if rule.groups)
        self.users = _joined((user, bit) for bit, rule in numbered for user in rule.users)
        self.groups = _joined((group, bit) for bit, rule in numbered for group in rule.groups)
        self.not_groups = _joined((group, bit) for bit, rule in numbered for group in rule.not_groups)
        self.group_names = frozenset(self.groups) | frozenset(self.not_groups)
        self.scopes = _joined((scope, bit) for bit, rule in numbered for scope in rule.scopes)
        self.clients = _joined((client, bit) for bit, rule in numbered for client in rule.clients)
        self.issuers = _joined((issuer, bit) for bit, rule in numbered for issuer in rule.issuers)
        self.versions = _joined((version, bit) for bit, rule in numbered for version in rule.versions)
        self.operations = _joined((operation, bit) for bit, rule in numbered for operation in rule.operations)
        self.explicit = _joined((operation, bit) for bit, rule in numbered for operation in rule.explicit_operations)
        self.models = GlobMasks((pattern, bit) for bit, rule in numbered for pattern in rule.models)

    def naming(self, principal: Principal) -> tuple[int, int]:
        """The rules whose subjects the caller is, and those that hang on groups nobody knows; leaving issuers aside."""
        named = self.anybody | self.users.get(principal.subject, 0)
        if principal.client is not None:
            named |= self.clients.get(principal.client, 0)
        left_out = 0
        for group in principal.groups & self.group_names:
            named |= self.groups.get(group, 0)
            left_out |= self.not_groups.get(group, 0)
        if self.scoped:
            lacking = self.scoped
            for scope in principal.scopes:
                lacking &= ~self.scopes.get(scope, 0)
            left_out |= lacking
        if principal.groups_known:
            return named & ~left_out, 0
        sure = named & ~self.not_grouped & ~left_out
        return sure, (self.grouped | named) & ~left_out & ~sure

    def written(self, model: ModelRef) -> int:
        """The rules that list the operation by name."""
        return self.explicit.get(model.operation, 0)

    def covering(self, principal: Principal, model: ModelRef, operation: Operation, holding: int) -> tuple[int, int]:
        """The allowing and the denying rules for `operation` on this model and version under the caller's issuer."""
        covers = holding & self.models(model.name) & self.operations.get(operation, 0)
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

    `hide_models`: a model that is not granted answers like one that does not exist. `digest` names the text of the
    rules. Where `holding` is left out, nothing is known of time and address: a condition does not let in, and denies.
    """

    __slots__ = ("_decided", "_holding", "_masks", "digest", "hide_models", "rules")

    def __init__(self, rules: Iterable[Rule], *, hide_models: bool = False, digest: str = "") -> None:
        # In the order of their places: which of several rules is named must not depend on the order given.
        self.rules = tuple(sorted(rules, key=lambda rule: (rule.file, rule.line, rule.id)))
        self.hide_models = hide_models
        self.digest = digest
        self._masks = _Masks(self.rules)
        self._holding = Holding(self.rules)
        self._decided: OrderedDict[tuple[Principal, ModelRef, int], Grant | Decision] = OrderedDict()

    def holding(self, at: float, peer: str | None) -> int:
        """The rules whose conditions hold `at` this UNIX time for a client at `peer`, None where nobody knows that."""
        return self._holding.at(at, peer)

    def authorize(self, principal: Principal, model: ModelRef, holding: int | None = None) -> Grant:
        """The grant of this caller for this model and operation.

        Raises `Forbidden`, `GroupsUnknown`, or with `hide_models` `UnknownModel`; where the operation has to be listed
        by name, `NotFound`, or `RouteForbidden` if a rule names and denies it. `detail` says which rule, and where.
        """
        outcome = self._outcome(principal, model, holding)
        if isinstance(outcome, Grant):
            return outcome
        refusal = self._refusal(outcome, model)
        if outcome.rule is not None and outcome.why is Why.DENIED:
            refusal.rule = outcome.rule.id
        raise refusal

    def rulebook(self, generation: int) -> Rulebook:
        """What the record of a decision says of these rules, as those of this generation."""
        masks = self._masks
        return Rulebook(generation, self.digest, masks.group_names, frozenset(masks.scopes), self.hide_models)

    @property
    def entries(self) -> int:
        """Decisions remembered."""
        return len(self._decided)

    def may(self, principal: Principal, model: ModelRef, holding: int | None = None) -> bool:
        """Whether `authorize` would give a grant."""
        return isinstance(self._outcome(principal, model, holding), Grant)

    def decide(self, principal: Principal, model: ModelRef, holding: int | None = None) -> Decision:
        """What the rules say, and which of them; not remembered."""
        masks, holding = self._masks, self._holding.unknown if holding is None else holding
        named, doubtful = masks.naming(principal)
        allow, deny = masks.covering(principal, model, model.operation, holding)
        if model.operation is Operation.HEALTH and model.name and not model.explicit:
            # Whether a model is ready is no secret to those who may run it.
            infer, no_infer = masks.covering(principal, model, Operation.INFER, holding)
            allow |= 0 if no_infer & (named | doubtful) else infer
        if denied := deny & named:
            return self._decision(Why.DENIED, denied & masks.written(model) or denied)
        if (allowed := allow & named) and not deny & doubtful:
            return self._decision(Why.ALLOWED, allowed)
        if hoped := allow & (named | doubtful):
            return self._decision(Why.GROUPS, deny & doubtful or hoped)
        return NOTHING

    def _decision(self, why: Why, rules: int) -> Decision:
        terms = self._terms(rules) if why is Why.ALLOWED and rules & self._masks.terms else ()
        return Decision(why, self.rules[_first(rules)], terms)

    def _terms(self, rules: int) -> tuple[tuple[str, Terms], ...]:
        """The different terms of these rules, each with the first rule that has them."""
        found = []
        while rules:
            rule = self.rules[_first(rules)]
            found.append((rule.id, rule.terms))
            rules &= ~self._masks.same_terms[rule.terms]
        return tuple(found)

    def _outcome(self, principal: Principal, model: ModelRef, holding: int | None) -> Grant | Decision:
        holding = self._holding.unknown if holding is None else holding
        key = (principal, model, holding)
        outcome = self._decided.get(key)
        if outcome is None:
            outcome = _granted(self.decide(principal, model, holding), principal, model)
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


def _first(rules: int) -> int:
    """The number of the first of them."""
    return (rules & -rules).bit_length() - 1


def _granted(decision: Decision, principal: Principal, model: ModelRef) -> Grant | Decision:
    rule = decision.rule
    if decision.why is not Why.ALLOWED or rule is None:
        return decision
    return Grant(principal, model, rule.id, rule.place, tuple(sorted(principal.groups & rule.groups)), decision.terms)


def _sentence(model: ModelRef) -> str:
    version = f" version {model.version}" if model.version and VERSION.fullmatch(model.version) else ""
    return (
        f"You are not allowed to {WORDS[model.operation]} model '{model.asked or model.name}'{version}; "
        f"ask an administrator of this gateway for a group that may (operation '{model.operation.value}')."
    )

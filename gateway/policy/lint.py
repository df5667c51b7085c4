"""What rules say but their author hardly meant.

Pure. Knows: rules, held against each other. Must not know: what else is configured (`fitting`), what is printed.
A finding claims nothing that is not certain: whoever takes out a rule that is `unreachable` or `redundant` changes
nobody's rights.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gateway import terms
from gateway.call import Operation
from gateway.policy.implication import apart, covers, impossible, parts, shuts
from gateway.policy.likenames import likely
from gateway.policy.patterns import included
from gateway.policy.rules import Effect, Rule

#: What is found, by the code that stands in its line; docs/policy-tools.md tells more.
CODES: Final = {
    "unreachable": "the rule never decides anything",
    "redundant": "other rules say all that this one says",
    "never_holds": "the rule means nobody whose groups are known",
    "opens_everything": "everybody of a provider may do everything with every model",
    "denies_everything": "everybody of a provider is denied every model",
    "misspelt_name": "a name looks like another that is used more",
    "overlap": "a rule denies a part of what another allows",
    "unknown_issuer": "no identity provider has this name",
    "unknown_group": "no identity provider can give this group",
    "unknown_model": "no model of this name is configured",
    "unopened_pool": "no rule lets anybody use any model of the pool",
    "unopened_model": "no rule lets anybody use the model",
    "versions_unseen": "calls of these models name no version",
    "caps_unseen": "calls of these models carry no fields that the limits could be held against",
}

NAMED_LIMIT: Final = 3  # rules that one line names


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, and where it stands. `rule` None: it is about none; `line` 0: of the whole file."""

    code: str
    rule: str | None
    file: str
    line: int
    message: str

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code} is not a code")

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.rule and f"rule {self.rule}", self.message) if part)


def about(code: str, rule: Rule, message: str) -> Finding:
    """A finding about `rule`, at its place."""
    return Finding(code, rule.id, rule.file, rule.line, message)


#: Goes through rules, each of which takes its time, and may show how far it is.
Watch = Callable[[Sequence[Rule]], Iterable[Rule]]


def lint(rules: Sequence[Rule], *, overlaps: bool = False, watch: Watch = iter) -> Iterator[Finding]:
    """What can be said of rules alone. `overlaps`: also where rules that deny cut into rules that allow."""
    possible = [rule for rule in rules if not impossible(rule) or rule.effect is Effect.DENY]
    for rule in rules:
        if impossible(rule):
            whom = "" if rule.effect is Effect.ALLOW else ": it denies none but callers whose groups are not known"
            yield about("never_holds", rule, f"whoever has one of its groups has one of its not_groups, too{whom}")
    shut = list(_unreachable(possible, watch))
    yield from shut
    gone = {finding.rule for finding in shut}
    yield from _redundant([rule for rule in possible if rule.id not in gone], watch)
    yield from (finding for rule in rules for finding in _everything(rule))
    yield from _misspelt(rules)
    if overlaps:
        yield from _overlaps(possible, watch)


class _Index:
    """Of many rules, those that can cover another: they mean everybody, or a name that it means."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._anybody: list[Rule] = []
        self._named: dict[tuple[str, str], list[Rule]] = defaultdict(list)
        for rule in rules:
            if rule.anybody:
                self._anybody.append(rule)
            for name in _subjects(rule):
                self._named[name].append(rule)

    def near(self, rule: Rule) -> list[Rule]:
        found = {id(one): one for one in self._anybody}
        found |= {id(one): one for name in _subjects(rule) for one in self._named.get(name, ())}
        return list(found.values())


def _subjects(rule: Rule) -> Iterator[tuple[str, str]]:
    yield from (("user", name) for name in rule.users)
    yield from (("group", name) for name in rule.groups)
    yield from (("client", name) for name in rule.clients)


def _covering(rule: Rule, others: Sequence[Rule], does: Callable[[Rule, Rule], bool]) -> list[Rule]:
    """Of `others`, those that together mean all that `rule` means; none where that is not certain."""
    for other in others:
        if does(other, rule):
            return [other]
    found: dict[str, Rule] = {}
    for part in parts(rule) if len(others) > 1 else ():
        other = next((other for other in others if does(other, part)), None)  # type: ignore[assignment]
        if other is None:
            return []
        found.setdefault(other.id, other)
    return list(found.values())


def _unreachable(rules: Sequence[Rule], watch: Watch) -> Iterator[Finding]:
    denying = [rule for rule in rules if rule.effect is Effect.DENY]
    allowing = [rule for rule in rules if rule.effect is Effect.ALLOW]
    index = _Index(denying)
    for rule in watch(allowing):
        if shutting := _covering(rule, index.near(rule), shuts):
            yield about("unreachable", rule, f"allows nothing, because all of it is denied by {_named(shutting)}")
    for rule in watch(denying):
        if all(apart(rule, other) for other in allowing):
            yield about("unreachable", rule, "denies nothing that any rule allows")


def _redundant(rules: Sequence[Rule], watch: Watch) -> Iterator[Finding]:
    """One after the other, the last first: all that are found can be taken out, and of equal ones the first stays."""
    index = {effect: _Index(rule for rule in rules if rule.effect is effect) for effect in Effect}
    gone: set[str] = set()
    found: list[Finding] = []
    for rule in watch(rules[::-1]):
        others = [one for one in index[rule.effect].near(rule) if one.id != rule.id and one.id not in gone]
        if covering := _covering(rule, others, _replaces):
            gone.add(rule.id)
            found.append(about("redundant", rule, f"all of it is {_PAST[rule.effect]} by {_named(covering)}, too"))
    yield from reversed(found)


_PAST: Final = {Effect.ALLOW: "allowed", Effect.DENY: "denied"}


def _replaces(one: Rule, other: Rule) -> bool:
    return terms.covers(one.terms, other.terms) and covers(one, other)


def _everything(rule: Rule) -> Iterator[Finding]:
    if not rule.anybody or rule.scopes or rule.conditional or rule.versions or not included("**", rule.models):
        return
    everybody = f"everybody of {', '.join(sorted(rule.issuers))}"
    if rule.effect is Effect.DENY and {Operation.INFER, Operation.STREAM} <= rule.operations and not rule.not_groups:
        yield about("denies_everything", rule, f"{everybody} is denied every model, whatever other rules say")
    if rule.effect is Effect.ALLOW and Operation.ADMIN in rule.operations:
        yield about("opens_everything", rule, f"{everybody} may administer every model; name the groups that may")


def _misspelt(rules: Sequence[Rule]) -> Iterator[Finding]:
    for kind in ("groups", "users", "clients", "scopes"):
        counts: Counter[str] = Counter()
        first: dict[str, Rule] = {}
        for rule in rules:
            for name in sorted(getattr(rule, kind) | (rule.not_groups if kind == "groups" else set())):
                counts[name] += 1
                first.setdefault(name, rule)
        for name, meant in likely(counts):
            text = f"{kind}: {name!a} is hardly another than {meant!a}, which stands at {first[meant].place}"
            yield about("misspelt_name", first[name], text)


def _overlaps(rules: Sequence[Rule], watch: Watch) -> Iterator[Finding]:
    allowing = [rule for rule in rules if rule.effect is Effect.ALLOW]
    for rule in watch([rule for rule in rules if rule.effect is Effect.DENY]):
        cut = [other for other in allowing if not apart(rule, other) and not shuts(rule, other)]
        if cut:
            yield about("overlap", rule, f"denies a part of what is allowed by {_named(cut)}")


def _named(rules: Sequence[Rule]) -> str:
    """A few of them, with their places."""
    names = ", ".join(f"{rule.id} at {rule.place}" for rule in rules[:NAMED_LIMIT])
    return names if len(rules) <= NAMED_LIMIT else f"{names} and {len(rules) - NAMED_LIMIT} more"

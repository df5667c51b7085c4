"""The policies that the settings name, as they are read: the one in force, and the one that is only tried.

Knows: where they stand, that each issuer they name must be a provider of the settings.
Must not know: what a rule says, how it decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from gateway import identities
from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.watch import UNKNOWN, Content, contents
from gateway.policy import files
from gateway.policy.engine import Policy
from gateway.policy.files import Written
from gateway.policy.rules import Rule
from gateway.settings import Settings


@dataclass(frozen=True, slots=True)
class Candidate:
    """The policy that is only tried, as it was read; with mistakes in it, it is not tried, and nothing else suffers.

    `policy` None: it has mistakes. `held`: what its place held; `UNKNOWN` where that changed while it was read.
    """

    written: Written = field(default_factory=Written)
    mistakes: tuple[Mistake, ...] = ()
    policy: Policy | None = None
    held: Content = UNKNOWN


def enforced(settings: Settings) -> Written:
    """The policy in force. Blocks. Raises `Mistakes`."""
    written = files.read(settings.policies.enforce)
    if found := _strangers(written.rules, settings):
        raise Mistakes(found)
    return written


def candidate(settings: Settings) -> Candidate | None:
    """The policy that is only tried, whatever is wrong with it; None where none is configured. Blocks."""
    path = settings.policies.shadow
    if path is None:
        return None
    before = contents((path,))
    found = _candidate(path, settings)
    return replace(found, held=before[path]) if contents((path,)) == before else found


def _candidate(path: Path, settings: Settings) -> Candidate:
    try:
        written = files.read(path)
        if found := _strangers(written.rules, settings):
            return Candidate(written, found)
        return Candidate(written, policy=Policy(written.rules, digest=written.digest))
    except Mistakes as error:
        return Candidate(mistakes=error.mistakes)
    except Exception as error:  # noqa: BLE001  whatever it is, the policy in force does not wait for it
        return Candidate(mistakes=(Mistake(str(path), 1, 1, f"cannot be read: {type(error).__name__}"),))


def mistakes_in(folder: Path) -> tuple[Mistake, ...]:
    """What is wrong with the policy files there by themselves."""
    try:
        files.load(folder)
    except Mistakes as error:
        return error.mistakes
    return ()


def _strangers(rules: Iterable[Rule], settings: Settings) -> tuple[Mistake, ...]:
    """Issuers that no provider has: a rule that denies by a misspelt name would deny nobody."""
    known = identities.names(settings)
    there = ", ".join(sorted(known))
    return tuple(
        Mistake(rule.file, rule.line, 1, f"rule {rule.id}: no identity provider is called {name!r}; there is {there}")
        for rule in rules
        for name in sorted(rule.issuers - known)
    )

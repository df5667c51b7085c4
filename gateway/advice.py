"""What a configuration allows but its author hardly meant: said as a warning, refused by nobody.

Knows: settings, rules, which names stand beside the policies. Must not know: how anything is built or logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from gateway.globs import compile_glob
from gateway.policy.engine import Effect, Rule
from gateway.settings import Settings


def advice(settings: Settings, rules: Iterable[Rule]) -> Iterator[str]:
    """One line for each; blocks on the policy folder."""
    rules = tuple(rules)
    names = [model.name for pool in settings.pools for model in pool.models]
    yield from _unmatched(rules, names)
    yield from _unopened(rules, settings)
    yield from _unread(settings.policies)
    if settings.mtls is not None and settings.listen.tls.client_ca is None:
        yield "identity.mtls: nobody is known by a certificate until listen.tls.client_ca says who vouches for them"


def _unmatched(rules: tuple[Rule, ...], names: list[str]) -> Iterator[str]:
    for rule in rules:
        for pattern in rule.models:
            if not any(map(compile_glob(pattern), names)):
                near = get_close_matches(pattern.lower(), [name.lower() for name in names], 1)
                hint = next((f"; did you mean {name!r}?" for name in names if near and name.lower() == near[0]), "")
                yield f"{rule.place}: rule {rule.id}: no configured model is called {pattern!r}{hint}"


def _unopened(rules: tuple[Rule, ...], settings: Settings) -> Iterator[str]:
    patterns = [compile_glob(pattern) for rule in rules if rule.effect is Effect.ALLOW for pattern in rule.models]
    for pool in settings.pools:
        if not any(matches(model.name) for matches in patterns for model in pool.models):
            yield f"pool {pool.name}: no rule allows any of its models, so nobody can use it"


def _unread(policies: Path) -> Iterator[str]:
    """Files that look like policies and are none: a rule that denies would be missed in silence."""
    if not policies.is_dir():
        return
    for entry in sorted(policies.iterdir()):
        if entry.name.startswith(".") or (entry.suffix == ".yaml" and entry.is_file()):
            continue
        if entry.is_dir() and entry.name != "tests" and any(entry.glob("*.y*ml")):
            yield f"{entry}: policies in subfolders are not read"
        elif entry.suffix in {".yml", ".json"}:
            yield f"{entry}: not read; policies are files called *.yaml"

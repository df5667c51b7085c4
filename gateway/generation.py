"""One generation of the gateway: everything that follows from the files, built at once and swapped as a whole.

Knows: constructors. Must not know: sockets, signals, when files change.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gateway import tls
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.call import Channel, Outcome
from gateway.config import load as config
from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.watch import UNKNOWN, Content, contents
from gateway.fetch import Fetch
from gateway.identity import FirstOf
from gateway.identity.keys import KeySet
from gateway.identity.oidc import OidcBearer
from gateway.identity.tokens import BearerIdentity
from gateway.pipeline import Pipeline
from gateway.policy import files as policyfile
from gateway.policy.engine import Policy, Rule
from gateway.pools.backends import Pool, build_pools
from gateway.resolve.resolver import HttpResolver
from gateway.seams import Wire
from gateway.settings import ClientTls, OidcIssuer, Settings
from gateway.startup import buildable


@dataclass(frozen=True, slots=True)
class Source:
    """What was read from the files. `files`: everything it depends on, to be watched, and what each held.

    One that changed while it was read holds `UNKNOWN`.
    """

    settings: Settings
    rules: tuple[Rule, ...]
    files: Mapping[Path, Content]


def look(path: Path, root: Path | None, known: Mapping[Path, Content] | None = None) -> dict[Path, Content]:
    """What each file that the configuration at `path` names holds: as in `known`, else as it is now. Blocks."""
    known = known or {}
    try:
        files = config.load(path, root).files
    except Mistakes as error:
        files = error.files
    return contents(file for file in files if file not in known) | {
        file: known[file] for file in files if file in known
    }


def read(path: Path, root: Path | None, seen: Mapping[Path, Content] | None = None) -> Source:
    """Read configuration and policies, whose files held what was `seen`, or is seen now, before they are read.

    Blocks. Raises `mistakes.Mistakes` with all there are in both.
    """
    seen = look(path, root) if seen is None else seen
    settings, rules = _read(path, root)
    files = {file: content if content == seen[file] else UNKNOWN for file, content in contents(seen).items()}
    return Source(settings, rules, files)


def _read(path: Path, root: Path | None) -> tuple[Settings, tuple[Rule, ...]]:
    try:
        loaded = config.load(path, root)
    except Mistakes as error:
        # The only folder a configuration depends on is that of the policies: what is wrong there is said along with it.
        folders = [file for file in error.files if file.is_dir()]
        raise Mistakes((*error.mistakes, *chain.from_iterable(map(_policy_mistakes, folders))), error.files) from None
    settings = loaded.settings
    try:
        rules = policyfile.load(settings.policies)
    except Mistakes as error:
        raise Mistakes(error.mistakes, loaded.files) from None
    if strangers := list(_strangers(rules, settings)):
        raise Mistakes(strangers, loaded.files)
    return settings, rules


def _policy_mistakes(folder: Path) -> tuple[Mistake, ...]:
    try:
        policyfile.load(folder)
    except Mistakes as error:
        return error.mistakes
    return ()


def _strangers(rules: Iterable[Rule], settings: Settings) -> Iterator[Mistake]:
    """Issuers that no provider has: a rule that denies by a misspelt name would deny nobody."""
    known = {issuer.name for issuer in settings.oidc}
    for rule in rules:
        for name in sorted(rule.issuers - known):
            text = f"rule {rule.id}: no identity provider is called {name!r}; there is {', '.join(sorted(known))}"
            yield Mistake(rule.file, rule.line, 1, text)


@dataclass(frozen=True, slots=True)
class Lasting:
    """What outlives a reload: numbers, open connections, places."""

    fetch: Fetch
    tallies: Tallies
    admission: Admission
    wires: Mapping[Channel, Wire]
    account: Callable[[Outcome], None]
    ready: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Generation:
    """`key_sets` by issuer; those whose settings did not change are carried over with their keys."""

    number: int
    source: Source
    pools: tuple[Pool, ...]
    key_sets: Mapping[OidcIssuer, KeySet]
    policy: Policy
    bearer: BearerIdentity
    pipeline: Pipeline

    def cache_entries(self) -> dict[str, int]:
        """How much is remembered of what callers showed and asked for."""
        return {"tokens": self.bearer.entries, "decisions": self.policy.entries}


def build(source: Source, lasting: Lasting, previous: Generation | None) -> Generation:
    """The next generation. Leaves `previous` alone: a failure changes nothing. Raises `Unbuildable` or `OSError`."""
    with buildable():
        return _build(source, lasting, previous)


def _build(source: Source, lasting: Lasting, previous: Generation | None) -> Generation:
    settings = source.settings
    pools = build_pools(settings.pools, previous.pools if previous else None, _client_context)
    key_sets = _key_sets(settings, lasting.fetch, previous)
    policy = Policy(source.rules, hide_models=settings.hide_models)
    bearer = BearerIdentity(
        [OidcBearer(issuer, keys, time.time) for issuer, keys in key_sets.items()],
        time.time,
        lasting.tallies.authenticated,
    )
    pipeline = Pipeline(
        resolver=HttpResolver(pools, policy.may, settings.listen.max_body, lasting.ready),
        identity=FirstOf([bearer]),
        policy=policy,
        admission=lasting.admission,
        wires=lasting.wires,
        account=lasting.account,
        tallies=lasting.tallies,
        timeouts=settings.limits.timeouts,
    )
    return Generation(previous.number + 1 if previous else 1, source, pools, key_sets, policy, bearer, pipeline)


def _key_sets(settings: Settings, fetch: Fetch, previous: Generation | None) -> dict[OidcIssuer, KeySet]:
    """A key set whose issuer's settings changed starts from the keys of the one before, where those still hold."""
    before = dict(previous.key_sets) if previous else {}
    by_name = {issuer.name: keys for issuer, keys in before.items()}
    key_sets: dict[OidcIssuer, KeySet] = {}
    for issuer in settings.oidc:
        keys = before.get(issuer)
        if keys is None:
            context = _client_context(ClientTls(ca=issuer.ca)) if issuer.ca else None
            keys = KeySet(issuer, fetch, time.monotonic, tls=context)
            if issuer.name in by_name:
                keys.adopt(by_name[issuer.name])
        key_sets[issuer] = keys
    return key_sets


def _client_context(settings: ClientTls | None) -> ssl.SSLContext:
    return tls.client_context(settings)

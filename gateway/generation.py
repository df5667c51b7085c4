"""One generation of the gateway: everything that follows from the files, built at once and swapped as a whole.

Knows: constructors. Must not know: sockets, signals, when files change.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from gateway import identities, policyfiles, tls
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.call import Channel, Outcome
from gateway.caps.meeting import Meeting
from gateway.config import load as config
from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.watch import UNKNOWN, Content, contents
from gateway.fetch import Fetch
from gateway.identities import Identities
from gateway.identity.passwords.throttle import Throttle
from gateway.identity.tokens.own import logins
from gateway.listed import Listed
from gateway.listed import read as read_listed
from gateway.pipeline import Pipeline
from gateway.policy.engine import Policy
from gateway.policy.files import Written
from gateway.policy.rules import Rule
from gateway.policyfiles import Candidate
from gateway.pools.backends import Pool, build_pools
from gateway.pools.health import servable
from gateway.providers import Around
from gateway.resolve.models import Catalogue
from gateway.resolve.resolver import HttpResolver
from gateway.seams import Ledger, Pages, Tried, Wire
from gateway.settings import ClientTls, Settings
from gateway.startup import buildable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """What was read from the files. `files`: everything it depends on, to be watched, and what each held.

    One that changed while it was read holds `UNKNOWN`. `secrets`: those of them that hold one. `candidate`: the shadow
    policy, if there is one and it was read as well; none of the files is its.
    """

    settings: Settings
    policy: Written
    listed: Listed
    files: Mapping[Path, Content]
    secrets: frozenset[Path] = frozenset()
    candidate: Candidate | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Those that are enforced."""
        return self.policy.rules

    @property
    def authorities(self) -> Content | None:
        """What the file holds that says who vouches for clients; None: nobody does."""
        file = self.settings.listen.tls.client_ca
        return None if file is None else self.files[file]


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
    """Read configuration, policies and lists, whose files held what was `seen`, or is seen now, before they are read.

    Blocks. Raises `mistakes.Mistakes` with all there are in them.
    """
    seen = look(path, root) if seen is None else seen
    loaded, policy, listed = _read(path, root)
    files = {file: content if content == seen[file] else UNKNOWN for file, content in contents(seen).items()}
    return Source(loaded.settings, policy, listed, files, loaded.secrets)


def read_all(path: Path, root: Path | None) -> Source:
    """As `read`, with the shadow policy."""
    source = read(path, root)
    return replace(source, candidate=policyfiles.candidate(source.settings))


def _read(path: Path, root: Path | None) -> tuple[config.Loaded, Written, Listed]:
    try:
        loaded = config.load(path, root)
    except Mistakes as error:
        # The only folders a configuration depends on are those of policies: what is wrong there is said along with it.
        folders = [file for file in error.files if file.is_dir() and file != path.absolute()]
        in_them = chain.from_iterable(map(policyfiles.mistakes_in, folders))
        raise Mistakes((*error.mistakes, *in_them), error.files) from None
    settings, found = loaded.settings, list[Mistake]()
    policy = _noted(found, lambda: policyfiles.enforced(settings), Written())
    listed = _noted(found, lambda: read_listed(settings, identities.names(settings)), Listed())
    if found:
        raise Mistakes(found, loaded.files)
    return loaded, policy, listed


def _noted(found: list[Mistake], load: Callable[[], T], otherwise: T) -> T:
    """What `load` gives; `otherwise` where it finds mistakes, which are noted."""
    try:
        return load()
    except Mistakes as error:
        found += error.mistakes
        return otherwise


@dataclass(frozen=True, slots=True)
class Lasting:
    """What outlives a reload: numbers, open connections, places, tasks."""

    fetch: Fetch
    tallies: Tallies
    admission: Admission
    throttle: Throttle
    wires: Mapping[Channel, Wire]
    account: Callable[[Outcome], None]
    ready: Callable[[], bool]
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    pages: Pages | None = None
    ledger: Ledger | None = None
    shadow: Tried | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """What runs under one reading of the files."""

    number: int
    source: Source
    pools: tuple[Pool, ...]
    catalogue: Catalogue
    identities: Identities
    policy: Policy
    pipeline: Pipeline

    def cache_entries(self) -> dict[str, int]:
        """How much is remembered of what callers showed and asked for."""
        return {**self.identities.cache_entries(), "decisions": self.policy.entries}

    def status(self) -> dict[str, object]:
        """What runs, for people; ages in seconds."""
        return {
            "generation": self.number,
            "policy": self.policy.digest,
            "rules": len(self.policy.rules),
            "issuers": {
                keys.name: {"ready": keys.ready, "keys_age_seconds": keys.age()}
                for keys in self.identities.key_sets.values()
            },
            "providers": {
                one.provider: {"ready": one.ready, "outage_seconds": one.outage, "bound_seconds": one.bound}
                for one in self.identities.standings()
            },
            "models": servable(self.pools),
            "pools": {
                pool.name: [
                    {
                        "backend": each.name,
                        "health": each.health.value,
                        "in_flight": each.in_flight,
                        "ejections": each.ejections,
                    }
                    for each in pool.backends
                ]
                for pool in self.pools
            },
        }


def changeable(running: Settings, source: Source) -> tuple[Source, tuple[str, ...]]:
    """`source` with what is bound at start-up as it runs, and the names of what differs there and waits for a restart.

    The rest is taken all the same: a prepared restart must not hold up a rule that takes a right away.
    """
    wanted = source.settings
    listen = replace(
        wanted.listen,
        address=running.listen.address,
        port=running.listen.port,
        trusted_proxies=running.listen.trusted_proxies,
    )
    settings = replace(wanted, listen=listen, management=running.management, limits=running.limits, audit=running.audit)
    parts = ("address", "port", "trusted_proxies")
    pending = [f"listen.{part}" for part in parts if getattr(wanted.listen, part) != getattr(listen, part)]
    pending += [part for part in ("management", "limits", "audit") if getattr(wanted, part) != getattr(settings, part)]
    return replace(source, settings=settings), tuple(pending)


def build(source: Source, lasting: Lasting, previous: Generation | None) -> Generation:
    """The next generation. Leaves `previous` alone: a failure changes nothing. Raises `Unbuildable` or `OSError`."""
    with buildable():
        return _build(source, lasting, previous)


def _build(source: Source, lasting: Lasting, previous: Generation | None) -> Generation:
    settings = source.settings
    pools = build_pools(settings.pools, previous.pools if previous else None, _client_context)
    tallies = lasting.tallies
    around = Around(lasting.fetch, tallies.authenticated, tallies.key_used, lasting.throttle, lasting.spawn)
    asked = identities.build(settings, source.listed, around, previous.identities if previous else None)
    number = previous.number + 1 if previous else 1
    policy = Policy(source.rules, hide_models=settings.hide_models, digest=source.policy.digest)
    resolver = HttpResolver(pools, policy.may, settings.listen.max_body, lasting.ready, aliases=settings.aliases)
    pipeline = Pipeline(
        resolver=resolver,
        identity=asked.first_of,
        policy=policy,
        terms=Meeting(),
        admission=lasting.admission,
        wires=lasting.wires,
        account=lasting.account,
        tallies=tallies,
        timeouts=settings.limits.timeouts,
        pages=lasting.pages if logins(settings) else None,
        rulebook=policy.rulebook(number),
        shadow=None if settings.policies.shadow is None else lasting.shadow,
        ledger=lasting.ledger,
    )
    return Generation(number, source, pools, resolver.catalogue, asked, policy, pipeline)


def _client_context(settings: ClientTls | None) -> ssl.SSLContext:
    return tls.client_context(settings)

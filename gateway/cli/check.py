"""`nim-gateway check`: say everything that is wrong with a configuration, without running it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from gateway import generation
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.advice import advice
from gateway.config.mistakes import Mistakes
from gateway.fetch import Fetch
from gateway.generation import Generation, Lasting, Source
from gateway.identity.ldap.directory import LdapDirectory
from gateway.identity.passwords.throttle import Throttle
from gateway.identity.provider.introspection import Introspector
from gateway.identity.provider.keys import KeySet
from gateway.pools.backends import Backend, Pool
from gateway.pools.readiness import Readiness, ask, ready_path
from gateway.startup import CannotStart, Unbuildable, buildable
from gateway.tls import server_context

EXAMPLE = "example: nim-gateway check --config config/gateway.yaml --online"

# Providers and backends asked at the same time: a site of hundreds is through in seconds, and no resolver is flooded.
_AT_ONCE = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--config FILE [--root DIR] [--online]`."""
    parser.epilog = EXAMPLE
    add_places(parser)
    parser.add_argument("--online", action="store_true", help="also ask the identity providers and the backends")


def add_places(parser: argparse.ArgumentParser) -> None:
    """`--config FILE [--root DIR]`, for each command that reads a configuration."""
    parser.add_argument(
        "--config", type=Path, default=Path("config/gateway.yaml"), help="the configuration file (default: %(default)s)"
    )
    parser.add_argument(
        "--root", type=Path, default=None, help="where relative paths start, that of --config too (default: here)"
    )


def place_of(args: argparse.Namespace) -> Path:
    """The configuration file, looked for under `--root` if that is given. Raises `CannotStart`."""
    config: Path = args.config
    root: Path | None = args.root
    if root is None:
        return config
    if not root.is_dir():
        raise CannotStart(f"--root {root} is not a folder")
    return root / config


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all is well, 2 when anything is not; every mistake on a line of its own, with its place.

    What is allowed but hardly meant is said, and well.
    """
    path = args.config
    try:
        path = place_of(args)
        source = generation.read(path, args.root)
        failures = asyncio.run(_tried(source, online=args.online))
    except Mistakes as error:
        count = len(error.mistakes)
        failures = [*map(str, error.mistakes), f"{count} mistake{'s' if count != 1 else ''}"]
    except Unbuildable as error:
        failures = [f"{path}: {error}"]
    except CannotStart as error:
        failures = [f"nim-gateway: {error}"]
    for failure in failures:
        print(failure, file=sys.stderr)  # noqa: T201  the command's answer
    if failures:
        return 2
    for line in advice(source):
        print(f"warning: {line}", file=sys.stderr)  # noqa: T201  the command's answer
    print(f"{path}: good ({', '.join(_counts(source))})")  # noqa: T201  the command's answer
    return 0


def _counts(source: Source) -> Iterator[str]:
    pools = source.settings.pools
    counts = (
        (len(pools), "pool"),
        (sum(len(pool.models) for pool in pools), "model"),
        (len(source.rules), "rule"),
        (len(source.settings.oidc) + len(source.settings.ldap), "identity provider"),
    )
    for count, word in counts:
        yield f"{count} {word}{'' if count == 1 else 's'}"


async def _tried(source: Source, *, online: bool) -> list[str]:
    """Build what `serve` would; whom it could not reach, if that is asked. Raises `Unbuildable`."""
    with buildable():
        server_context(source.settings.listen.tls)
    async with Fetch() as fetch:
        made = generation.build(source, _idle(fetch), None)
        return await _unreachable(made, fetch) if online else []


def _idle(fetch: Fetch) -> Lasting:
    """What a generation needs that will serve nobody."""
    throttle = Throttle(time.monotonic, lambda _: None, lambda *_: None)
    return Lasting(
        fetch, Tallies(), Admission(), throttle, {}, account=lambda _: None, ready=lambda: False, spawn=_never
    )


def _never(_: object) -> None:
    raise AssertionError("nobody calls, so nothing is to be found out for anybody")


async def _unreachable(made: Generation, fetch: Fetch) -> list[str]:
    """All providers and backends are asked at once, or nearly so; what is wrong is said in their order."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def asked(question: Coroutine[Any, Any, list[str]]) -> list[str]:
        async with gate:
            return await question

    questions = [
        *(_provider(issuer.jwks_uri or issuer.issuer, keys) for issuer, keys in made.identities.key_sets.items()),
        *(_directory(one) for one in made.identities.directories.values()),
        *(_introspection(one) for one in made.identities.introspectors.values()),
        *(_backend(fetch, pool, backend) for pool in made.pools for backend in pool.backends),
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asked(question)) for question in questions]
    return [failure for task in tasks for failure in task.result()]


async def _provider(source: str, keys: KeySet) -> list[str]:
    await keys.refresh()
    return [] if keys.ready else [f"identity provider {keys.name}: its signing keys cannot be had from {source}"]


async def _directory(directory: LdapDirectory) -> list[str]:
    why = await directory.look()
    directory.close()
    return [f"identity provider {directory.name}: it cannot be asked: {why}"] if why else []


async def _introspection(introspector: Introspector) -> list[str]:
    why = await introspector.try_out()
    return [f"identity provider {introspector.name}: it cannot be asked about tokens: {why}"] if why else []


async def _backend(fetch: Fetch, pool: Pool, backend: Backend) -> list[str]:
    seen = await ask(fetch, pool.settings, backend)
    return [f"pool {pool.name}: backend {backend.name}: {text}" for text in _lacks(pool, seen)]


def _lacks(pool: Pool, seen: Readiness) -> Iterator[str]:
    """What keeps calls away; a server that serves some models is not blamed for the others twice."""
    if not seen.serving:
        yield f"{ready_path(pool.settings)}: {seen.server.why}"
    for name, model in seen.models.items():
        if not model.ready:
            yield f"model {name}: {model.why}"

"""`nim-gateway check`: say everything that is wrong with a configuration, without running it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from gateway import generation
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.advice import advice, thorough
from gateway.cli.online import unreachable
from gateway.config.mistakes import Mistakes
from gateway.fetch import Fetch
from gateway.generation import Lasting, Source
from gateway.identity.passwords.throttle import Throttle
from gateway.startup import CannotStart, Unbuildable, buildable
from gateway.tls import server_context

EXAMPLE = "example: nim-gateway check --config config/gateway.yaml --online"


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
    logging.getLogger("gateway").addHandler(logging.NullHandler())  # the answer has it all, in words for whoever asked
    try:
        path = place_of(args)
        source = generation.read_all(path, args.root)
        failures = asyncio.run(_tried(source, path, online=args.online))
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
    for line in (*advice(source), *thorough(source)):
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


async def _tried(source: Source, path: Path, *, online: bool) -> list[str]:
    """Build what `serve` would; whom it could not reach, if that is asked.

    Raises `Unbuildable`, and `Mistakes` for those of a shadow policy, without which `serve` would run.
    """
    if source.candidate is not None and source.candidate.mistakes:
        raise Mistakes(source.candidate.mistakes)
    with buildable():
        server_context(source.settings.listen.tls)
    async with Fetch() as fetch:
        made = generation.build(source, _idle(fetch), None)
        return await unreachable(made, fetch, path) if online else []


def _idle(fetch: Fetch) -> Lasting:
    """What a generation needs that will serve nobody."""
    throttle = Throttle(time.monotonic, lambda _: None, lambda *_: None)
    return Lasting(
        fetch, Tallies(), Admission(), throttle, {}, account=lambda _: None, ready=lambda: False, spawn=_never
    )


def _never(_: object) -> None:
    raise AssertionError("nobody calls, so nothing is to be found out for anybody")

"""`nim-gateway check`: say everything that is wrong with a configuration, without running it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from gateway import generation
from gateway.config.mistakes import Mistake, Mistakes
from gateway.fetch import Fetch, FetchFailed
from gateway.generation import Source
from gateway.identity.keys import KeySet
from gateway.pools.backends import build_pools
from gateway.pools.health import ready_path
from gateway.settings import ClientTls
from gateway.tls import client_context

EXAMPLE = "example: nim-gateway check --config config/gateway.yaml --online"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--config FILE [--root DIR] [--online]`."""
    parser.epilog = EXAMPLE
    parser.add_argument("--config", type=Path, default=Path("config/gateway.yaml"), help="the configuration file")
    parser.add_argument("--root", type=Path, default=None, help="where relative paths start (default: here)")
    parser.add_argument("--online", action="store_true", help="also ask the identity providers and the backends")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all is well, 2 when anything is not; every mistake on a line of its own, with its place."""
    mistakes, source = _offline(args.config, args.root)
    for mistake in mistakes:
        _say(str(mistake))
    if source is None:
        _say(f"{len(mistakes)} mistake{'s' if len(mistakes) != 1 else ''}")
        return 2
    failures = asyncio.run(_online(source)) if args.online else []
    for failure in failures:
        _say(failure)
    if failures:
        return 2
    settings = source.settings
    models = sum(len(pool.models) for pool in settings.pools)
    print(  # noqa: T201  the command's answer
        f"{args.config}: good ({len(settings.pools)} pools, {models} models, {len(source.rules)} rules, "
        f"{len(settings.oidc)} identity providers)"
    )
    return 0


def _offline(path: Path, root: Path | None) -> tuple[tuple[Mistake, ...], Source | None]:
    try:
        return (), generation.read(path, root)
    except Mistakes as error:
        return error.mistakes, None


async def _online(source: Source) -> list[str]:
    failures: list[str] = []
    async with Fetch() as fetch:
        for issuer in source.settings.oidc:
            context = client_context(ClientTls(ca=issuer.ca)) if issuer.ca else None
            keys = KeySet(issuer, fetch, time.monotonic, tls=context)
            await keys.refresh()
            if not keys.ready:
                failures.append(f"identity provider {issuer.name}: its signing keys cannot be had from {issuer.issuer}")
        for pool in build_pools(source.settings.pools, None, client_context):
            path = ready_path(pool.settings)
            for backend in pool.backends:
                url = f"{backend.scheme}://{backend.authority.decode()}{backend.base_path.decode()}{path}"
                fields = () if backend.credential is None else (backend.credential,)
                try:
                    answer = await fetch.get(
                        url, timeout=pool.settings.health.timeout, limit=65536, fields=fields, tls=backend.tls
                    )
                except FetchFailed as failed:
                    failures.append(f"pool {pool.name}: backend {backend.name}: {failed}")
                else:
                    if answer.status != 200:
                        failures.append(f"pool {pool.name}: backend {backend.name}: {path} answers {answer.status}")
    return failures


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201  the command's answer

"""`nim-gateway serve`: run the gateway until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import sys

import uvloop

from gateway import app, logs
from gateway.cli.check import add_places, place_of
from gateway.config.mistakes import Mistakes
from gateway.startup import CannotStart, Unbuildable
from gateway.tls import TlsError

EXAMPLE = "example: nim-gateway serve --config config/gateway.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--config FILE [--root DIR]`."""
    parser.epilog = EXAMPLE
    add_places(parser)


def run(args: argparse.Namespace) -> int:
    """Exit 0 after a clean drain, 1 when a port or the audit file is not to be had, 2 on a bad configuration."""
    logs.configure()
    try:
        path = place_of(args)
    except CannotStart as error:
        print(f"nim-gateway: {error}", file=sys.stderr)  # noqa: T201  the command's answer
        return 2
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(app.serve(path, args.root))
    except Mistakes as mistakes:
        for mistake in mistakes.mistakes:
            print(mistake, file=sys.stderr)  # noqa: T201  the command's answer
        return 2
    except (CannotStart, TlsError) as error:
        place = f"{error.file} " if isinstance(error, TlsError) else ""
        print(f"nim-gateway: {place}{error}", file=sys.stderr)  # noqa: T201  the command's answer
        return 2 if isinstance(error, (Unbuildable, TlsError)) else 1
    return 0

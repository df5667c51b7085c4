"""`nim-gateway demo`: everything simulated behind a real gateway, with calls to paste.

Knows: the options, the two environment variables of `make demo`. Must not know: how the demo is run.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from gateway.demo import show

PORT = 8443
LAST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the demo."""
    parser.description = "Start simulated models, an identity provider and a gateway, and print calls to paste."
    parser.epilog = "example: nim-gateway demo --port 8444"
    port = f"port of the gateway, 0: any free one (default: $DEMO_PORT, or {PORT})"
    parser.add_argument("--port", type=int, help=port)
    seconds = "check the printed calls within this time and end (default: $DEMO_SECONDS, or run until Ctrl-C)"
    parser.add_argument("--seconds", type=float, help=seconds)


def run(args: argparse.Namespace) -> int:
    """Run the demo. 0: stopped, or all checked well; 1: a call or a part failed; 2: it could not start."""
    try:
        port, seconds = _wanted(args)
    except ValueError as error:
        _complain(f"demo: {error}")
        return 2
    return show.run(show.Wish(port, seconds, Path.cwd()), _say, _complain)


def _wanted(args: argparse.Namespace) -> tuple[int, float | None]:
    # The two are the interface of `make demo`, not configuration of the gateway.
    environment = os.environ  # noqa: TID251  read here only, see above
    port = args.port if args.port is not None else int(environment.get("DEMO_PORT") or PORT)
    seconds = args.seconds if args.seconds is not None else environment.get("DEMO_SECONDS") or None
    if not 0 <= port <= LAST_PORT:
        raise ValueError(f"a port is between 0 and {LAST_PORT}, not {port}")
    if seconds is not None and not float(seconds) > 0:
        raise ValueError("the time for the check must be more than 0 seconds")
    return port, None if seconds is None else float(seconds)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _complain(line: str) -> None:
    sys.stderr.write(line + "\n")

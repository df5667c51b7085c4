"""The simulated parts: `nim-gateway simulate nim|triton|idp`, for the demo and for trying out policies without a GPU.

Knows: the table of parts. Must not know: anything inside them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from gateway.simulate import idp, nim, triton, web


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that can be simulated. `builder` raises ValueError or OSError for options that cannot be."""

    help: str
    port: int
    add_arguments: Callable[[argparse.ArgumentParser], None]
    builder: Callable[[argparse.Namespace], web.Build]


PARTS: dict[str, Part] = {
    "nim": Part("an OpenAI-compatible NIM", 8000, nim.add_arguments, nim.builder),
    "triton": Part("a Triton server (KServe v2 over HTTP)", 8001, triton.add_arguments, triton.builder),
    "idp": Part("an OpenID provider with demo accounts", 9000, idp.add_arguments, idp.builder),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The parts as sub-commands, each with its options."""
    parser.description = "Run a simulated part until it is stopped; it says in one line when it is ready."
    kinds = parser.add_subparsers(dest="part", required=True, metavar="|".join(PARTS))
    for name, part in PARTS.items():
        kind = kinds.add_parser(
            name, help=part.help, description=f"Simulate {part.help}.",
            epilog=f"example: nim-gateway simulate {name} --port {part.port}",
        )  # fmt: skip
        kind.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        kind.add_argument("--port", type=int, default=part.port, help=f"0: any free one (default: {part.port})")
        kind.add_argument("--knobs", action="store_true", help="let anybody who reaches it turn knobs under /sim/")
        part.add_arguments(kind)


def run(args: argparse.Namespace) -> int:
    """Serve the chosen part until SIGTERM or SIGINT: 0; 2, with one line, when it cannot start."""
    part = PARTS[args.part]
    try:
        build = part.builder(args)
        listening = web.bound(args.host, args.port)
    except (ValueError, OSError, OverflowError) as error:
        sys.stderr.write(f"simulate {args.part}: {_said(args, error)}\n")
        return 2
    asyncio.run(web.serve(args.part, listening, build))
    return 0


def _said(args: argparse.Namespace, error: Exception) -> str:
    if isinstance(error, OSError) and not error.filename:
        why = os.strerror(error.errno or 0)
        return f"cannot listen on {args.host} port {args.port}: {why}; choose another with --port"
    return str(error)

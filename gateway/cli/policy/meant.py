"""Which policies an action of `nim-gateway policy` is about, and what is configured around them.

Knows: the arguments that say so. Must not know: what is done with them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.config import load as config
from gateway.settings import Settings
from gateway.startup import CannotStart

CONFIG: Final = Path("config/gateway.yaml")


@dataclass(frozen=True, slots=True)
class Meant:
    """A folder or file of policies; `settings` as they stand in `config`, None where that is not looked at."""

    policies: Path
    settings: Settings | None = None
    config: Path | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--policies PATH`, `--config FILE`, `--root DIR`."""
    parser.add_argument(
        "--policies",
        type=Path,
        default=None,
        metavar="PATH",
        help="a folder or file of policies, instead of those that --config names; alone, it needs no configuration",
    )
    parser.add_argument(
        "--config", type=Path, default=None, metavar="FILE", help=f"the configuration file (default: {CONFIG})"
    )
    parser.add_argument(
        "--root", type=Path, default=None, metavar="DIR", help="where relative paths start (default: here)"
    )


def meant(args: argparse.Namespace) -> Meant:
    """What the arguments say. Blocks on files. Raises `Mistakes`, `CannotStart`."""
    root: Path = args.root or Path()
    if not root.is_dir():
        raise CannotStart(f"--root {root} is not a folder")
    policies: Path | None = args.policies
    if policies is not None and args.config is None:
        return Meant(root / policies)
    path = root / (args.config or CONFIG)
    settings = config.described(path, args.root)
    return Meant(_near(settings.policies.enforce) if policies is None else root / policies, settings, path)


def _near(path: Path) -> Path:
    """As somebody here would write it, so that places in it are short and the same on every machine."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

"""Where the policies are that an action of `nim-gateway policy` is about, and what is configured around them.

Knows: the arguments that say so, the same for every action. Must not know: what is done with them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gateway.config import load as config
from gateway.settings import Settings
from gateway.startup import CannotStart

CONFIG: Final = Path("config/gateway.yaml")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file of policies; `settings` as they stand in `config`, None where that is not looked at."""

    policies: Path
    settings: Settings | None = None
    config: Path | None = None


def add_policies(parser: argparse.ArgumentParser) -> None:
    """`--policies PATH`, `--config FILE`, `--root DIR`."""
    parser.add_argument(
        "--policies",
        type=Path,
        metavar="PATH",
        help="a folder or file of policies, instead of those that --config names; alone, it needs no configuration",
    )
    add_config(parser, f"the configuration file (default: {CONFIG})")


def add_config(parser: argparse.ArgumentParser, text: str) -> None:
    """`--config FILE`, for which `text` is the help, and `--root DIR`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="where relative paths of policies, of --config and in it, and of --history start (default: here)",
    )


def place(args: argparse.Namespace) -> Place:
    """What the arguments say. Blocks on files. Raises `Mistakes`, `CannotStart`."""
    policies: Path | None = args.policies
    if policies is not None and args.config is None:
        return Place(rooted(args, policies))
    path, settings = configured(args)
    return Place(settings.policies.enforce if policies is None else rooted(args, policies), settings, path)


def configured(args: argparse.Namespace) -> tuple[Path, Settings]:
    """The configuration file and its settings, whether or not the certificates and secrets that it names are there.

    Blocks on files. Raises `Mistakes`, `CannotStart`.
    """
    path = rooted(args, args.config or CONFIG)
    settings = config.described(path, args.root)
    policies = settings.policies
    shadow, history = (None if one is None else near(one) for one in (policies.shadow, policies.history))
    near_by = replace(policies, enforce=near(policies.enforce), shadow=shadow, history=history)
    return path, replace(settings, policies=near_by)


def rooted(args: argparse.Namespace, path: Path) -> Path:
    """A path that was given, under `--root` if that is given. Raises `CannotStart`."""
    root: Path | None = args.root
    if root is None:
        return path
    if not root.is_dir():
        raise CannotStart(f"--root {root} is not a folder")
    return root / path


def near(path: Path) -> Path:
    """As somebody here would write it, so that places in it are short and the same on every machine."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

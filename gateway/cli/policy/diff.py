"""`nim-gateway policy diff`: whose calls another version of the policies would decide otherwise.

Knows: arguments, which policies and models are meant. Must not know: how differences are found, or told.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from gateway import identities
from gateway.cli.policy.diff_audit import compared
from gateway.cli.policy.diff_words import members, words
from gateway.cli.policy.place import add_config, configured, rooted
from gateway.cli.saying import CannotSay, finished, say, say_json
from gateway.config.mistakes import Mistakes
from gateway.policy import history
from gateway.policy.diff.bounds import TooMuch
from gateway.policy.diff.changes import Change, Known, differences
from gateway.policy.diff.models import Named
from gateway.policy.engine import Policy
from gateway.policy.files import read
from gateway.policy.history import NotKept
from gateway.progress import progress
from gateway.settings import Settings
from gateway.startup import CannotStart

TEXT: Final = "list everybody whose calls another version of the policies would decide otherwise"
EXAMPLE: Final = """examples:
  nim-gateway policy diff config/policies new-policies
  nim-gateway policy diff config/policies new-policies --config config/gateway.yaml --fail-on grant
"""

# Entries that are printed without --all; more than people read at one time.
_SHOWN: Final = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`OLD NEW`, what to compare, how to tell it."""
    parser.add_argument("old", metavar="OLD", help="a folder or file of policies, or with --history a digest")
    parser.add_argument("new", metavar="NEW", help="the same, for what would take its place")
    parser.add_argument("--history", type=Path, metavar="DIR", help="where policies are kept by their digests")
    add_config(parser, "compare the models and providers of this configuration only")
    parser.add_argument(
        "--audit", nargs="+", metavar="FILE", help="only of the calls in these audit files ('-': standard input)"
    )
    parser.add_argument("--fail-on", choices=("any", "grant"), default="any", help="exit 1: default any change")
    parser.add_argument("--json", action="store_true", help="everything, as one JSON object")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--limit", type=_positive, default=_SHOWN, help="entries to print (default: %(default)s)")
    shown.add_argument("--all", action="store_true", help="print every entry")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when nothing changes, 1 when something does (`--fail-on grant`: is newly allowed), 2 for a bad call.

    With `--audit` also 1 where that cannot be said of a call that was made, or of none.
    """
    try:
        old, new = (_policy(args, name) for name in (args.old, args.new))
        if args.audit:
            return _audited(args, old, new)
        changes = differences(old, new, time.time(), known=_known(args), watch=_watched)
    except (Mistakes, CannotStart, CannotSay, NotKept, TooMuch, OSError) as error:
        return finished(error)
    _tell(args, changes)
    return 1 if any(change.grants or args.fail_on == "any" for change in changes) else 0


def _audited(args: argparse.Namespace, old: Policy, new: Policy) -> int:
    """What comes of the calls that were made. Raises `Unreadable`."""
    tally = compared(args.audit, old, new)
    if args.json:
        say_json(tally.members())
    else:
        say(tally.words(None if args.all else args.limit))
    return 1 if tally.changes(grants=args.fail_on == "grant") or not tally.compared or tally.not_replayable else 0


def _policy(args: argparse.Namespace, name: str) -> Policy:
    """The one at this path, or the one of this digest. Raises `Mistakes`, `CannotStart`, `NotKept`."""
    path = rooted(args, Path(name))
    kept = None if args.history is None else rooted(args, args.history)
    written = read(path) if kept is None or path.exists() else history.load(kept, name, kept / name)
    return Policy(written.rules, digest=written.digest)


def _known(args: argparse.Namespace) -> Known | None:
    """What is configured. Raises `Mistakes` or `CannotStart`."""
    if args.config is None:
        return None
    _, settings = configured(args)
    return Known(tuple(_models(settings)), tuple(identities.names(settings)))


def _models(settings: Settings) -> list[Named]:
    """Each once, also if several pools serve it."""
    aliases: dict[str, set[str]] = {}
    for pool in settings.pools:
        for model in pool.models:
            aliases.setdefault(model.name, set()).update(model.aliases)
    return [Named(name, tuple(sorted(found))) for name, found in sorted(aliases.items())]


def _watched(questions: Sequence[Any]) -> Iterable[Any]:
    return progress(questions, "compared", len(questions))


def _tell(args: argparse.Namespace, changes: Sequence[Change]) -> None:
    if args.json:
        say_json(members(changes))
    elif not changes:
        say(["nothing changes: both decide every call alike"])
    else:
        say(words(changes, None if args.all else args.limit))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("expected a whole number from 1 on")
    return int(text)

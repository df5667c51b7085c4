"""`nim-gateway policy lint`: find what the policies say but hardly mean.

Knows: arguments, what is printed where. Must not know: what is looked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gateway.cli.policy.place import Place, add_policies, place
from gateway.cli.saying import counted, finished, say, say_json, warn
from gateway.config.mistakes import Mistakes
from gateway.identity.apikeys.keyfile import written
from gateway.policy.files import load
from gateway.policy.fitting import fitting
from gateway.policy.lint import CODES, Finding, lint
from gateway.policy.rules import Rule
from gateway.policy.surroundings import surroundings
from gateway.progress import progress
from gateway.startup import CannotStart

TEXT: Final = "find rules that do nothing, or more than they should, and names that fit nothing"
EXAMPLE: Final = """examples:
  nim-gateway policy lint
  nim-gateway policy lint --policies policies/ --json
  nim-gateway policy lint --ignore unopened_model --ignore unreachable:no-large

exit codes: 0 nothing found, 1 findings, 2 the call or a file is bad
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which policies, and how the answer is given."""
    add_policies(parser)
    parser.add_argument(
        "--overlaps", action="store_true", help="also where a rule denies a part of what another allows"
    )
    parser.add_argument(
        "--ignore",
        action="append",
        type=_code,
        default=[],
        metavar="CODE[:RULE]",
        help="leave out the findings of this code, or that of one rule; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="answer with one JSON object")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when nothing is found, 1 for findings, 2 for a bad call or file."""
    try:
        asked = place(args)
        found = list(_findings(asked, overlaps=args.overlaps))
    except (Mistakes, CannotStart, OSError) as error:
        return finished(error)
    ignore = set(args.ignore)
    warn(f"warning: --ignore {one} leaves nothing out" for one in sorted(ignore.difference(*map(_names, found))))
    kept = [finding for finding in found if ignore.isdisjoint(_names(finding))]
    found, ignored = kept, len(found) - len(kept)
    found.sort(key=lambda finding: (finding.file, finding.line, finding.code))
    if args.json:
        say_json({"findings": [_told(finding) for finding in found], "ignored": ignored})
    else:
        say(f"{finding} [{finding.code}]" for finding in found)
        more = f", {ignored} ignored" if ignored else ""
        say([f"{asked.policies}: {counted(len(found), 'finding') if found else 'nothing found'}{more}"])
    return 1 if found else 0


def _code(text: str) -> str:
    if text.partition(":")[0] not in CODES:
        raise argparse.ArgumentTypeError(f"there is no code {text.partition(':')[0]!r}; there is {', '.join(CODES)}")
    return text


def _names(finding: Finding) -> set[str]:
    """What it can be ignored by."""
    return {finding.code, f"{finding.code}:{finding.rule}"}


def _findings(asked: Place, *, overlaps: bool) -> Iterator[Finding]:
    rules = load(asked.policies)
    yield from lint(rules, overlaps=overlaps, watch=_watched)
    if asked.settings is not None:
        keys = asked.settings.api_keys
        groups = None if keys is None else _key_groups(keys.file)
        yield from fitting(rules, surroundings(asked.settings, groups, str(asked.config)))


def _watched(rules: Sequence[Rule]) -> Iterator[Rule]:
    return progress(rules, "rules", len(rules))


def _key_groups(file: Path) -> list[str] | None:
    """The groups of all keys; None where the file is kept elsewhere, or is not good: `check` tells that."""
    try:
        return [group for entry in written(file) for group in entry.groups]
    except Mistakes:
        return None


def _told(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "rule": finding.rule,
        "file": finding.file,
        "line": finding.line,
        "message": finding.message,
    }

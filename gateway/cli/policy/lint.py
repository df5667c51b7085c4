"""`nim-gateway policy lint`: find what the policies say but hardly mean.

Knows: arguments, what is printed where. Must not know: what is looked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gateway.cli.policy.place import Place, add_policies, place
from gateway.cli.saying import counted, finished, say, say_json
from gateway.config.mistakes import Mistakes
from gateway.identity.apikeys.keyfile import written
from gateway.policy.files import load
from gateway.policy.fitting import fitting
from gateway.policy.lint import Finding, lint
from gateway.policy.rules import Rule
from gateway.policy.surroundings import surroundings
from gateway.progress import progress
from gateway.startup import CannotStart

TEXT: Final = "find rules that do nothing, or more than they should, and names that fit nothing"
EXAMPLE: Final = """examples:
  nim-gateway policy lint
  nim-gateway policy lint --policies policies/ --json

exit codes: 0 nothing found, 1 findings, 2 the call or a file is bad
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which policies, and how the answer is given."""
    add_policies(parser)
    parser.add_argument(
        "--overlaps", action="store_true", help="also where a rule denies a part of what another allows"
    )
    parser.add_argument("--json", action="store_true", help="answer with one JSON object")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when nothing is found, 1 for findings, 2 for a bad call or file."""
    try:
        asked = place(args)
        found = list(_findings(asked, overlaps=args.overlaps))
    except (Mistakes, CannotStart, OSError) as error:
        return finished(error)
    found.sort(key=lambda finding: (finding.file, finding.line, finding.code))
    if args.json:
        say_json({"findings": [_told(finding) for finding in found]})
    else:
        say(f"{finding} [{finding.code}]" for finding in found)
        say([f"{asked.policies}: {counted(len(found), 'finding') if found else 'nothing found'}"])
    return 1 if found else 0


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

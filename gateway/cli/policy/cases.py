"""`nim-gateway policy test`: hold the policies against their cases.

Knows: arguments, what is printed where. Must not know: how a case is decided, what counts as covered.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gateway.cli.policy import said
from gateway.cli.policy.junit import junit
from gateway.cli.policy.named import models_named
from gateway.cli.policy.place import Place, add_policies, place
from gateway.cli.saying import counted, finished, say, say_json, warn
from gateway.config.mistakes import Mistakes
from gateway.policy import cases as casefile
from gateway.policy.cases import Case
from gateway.policy.engine import Policy, Why
from gateway.policy.files import load
from gateway.policy.trial import Coverage, Tried, coverage, told, tried
from gateway.startup import CannotStart

TEXT: Final = "try the cases that are kept beside the policies"
EXAMPLE: Final = """examples:
  nim-gateway policy test
  nim-gateway policy test --policies policies/ --require-coverage 100 --junit policy.xml
  nim-gateway policy test new-cases.yaml --json

exit codes: 0 every case passes, 1 one does not (or too few rules are covered), 2 the call or a file is bad
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`[FILE…]`, which policies, and how the answer is given."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="cases (default: tests/*.yaml beside the policies)"
    )
    add_policies(parser)
    parser.add_argument(
        "--require-coverage",
        type=_percent,
        default=None,
        metavar="PERCENT",
        help="fail if fewer of the rules are covered by a case that would fail without them",
    )
    parser.add_argument("--junit", type=Path, default=None, metavar="FILE", help="write the results as JUnit XML, too")
    parser.add_argument("--json", action="store_true", help="answer with one JSON object")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all cases pass, 1 when one does not or too few rules are covered, 2 for a bad call or file."""
    try:
        asked = place(args)
        policy = Policy(load(asked.policies))
        files = args.files or [casefile.beside(asked.policies)]
        known, warnings = _known(asked, casefile.read(files))
        results = [tried(policy, case) for case in known]
        covered = coverage(policy, results)
        lacking = _lacking(covered, args.require_coverage)
        if args.junit is not None:
            args.junit.write_bytes(junit(results, lacking))
    except (Mistakes, CannotStart, OSError) as error:
        return finished(error)
    warn(f"warning: {warning}" for warning in warnings)
    answer = _Answer(results, covered, lacking)
    if args.json:
        say_json(answer.told())
    else:
        say(answer.lines())
    return 0 if answer.good else 1


def _percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError("expected a number from 0 to 100")
    return percent


def _lacking(covered: Coverage, required: float | None) -> str:
    if required is None or covered.percent >= required:
        return ""
    return f"{_rounded(covered.percent)} % of the rules are covered, {required:g} % are required"


def _rounded(percent: float) -> str:
    """Never 100 before it is."""
    return f"{int(percent * 10) / 10:g}"


def _known(asked: Place, cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
    """The cases with aliases of models resolved as the gateway does, and what looks odd about their models."""
    if asked.settings is None:
        return list(cases), []
    found, warnings = [], []
    for case in cases:
        name, models = case.model.name, models_named(case.model.name, asked.settings)
        if not models:
            warnings.append(f"{case.place}: {case.name}: no model of the configuration is called {name!r}")
        if len(models) > 1:
            warnings.append(f"{case.place}: {case.name}: {name!r} means {', '.join(models)}; name one of them")
        found.append(replace(case, model=replace(case.model, name=models[0])) if len(models) == 1 else case)
    return found, warnings


@dataclass(frozen=True, slots=True)
class _Answer:
    results: Sequence[Tried]
    coverage: Coverage
    lacking: str

    @property
    def failed(self) -> int:
        return sum(not result.passed for result in self.results)

    @property
    def good(self) -> bool:
        return not self.failed and not self.lacking

    def lines(self) -> list[str]:
        """For people."""
        lines = [
            f"ok    {each.case.name}" if each.passed else f"FAIL  {each.case.name}: {each.wrong} ({each.case.place})"
            for each in self.results
        ]
        rules, missed = self.coverage.rules, self.coverage.uncovered
        count = len(self.results)
        lines += [f"not covered: rule {rule.id} ({rule.place})" for rule in missed]
        lines.append(
            f"{counted(count, 'case')}: {count - self.failed} passed, {self.failed} failed; "
            f"{rules - len(missed)} of {rules} rules covered ({_rounded(self.coverage.percent)} %)"
        )
        return lines + ([f"FAIL  {self.lacking}"] if self.lacking else [])

    def told(self) -> dict[str, Any]:
        """For programs."""
        return {
            "passed": len(self.results) - self.failed,
            "failed": self.failed,
            "cases": [_case(result) for result in self.results],
            "coverage": {
                "percent": self.coverage.percent,
                "rules": self.coverage.rules,
                "uncovered": [said.rule(rule) for rule in self.coverage.uncovered],
            },
        }


def _case(result: Tried) -> dict[str, Any]:
    case, decision = result.case, result.decision
    return {
        "name": case.name,
        "file": case.file,
        "line": case.line,
        "passed": result.passed,
        "expected": {"decision": "allow" if case.allowed else "deny", "rule": case.rule},
        "decision": None if decision is None else "allow" if decision.why is Why.ALLOWED else "deny",
        "rule": None if decision is None or decision.rule is None else said.rule(decision.rule),
        "reason": result.wrong or ("" if decision is None else told(decision)),
    }

"""`nim-gateway policy test`: hold the policies against their cases.

Knows: arguments, what is printed where. Must not know: how a case is decided, what counts as covered.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gateway.cli.policy import said
from gateway.cli.policy.junit import junit
from gateway.cli.policy.named import drawn, models_named
from gateway.cli.policy.place import Place, add_policies, place
from gateway.cli.saying import CannotSay, counted, finished, say, say_json, warn
from gateway.config.mistakes import Mistakes
from gateway.policy import cases as casefile
from gateway.policy.cases import Case
from gateway.policy.engine import Policy, Why
from gateway.policy.explain import listed
from gateway.policy.files import load
from gateway.policy.trial import Coverage, Tried, coverage, told, tried_in_turn
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
        known, warnings = _known(asked, casefile.read(args.files or [_beside(asked.policies)]))
        results = [tried_in_turn(policy, cases) for cases in known]
        covered = coverage(policy, results)
        lacking = _lacking(covered, args.require_coverage)
        if args.junit is not None:
            args.junit.write_bytes(junit(results, lacking, covered.uncovered))
    except (Mistakes, CannotStart, CannotSay, OSError) as error:
        return finished(error)
    warn(f"warning: {warning}" for warning in warnings)
    answer = _Answer(results, covered, args.require_coverage, lacking)
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


def _beside(policies: Path) -> Path:
    """The folder of cases. Raises `CannotSay` where there is none."""
    folder = casefile.beside(policies)
    if not folder.is_dir():
        raise CannotSay(f"there are no cases: write them in {folder}/*.yaml, or name a file")
    return folder


def _known(asked: Place, cases: Sequence[Case]) -> tuple[list[list[Case]], list[str]]:
    """Each case with the models that it may be about, resolved as the gateway does, and what looks odd about them."""
    settings = asked.settings
    if settings is None:
        return [[case] for case in cases], []
    known, odd = [], defaultdict[str, list[Case]](list)
    for case in cases:
        name = case.model.name
        drawing = drawn(name, settings, case.caller)
        models = drawing or models_named(name, settings)
        if not models:
            odd[f"no model of the configuration is called {name!r}"].append(case)
        elif len(models) > 1 and not drawing:
            odd[f"{name!r} means {listed(models)}; name one of them"].append(case)
        elif len(models) > 1 and case.rule and not (case.caller.subject and case.caller.provider):
            odd[f"which of {listed(models)} a caller draws for {name!r} hangs on user and issuer"].append(case)
        if not drawing and len(models) != 1:
            models = (name,)
        asked_name = name if drawing else ""
        known.append([replace(case, model=replace(case.model, name=one, asked=asked_name)) for one in models])
    return known, [_warning(what, about) for what, about in odd.items()]


def _warning(what: str, about: Sequence[Case]) -> str:
    """One line, however many cases it is about."""
    more = f" and {counted(len(about) - 1, 'more case')}" if len(about) > 1 else ""
    return f"{about[0].place}: {about[0].name}{more}: {what}"


@dataclass(frozen=True, slots=True)
class _Answer:
    results: Sequence[Tried]
    coverage: Coverage
    required: float | None
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
            f"ok    {each.case.name}" if each.passed else f"FAIL  {each.case.name}: {_wrong(each)}"
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
                "percent": float(_rounded(self.coverage.percent)),
                "required": self.required,
                "enough": not self.lacking,
                "rules": self.coverage.rules,
                "uncovered": [said.rule(rule) for rule in self.coverage.uncovered],
            },
        }


def _wrong(result: Tried) -> str:
    model = result.case.model
    which = f" for {model.name}, which was drawn for {model.asked}" if model.asked else ""
    return f"{result.wrong}{which} ({result.case.place})"


def _case(result: Tried) -> dict[str, Any]:
    case, decision = result.case, result.decision
    return {
        "name": case.name,
        "file": case.file,
        "line": case.line,
        "passed": result.passed,
        "model": case.model.name,
        "asked_model": case.model.asked or None,
        "expected": {"decision": "allow" if case.allowed else "deny", "rule": case.rule},
        "decision": None if decision is None else "allow" if decision.why is Why.ALLOWED else "deny",
        "rule": None if decision is None or decision.rule is None else said.rule(decision.rule),
        "reason": result.wrong or ("" if decision is None else told(decision)),
    }

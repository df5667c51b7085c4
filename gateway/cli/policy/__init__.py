"""`nim-gateway policy`: look at, try, compare and put in force what policies say.

Knows: which actions there are. Must not know: what they do.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from gateway.cli.saying import answered

EXAMPLE: Final = """examples:
  nim-gateway policy explain --user alice --groups data-science --model meta/llama-3.1-8b-instruct
  nim-gateway policy diff config/policies new-policies --fail-on grant
  nim-gateway policy promote --config config/gateway.yaml --dry-run
  nim-gateway policy test --require-coverage 100
  nim-gateway policy lint
"""

#: By name: the module with `TEXT`, `EXAMPLE`, `add_arguments(parser)` and `run(args) -> exit code`.
ACTIONS: Final[dict[str, str]] = {
    "explain": "gateway.cli.policy.explain",
    "diff": "gateway.cli.policy.diff",
    "promote": "gateway.cli.policy.promote",
    "test": "gateway.cli.policy.cases",
    "lint": "gateway.cli.policy.lint",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One action, with its own arguments."""
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    for name, module_name in ACTIONS.items():
        module = importlib.import_module(module_name)
        action = actions.add_parser(
            name,
            help=module.TEXT,
            description=module.TEXT,
            epilog=module.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(action)
        action.set_defaults(run_action=module.run)


def run(args: argparse.Namespace) -> int:
    """The exit code of the action. A fault is never an answer: 1 would say that something changes, or is denied."""
    return answered(f"policy {args.action}", lambda: args.run_action(args))

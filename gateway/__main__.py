"""The command line."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import platform
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from gateway import __version__

_EXAMPLES = """examples:
  nim-gateway demo
  nim-gateway check --config config/gateway.yaml
  nim-gateway serve --config config/gateway.yaml
  nim-gateway audit verify /var/log/nim-gateway/audit.jsonl
  nim-gateway key create --owner batch --groups data-science
"""

# Each command is a module with `add_arguments(parser)` and `run(args) -> exit code`, imported when it is asked for,
# so that `check` does not load what `serve` needs.
_COMMANDS = {
    "serve": ("gateway.cli.serve", "run the gateway"),
    "check": ("gateway.cli.check", "check configuration, policies and certificates"),
    "audit": ("gateway.cli.audit", "check that nothing is missing from audit files"),
    "policy": ("gateway.cli.policy", "explain, test, lint, compare and promote policies"),
    "login": ("gateway.cli.login", "get a token from a gateway or an OpenID provider"),
    "key": ("gateway.cli.key", "make, list and revoke API keys"),
    "simulate": ("gateway.simulate", "run a simulated NIM, Triton or identity provider"),
    "demo": ("gateway.demo", "run the gateway in front of simulated parts, ready to be called"),
}


# As a shell tells it of a command that Ctrl-C ended.
_INTERRUPTED = 130


def _built() -> str:
    """Whether the call path was compiled when this was built, and the Python that runs it."""
    found = importlib.util.find_spec("gateway.pipeline")
    plain = found is None or found.origin is None or found.origin.endswith(".py")
    return f"{'plain' if plain else 'compiled'}, Python {platform.python_version()}"


class _Parser(argparse.ArgumentParser):
    """Tells what it does not know by itself, so that a slip shows the usage of the command that it is in."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}; see {self.prog} --help")
        return known, unknown


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 failed, 2 a bad call or a bad configuration."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _Parser(
        prog="nim-gateway",
        description="An authenticating gateway and load balancer in front of NVIDIA NIM and Triton.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"nim-gateway {__version__} ({_built()})")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in given if not word.startswith("-")), None)
    runs: dict[str, Callable[[argparse.Namespace], int]] = {}
    for name, (module_name, text) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == chosen:
            module = importlib.import_module(module_name)
            module.add_arguments(command)
            runs[name] = module.run
    args = parser.parse_args(given)
    return runs[args.command](args)


def entry() -> None:
    """The process itself: also ends well, and without a trace, when it is told to before it listens to signals."""
    if sys.argv[1:2] == ["serve"]:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _end)
        for number in (signal.SIGHUP, signal.SIGUSR1):  # the files are only just being read
            signal.signal(number, signal.SIG_IGN)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _end(_number: int, _frame: object) -> None:
    """At once: nothing has begun, and an exception in the middle of an import may come out as another one."""
    os._exit(0)


if __name__ == "__main__":
    entry()

"""`python -m soak`: arguments, and the exit code.

Knows: the command line. Must not know: what a soak does.
"""

from __future__ import annotations

import argparse
import resource
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from soak.run import Plan, soak

WARM_UP_LIMIT = 30.0  # seconds; by then each act was done many times, and what is made once was made


def plan(given: Sequence[str]) -> Plan:
    """The command line, checked."""
    parser = argparse.ArgumentParser("python -m soak", description="Mixed and hostile traffic; then all must be level.")
    parser.add_argument("--seconds", type=float, default=600, help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument("--without-real", action="store_true", help="leave out the real engines, if they are here")
    parser.add_argument("--only", metavar="WORDS", default="", help="actors whose names have one of these, by commas")
    parser.add_argument("--folder", type=Path, help="where files and logs stay; default: a temporary one")
    options = parser.parse_args(given)
    if not options.seconds > 0:
        parser.error("--seconds takes a number above 0")
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    return Plan(
        warm_up=min(WARM_UP_LIMIT, options.seconds / 3),
        seconds=options.seconds,
        seed=seed,
        real=not options.without_real,
        only=tuple(filter(None, options.only.split(","))),
        folder=options.folder,
    )


def main(given: Sequence[str]) -> int:
    made = plan(given)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return uvloop.run(soak(made))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

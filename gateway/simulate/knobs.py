"""How a simulated part behaves: fast or slow, whole or broken. One frozen value, swapped whole.

Knows: the knobs, their bounds, their names on the command line and in JSON. Must not know: HTTP, sockets.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields, replace
from enum import StrEnum


class Failure(StrEnum):
    """What a failing call looks like from outside."""

    ERROR = "500"
    BUSY = "503"
    RESET = "reset"
    CUT = "cut"


#: A knob beyond these is a slip of the hand; no wait in here may outlast the longest timeout of a client (600 s).
LONGEST = 600.0
MOST_TOKENS = 1_000_000
MOST_CONCURRENT = 100_000


@dataclass(frozen=True, slots=True)
class Knobs:
    """Times in seconds. `max_concurrency` 0 is no limit. `failure_rate` is the share of calls that fail."""

    first_token: float = 0.02
    token_delay: float = 0.005
    tokens: int = 24
    failure_rate: float = 0.0
    failure: Failure = Failure.ERROR
    ready: bool = True
    max_concurrency: int = 0

    def __post_init__(self) -> None:
        for name, most in BOUNDS.items():
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise ValueError(f"{name} must be between 0 and {most:g}, not {value!r}")


BOUNDS: dict[str, float] = {
    "first_token": LONGEST,
    "token_delay": LONGEST,
    "tokens": MOST_TOKENS,
    "failure_rate": 1.0,
    "max_concurrency": MOST_CONCURRENT,
}
KINDS: dict[str, type] = {
    "first_token": float,
    "token_delay": float,
    "tokens": int,
    "failure_rate": float,
    "failure": Failure,
    "ready": bool,
    "max_concurrency": int,
}


def changed(knobs: Knobs, wanted: object) -> Knobs:
    """`knobs` with what the JSON object `wanted` names. Raises ValueError for anything that is not a knob."""
    if not isinstance(wanted, dict):
        raise ValueError("knobs are a JSON object")  # noqa: TRY004  a value of the request, not a slip of ours
    values: dict[str, object] = {}
    for name, value in wanted.items():
        if name not in KINDS:
            raise ValueError(f"there is no knob {name!r}; there are {', '.join(KINDS)}")
        values[name] = _converted(name, value)
    return replace(knobs, **values)  # type: ignore[arg-type]  # each was converted to its kind above


def as_json(knobs: Knobs) -> dict[str, object]:
    """The knobs as `changed` takes them."""
    return {field.name: getattr(knobs, field.name) for field in fields(knobs)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The knobs as options; each default is the one of `Knobs`."""
    plain = Knobs()
    wait = "wait before the first token (default: %(default)s)"
    parser.add_argument("--first-token", type=float, default=plain.first_token, metavar="SECONDS", help=wait)
    gap = "wait between tokens (default: %(default)s)"
    parser.add_argument("--token-delay", type=float, default=plain.token_delay, metavar="SECONDS", help=gap)
    length = "tokens of an answer (default: %(default)s)"
    parser.add_argument("--tokens", type=int, default=plain.tokens, metavar="N", help=length)
    parser.add_argument("--failure-rate", type=float, default=0.0, metavar="0..1", help="share of calls that fail")
    parser.add_argument(
        "--failure", choices=[kind.value for kind in Failure], default=plain.failure.value, help="how they fail"
    )
    parser.add_argument("--not-ready", dest="ready", action="store_false", help="answer readiness probes with no")
    parser.add_argument("--max-concurrency", type=int, default=0, metavar="N", help="more calls wait in a queue")


def from_arguments(args: argparse.Namespace) -> Knobs:
    """The knobs that the options say. Raises ValueError when one is out of bounds."""
    return changed(Knobs(), {name: getattr(args, name) for name in KINDS})


def _converted(name: str, value: object) -> object:
    kind = KINDS[name]
    if kind is Failure:
        return Failure(str(value))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} must be {kind.__name__}, not {value!r}")
    return value

"""`nim-gateway audit verify`: whether audit files are as they were written.

Knows: arguments, files, what is said where. Must not know: how the chain is made.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from gateway.accounting.order import ends, ordered
from gateway.accounting.verify import BREAKS, FileReport, Report, Verifier
from gateway.cli.auditfiles import Unreadable, lines, opened, total
from gateway.cli.saying import answered, counted, finished, say, say_json
from gateway.progress import progress

EXAMPLE: Final = """examples:
  nim-gateway audit verify /var/log/nim-gateway/audit.jsonl*
  nim-gateway audit verify --json --complete audit.jsonl.1 audit.jsonl

exit codes: 0 nothing is missing or changed, 1 something is, 2 a bad call
"""

_ROTATED: Final = re.compile(r"\.([0-9]{1,9})(\.gz)?$")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`verify`, with files."""
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "check the hash chain of audit files"
    verify = actions.add_parser(
        "verify", help=text, description=text, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verify.add_argument("files", nargs="+", metavar="FILE", help="one audit file and its rotated ones, also *.gz")
    verify.add_argument("--json", action="store_true", help="say it as JSON")
    verify.add_argument(
        "--complete", action="store_true", help="fail too if the first or the last lines may be missing"
    )
    verify.add_argument(
        "--after", type=_hash, metavar="HASH", help="the head that an earlier check told: go on from it"
    )
    verify.add_argument("--as-given", action="store_true", help="keep the order of the files (default: by their chain)")


def run(args: argparse.Namespace) -> int:
    """The exit code of the action; a fault is none that could mean that something was changed."""
    return answered(f"audit {args.action}", lambda: _verify(args))


def _verify(args: argparse.Namespace) -> int:
    """0 when nothing is missing or changed, 1 when something is, 2 when a file cannot be read."""
    try:
        paths = [Path(name) for name in args.files]
        if not args.as_given:
            paths = _in_order(paths)
        verifier = Verifier(args.after)
        for size in progress(_checked(verifier, paths), "verifying", total(paths), size=int):
            del size
    except Unreadable as error:
        return finished(error)
    report = verifier.report
    whole = report.whole and (not args.complete or (_begins(report, args.after) and report.joined and report.closed))
    if args.json:
        say_json({"whole": whole, **asdict(report)})
    else:
        say(_words(report, args.after, whole=whole))
    return 0 if whole else 1


def _hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise argparse.ArgumentTypeError("64 hexadecimal digits are expected")
    return text


def _checked(verifier: Verifier, paths: Iterable[Path]) -> Iterator[int]:
    for path in paths:
        with opened(path) as file:
            yield from verifier.read(str(path), lines(file))


def _in_order(paths: Sequence[Path]) -> list[Path]:
    """By the chain; what neither that nor times tell apart, by the numbers that rotation gives."""
    if len(paths) < 2:
        return list(paths)
    paths = sorted(paths, key=_number, reverse=True)
    found = []
    for path in progress(paths, "ordering", len(paths)):
        with opened(path) as file:
            found.append(ends(file))
    return [paths[at] for at in ordered(found)]


def _number(path: Path) -> int:
    found = _ROTATED.search(path.name)
    return int(found[1]) if found else 0


def _begins(report: Report, after: str | None) -> bool:
    return report.from_start or after is not None


def _words(report: Report, after: str | None, *, whole: bool) -> Iterator[str]:
    yield from map(_line_of, report.files)
    for found in report.found:
        yield f"{found.file}:{found.line}: {found.what} (after {found.after_file or 'the start'}:{found.after})"
    if report.breaks > BREAKS:
        yield f"and {report.breaks - BREAKS} more"
    if not any(one.links for one in report.files):
        yield (
            "not chained: no line says what stood before it "
            "(audit.chain is false, or these are no audit files, or not as they were written: line ends count)"
        )
        return
    if not _begins(report, after):
        yield (
            f"begins in the middle, behind {report.start}: "
            "earlier files were rotated away, or their lines and the first ones here were taken"
        )
    if not report.closed:
        yield (
            "ends open: the gateway still writes, or did not end in order, or lines were taken from the end; "
            f"no link holds the last {report.open_lines} yet"
        )
    yield f"head {report.head}"
    yield "whole" if whole else "NOT WHOLE"


def _line_of(one: FileReport) -> str:
    times = f", {one.first} to {one.last}" if one.first else ""
    notes = [
        what
        for count, what in (
            (one.lost, f"{one.lost} lost when they were to be written, as the gateway says"),
            (one.torn, f"{one.torn} cut short"),
            (one.foreign, f"{one.foreign} that are no audit lines, and without which the chain holds"),
            (one.crashes, f"{one.crashes} starts without an orderly end before"),
            (one.lines and not one.links, "not chained: none of them says what stood before it"),
            (one.unheld, f"nothing holds {counted(one.unheld, 'audit line')} in it, and anybody may have written them"),
            (one.anew, "new chain: it was a new file when the gateway started, and knows nothing of those before"),
            (one.breaks, counted(one.breaks, "break")),
        )
        if count
    ]
    return f"{one.file}: {counted(one.lines, 'line')}{times}{''.join(f'; {note}' for note in notes)}"

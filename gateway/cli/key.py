"""`nim-gateway key`: make, list and revoke API keys in the file that the gateway reads.

Knows: arguments, which file is meant, what is said where. Must not know: the form of a key, how the file is written.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gateway.cli.check import add_places, place_of
from gateway.config import load as config
from gateway.config import yamlfile
from gateway.config.mistakes import Mistakes
from gateway.config.replace import alone, replace
from gateway.config.units import LONGEST_TIME
from gateway.config.values import label
from gateway.identity.apikeys.keyedit import CannotChange, stamp, with_key, with_time
from gateway.identity.apikeys.keyfile import Entry, entries, written
from gateway.identity.apikeys.keytext import DIGEST_PREFIX, digest_of, id_of, new_id, new_key
from gateway.startup import CannotStart

EXAMPLE: Final = """examples:
  nim-gateway key create --owner batch --groups data-science --expires 90d
  nim-gateway key create --replaces k7f3m2qa --overlap 7d
  nim-gateway key list
  nim-gateway key revoke k7f3m2qa
"""

_SPAN: Final = re.compile(r"([0-9]{1,9})([mhd])")
_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": 86400.0}

#: Long enough to bring the new key to where the old one is.
OVERLAP: Final = 7 * 86400.0


class BadCall(Exception):  # noqa: N818  named for what happened, like the refusals
    """What was asked for does not go with the file. Its text is one line for the user."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`create`, `list` and `revoke`, each with `--file F`, or `--config FILE` for the file of keys that it names."""
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
    create = _action(actions, "create", "make a key; it is printed once, on standard output")
    create.add_argument(
        "--owner", type=_label, help="who calls with it: the subject of policies (needed, or --replaces)"
    )
    create.add_argument(
        "--groups", type=_labels, default=None, metavar="A,B", help="the owner's groups (default: none)"
    )
    create.add_argument(
        "--expires",
        type=_span,
        default=None,
        metavar="SPAN",
        help="such as 90d or 12h (default: never, or as the key it replaces)",
    )
    create.add_argument("--note", type=_label, default=None, help="for people; stands in the file")
    create.add_argument(
        "--replaces", default=None, metavar="ID", help="the key whose owner and groups the new one takes over"
    )
    create.add_argument(
        "--overlap",
        type=_span,
        default=None,
        metavar="SPAN",
        help="how long that one still holds (default: 7d)",
    )
    _action(actions, "list", "show the keys there are")
    revoke = _action(actions, "revoke", "let a key hold no more; it stays in the file, for the record")
    revoke.add_argument("id", metavar="ID", help="the eight characters behind nimgw_, or the key itself")


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name, help=text, description=text, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--file", type=Path, default=None, help="the file of keys (default: the one that --config names)"
    )
    add_places(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Exit 0 when it is done, 1 when the file cannot be written, 2 for a bad call or a bad file. That is left alone."""
    try:
        _ACTIONS[args.action](args)
    except Mistakes as error:
        for mistake in error.mistakes:
            _say(str(mistake))
        return 2
    except (BadCall, CannotStart) as error:
        _say(f"nim-gateway: {error}")
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"nim-gateway: {where}{error.strerror or error}")
        return 1
    return 0


def _create(args: argparse.Namespace) -> None:
    path, now = _path(args), float(int(time.time()))
    if args.owner is None and args.replaces is None:
        raise BadCall("say whose key it is: --owner NAME, or --replaces ID")
    if args.overlap is not None and args.replaces is None:
        raise BadCall("--overlap goes with --replaces ID: it says how long that key still holds")
    with alone(path.resolve().parent):  # where the file is, whatever link leads to it
        text = _text(path)
        before = _entries(text, path)
        entry, key = _new(args, before, now)
        text = _edited(path, lambda: with_key(text, str(path), entry))
        if args.replaces is not None:
            text = _edited(path, lambda: _superseded(text, path, before, args, now))
        replace(path, text)
    _say(f"key {entry.id} of {entry.owner} ({_groups(entry)}; {_until(entry)}) is in {path}. It is shown only now:")
    print(key, flush=True)  # noqa: T201  the command's answer


def _new(args: argparse.Namespace, before: Iterable[Entry], now: float) -> tuple[Entry, str]:
    """A key, and how it is kept. Raises `BadCall`."""
    old = None if args.replaces is None else _of(before, args.replaces)
    if old is not None and (old.revoked is not None or (old.expires is not None and old.expires <= now)):
        raise BadCall(f"key {old.id} holds no more; make a new one with --owner")
    taken = {entry.id for entry in before}
    key_id = next(found for found in iter(new_id, None) if found not in taken)
    key = new_key(key_id)
    entry = Entry(
        id=key_id,
        digest=DIGEST_PREFIX + digest_of(key).hex(),
        owner=args.owner or (old.owner if old else ""),
        groups=args.groups if args.groups is not None else (old.groups if old else ()),
        created=now,
        expires=_end(args.expires, old, now),
        note=args.note,
    )
    return entry, key


def _end(span: float | None, old: Entry | None, now: float) -> float | None:
    """When a new key ends: after `span` seconds, else after as long as the one that it replaces was made for."""
    if span is not None:
        return now + span
    if old is None or old.expires is None:
        return None
    _say(f"the new key holds as long as key {old.id} was made for; give --expires for another time")
    return now + old.expires - old.created


def _superseded(text: str, path: Path, before: Iterable[Entry], args: argparse.Namespace, now: float) -> str:
    """With the end of the key that is replaced: never later than it was."""
    old = _of(before, args.replaces)
    ends = min(
        now + (OVERLAP if args.overlap is None else args.overlap), float("inf") if old.expires is None else old.expires
    )
    _say(f"key {old.id} holds until {stamp(ends)}")
    return with_time(text, str(path), old.id, "expires", ends)


def _list(args: argparse.Namespace) -> None:
    path, now = _path(args), time.time()
    rows = [("ID", "OWNER", "GROUPS", "CREATED", "EXPIRES", "STATE", "NOTE")]
    for entry in written(path):
        expires = "never" if entry.expires is None else stamp(entry.expires)
        groups = ",".join(entry.groups) or "-"
        rows.append(
            (entry.id, entry.owner, groups, stamp(entry.created), expires, _state(entry, now), entry.note or "-")
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())  # noqa: T201  the command's answer


def _revoke(args: argparse.Namespace) -> None:
    path, now = _path(args), float(int(time.time()))
    with alone(path.resolve().parent):  # where the file is, whatever link leads to it
        text = _text(path)
        old = _of(_entries(text, path), args.id)
        if old.revoked is not None:
            _say(f"key {old.id} of {old.owner} is revoked already, since {stamp(old.revoked)}")
            return
        replace(path, _edited(path, lambda: with_time(text, str(path), old.id, "revoked", now)))
    _say(f"key {old.id} of {old.owner} is revoked; a running gateway refuses it within two seconds")


_ACTIONS: Final = {"create": _create, "list": _list, "revoke": _revoke}


def _path(args: argparse.Namespace) -> Path:
    """The file that is meant. Raises `Mistakes`, `CannotStart`, `BadCall`."""
    if args.file is not None:
        return Path(args.root or "", args.file)
    path = place_of(args)
    found = config.named(path, args.root, "identity", "api_keys", "file")
    if found is None:
        raise BadCall(f"{path} names no file of API keys: add identity.api_keys.file, or give --file")
    return found


def _text(path: Path) -> str:
    """What stands in the file; nothing if there is none yet. Raises `Mistakes` where it is not good YAML."""
    if not path.exists() or not (found := yamlfile.read_bytes(path)).strip():
        return ""
    yamlfile.read(found, str(path))  # also says whether it is UTF-8
    return found.decode()


def _entries(text: str, path: Path) -> tuple[Entry, ...]:
    return entries(yamlfile.read(text.encode(), str(path))) if text.strip() else ()


def _edited(path: Path, edit: Callable[[], str]) -> str:
    try:
        return edit()
    except CannotChange as error:
        raise BadCall(f"{path} {error}") from None


def _of(found: Iterable[Entry], name: str) -> Entry:
    """The key of this id, or the very key. Raises `BadCall`, which never repeats what may be a key."""
    key_id = id_of(name) or name
    entry = next((entry for entry in found if entry.id == key_id), None)
    if entry is None:
        raise BadCall("there is no key with this id; nim-gateway key list shows those there are")
    return entry


def _state(entry: Entry, now: float) -> str:
    if entry.revoked is not None:
        return "revoked"
    return "expired" if entry.expires is not None and entry.expires <= now else "active"


def _groups(entry: Entry) -> str:
    return f"groups {', '.join(entry.groups)}" if entry.groups else "no groups"


def _until(entry: Entry) -> str:
    return "never expires" if entry.expires is None else f"expires {stamp(entry.expires)}"


def _span(text: str) -> float:
    """Seconds, from text such as `90d`."""
    match = _SPAN.fullmatch(text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= LONGEST_TIME:
        raise argparse.ArgumentTypeError(
            "expected a time: a whole number with m, h or d, such as 90d; at most ten years"
        )
    return seconds


def _label(text: str) -> str:
    try:
        return label(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _labels(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_label, text.split(",")))) if text else ()


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201  beside the answer

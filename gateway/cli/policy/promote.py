"""`nim-gateway policy promote`: put the shadow policy in force.

Knows: which files are policies, what takes the place of what. Must not know: how rules decide.
"""

from __future__ import annotations

import argparse
import errno
import shutil
from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path
from typing import Final

from gateway import policyfiles
from gateway.cli.policy.place import CONFIG, add_config, configured, near
from gateway.cli.saying import CannotSay, counted, finished, say, warn
from gateway.config.folder import is_policy
from gateway.config.mistakes import Mistakes
from gateway.config.replace import alone, replace
from gateway.config.swap import free, swap
from gateway.policy import files as policyfile
from gateway.policy.cases import FOLDER
from gateway.policy.files import Written
from gateway.policy.rules import Rule
from gateway.settings import Policies
from gateway.startup import CannotStart

TEXT: Final = "put the shadow policy in force, all of it at once"
EXAMPLE: Final = """examples:
  nim-gateway policy promote --config config/gateway.yaml --dry-run
  nim-gateway policy promote --config config/gateway.yaml
"""

UNREAD: Final = "unread"
SHORT: Final = 12  # digits of a digest in the name of a folder; 48 bits tell the policies of one site apart

# Why a folder or file cannot be replaced from here, and what to do.
AT_ITS_SOURCE: Final = "put the new policies where it comes from"
WRITE: Final = {
    errno.EROFS: f"it is mounted read-only; {AT_ITS_SOURCE}",
    errno.EBUSY: f"it is a mount of its own and cannot be replaced as a whole; {AT_ITS_SOURCE}",
    errno.EXDEV: f"it is part of an image, or of another file system than its folder; {AT_ITS_SOURCE}",
    errno.EACCES: "you may not change it; run this as its owner",
    errno.EPERM: "you may not change it; run this as its owner",
}
CONFIG_MAP: Final = (
    "is a volume that Kubernetes writes, and what is changed in it is lost; change its ConfigMap or Secret"
)


class CannotPromote(CannotSay):
    """Why nothing is put in force: one line for whoever asked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--config FILE [--root DIR] [--dry-run]`."""
    add_config(parser, f"the configuration file (default: {CONFIG})")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when the shadow policy is in force, 1 when files could not be changed, 2 when it is no good.

    Unless 0, nothing has changed.
    """
    try:
        path, settings = configured(args)
        candidate = policyfiles.candidate(settings)
        if candidate is None:
            raise CannotPromote(f"{path} names no shadow policy: add policies.shadow")  # noqa: TRY301  all end here
        if candidate.mistakes:
            raise Mistakes(candidate.mistakes)  # noqa: TRY301  all end here
        return _promoted(settings.policies, candidate.written, dry_run=args.dry_run)
    except Mistakes as mistakes:
        code = finished(mistakes)
        warn(["nothing was changed"])
        return code
    except (CannotStart, CannotPromote) as error:
        return finished(error)
    except (OSError, TimeoutError) as error:
        warn([f"nim-gateway: {_unwritable(error)}; nothing was changed"])
        return 1


def _promoted(policies: Policies, shadow: Written, *, dry_run: bool) -> int:
    if policies.shadow is None:
        raise AssertionError("whoever has read it knows where it is")
    enforce, source = policies.enforce.resolve(), policies.shadow.resolve()
    if enforce == source:
        raise CannotPromote(f"policies.enforce and policies.shadow are the same, {policies.enforce}")
    _replaceable(enforce, shadow)
    before = _in_force(enforce)
    say(_story(policies, before, shadow))
    if before is not None and before.digest == shadow.digest:
        say(["nothing to do: both say the same"])
        return 0
    if dry_run:
        say(["nothing was changed (--dry-run)"])
        return 0
    with alone(enforce.parent):
        kept = free(_kept(enforce, before))
        _put(enforce, source, kept, shadow)
    taken = f"{policies.enforce} says what {policies.shadow} says; a running gateway takes it within two seconds"
    say([f"in force: {taken}", f"what was in force is kept in {near(kept)}"])
    return 0


def _kept(enforce: Path, before: Written | None) -> Path:
    """Where what was in force is kept, if that name is free."""
    return enforce.with_name(f"{enforce.name}.before-{UNREAD if before is None else before.digest[:SHORT]}")


def _replaceable(enforce: Path, shadow: Written) -> None:
    """Raises `CannotPromote` for what must not, or cannot, be replaced from here."""
    if enforce.is_dir():
        volume = enforce
        if odd := [name for name, _ in shadow.texts if not name.endswith(".yaml")]:
            raise CannotPromote(f"{odd[0]} is not called *.yaml, and of a folder nothing else is read")
    else:
        volume = enforce.parent
        if len(shadow.texts) != 1:
            raise CannotPromote(
                f"policies.enforce is one file, {enforce}, and the shadow policy has several; name a folder"
            )
    if volume.name.startswith("..") or (volume / "..data").exists():
        raise CannotPromote(f"{volume} {CONFIG_MAP}")


def _in_force(enforce: Path) -> Written | None:
    """None where there are mistakes in it: it may be put right by what takes its place."""
    try:
        return policyfile.read(enforce)
    except Mistakes:
        return None


def _put(enforce: Path, source: Path, kept: Path, shadow: Written) -> None:
    """Raises `OSError`, and then nothing has changed."""
    if not enforce.is_dir():
        shutil.copy2(enforce, kept)
        ((_, text),) = shadow.texts
        replace(enforce, text.decode())
        return
    cases = source / FOLDER if source.is_dir() and (source / FOLDER).is_dir() else None
    for name in swap(enforce, shadow.texts, kept, is_policy, cases):
        say([f"{name} is no policy and could not move along; it is in {kept}"])


def _story(policies: Policies, before: Written | None, shadow: Written) -> Iterator[str]:
    """What is in force, what would be, and the rules that differ: new, gone, changed."""
    was = "cannot be read" if before is None else _count(before)
    yield f"in force: {policies.enforce}: {was}"
    yield f"shadow:   {policies.shadow}: {_count(shadow)}"
    old = {} if before is None else {rule.id: _said(rule) for rule in before.rules}
    new = {rule.id: _said(rule) for rule in shadow.rules}
    for rule_id in sorted(old.keys() | new.keys()):
        if old.get(rule_id) != new.get(rule_id):
            yield f"  {'+' if rule_id not in old else '-' if rule_id not in new else '~'} {rule_id}"


def _said(rule: Rule) -> Rule:
    """What it says, wherever it stands."""
    return changed(rule, file="", line=0)


def _count(written: Written) -> str:
    return f"{counted(len(written.rules), 'rule')}, {written.digest}"


def _unwritable(error: OSError) -> str:
    if isinstance(error, TimeoutError) and error.errno is None:
        return str(error)
    reason = WRITE.get(error.errno or 0, error.strerror or "it cannot be changed")
    return f"{error.filename or 'the policy in force'}: {reason}"
